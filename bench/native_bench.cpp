// SPDX-License-Identifier: GPL-2.0-or-later
// Time of a step of the native engine on the CPU: microseconds an edge, and where they go.
//
//   native_bench [--double] [--operations] [--memory BYTES] [--cohort EDGES] [--repeat N]
//                REFERENCE.json ...
//
// A reference file names a model and a structure (tests/data/reference).
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "src/graph/periodic.h"
#include "src/io/checkpoint.h"
#include "src/native/step_engine.h"
#include "tools/reference_file.h"

namespace dpa4::bench {
namespace {

struct Options {
  bool use_double = false;
  bool operations = false;
  int repeat = 7;
  std::optional<int> cohort;  // edges; unset: as the processor likes it
  model::EvaluatorOptions evaluator;
  std::vector<std::string> files;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw InputError(word + " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--double") {
      options.use_double = true;
    } else if (word == "--operations") {
      options.operations = options.evaluator.profile = true;
    } else if (word == "--memory") {
      options.evaluator.memory = std::stoll(value());
    } else if (word == "--cohort") {
      options.cohort = options.evaluator.cohort = std::stoi(value());
    } else if (word == "--repeat") {
      options.repeat = std::stoi(value());
    } else {
      options.files.push_back(word);
    }
  }
  return options;
}

/// The processor, with cohorts of a given size.
class CohortMachine final : public kernels::Machine {
 public:
  explicit CohortMachine(std::optional<int> edges) : inner_(cpu::make_machine()), edges_(edges) {}

  std::string name() const override { return inner_->name(); }
  bool host_memory() const override { return true; }
  std::int64_t free_bytes() const override { return inner_->free_bytes(); }
  void* allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void release(void* memory) override { inner_->release(memory); }
  kernels::Stream stream() override { return nullptr; }
  void upload(void* to, const void* from, std::size_t bytes) override {
    inner_->upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    inner_->download(to, from, bytes);
  }
  void zero(void* memory, std::size_t bytes) override { inner_->zero(memory, bytes); }
  void synchronize() override {}
  int lanes() const override { return inner_->lanes(); }
  int preferred_count(std::int64_t bytes, int limit) const override {
    // Only edges have a limit of the user's.
    return edges_ && limit == *edges_ ? limit : inner_->preferred_count(bytes, limit);
  }
  void for_each(int n, Task task, void* context) override { inner_->for_each(n, task, context); }

 private:
  std::unique_ptr<kernels::Machine> inner_;
  std::optional<int> edges_;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Processor time of all threads: what a step costs where other programs run too.
double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Real>
void run(const std::string& path, const Options& options) {
  const tools::ReferenceFile file = tools::read_reference_file(path);
  NullLogger log;
  const io::Checkpoint checkpoint = io::read_checkpoint(tools::find_model(file), {}, log);
  const tools::Structure& atoms = file.frames.at(0).structure;
  std::vector<int> type;
  for (const std::string& element : atoms.element) {
    const auto& names = checkpoint.config.type_map;
    type.push_back(
        static_cast<int>(std::find(names.begin(), names.end(), element) - names.begin()));
  }
  graph::PeriodicGraph graph(checkpoint.config.rcut, checkpoint.config.n_types());
  model::Structure structure;
  structure.type = TensorView<const int, 1>(type.data(), static_cast<int>(type.size()));
  structure.edges = graph.build(atoms.positions(), structure.type, atoms.cell);

  native::StepEngine<Real> engine(
      checkpoint.config, checkpoint.weights, options.evaluator,
      {std::make_unique<CohortMachine>(options.cohort), &cpu::table<Real>()});
  model::NoHalo halo;
  model::Evaluation result;
  std::vector<double> times, processor_times;
  for (int i = 0; i < options.repeat + 1; ++i) {
    if (i == 1) engine.take_profile();
    const double start = seconds_now(), processor_start = processor_seconds();
    engine.evaluate(structure, {}, halo, {}, result);
    if (i == 0) continue;
    times.push_back(seconds_now() - start);
    processor_times.push_back(processor_seconds() - processor_start);
  }
  std::sort(times.begin(), times.end());
  std::sort(processor_times.begin(), processor_times.end());
  const int edges = structure.edges.n_edges();
  const double scale = 1e6 / edges;
  std::printf(
      "%-18s %5zu atoms %7d edges   wall: best %7.2f median %7.2f us/edge   processor: %7.2f "
      "us/edge   E %.9f\n",
      path.substr(path.find_last_of('/') + 1).c_str(), type.size(), edges, scale * times.front(),
      scale * times[times.size() / 2], scale * processor_times.front(), result.energy);
  if (!options.operations) return;
  for (const model::OperationTime& part : engine.take_profile()) {
    std::printf("    %-28s %8.3f us/edge (all threads)  %8lld calls\n", part.name.c_str(),
                1e6 * part.seconds / options.repeat / edges,
                static_cast<long long>(part.calls / options.repeat));
  }
}

}  // namespace
}  // namespace dpa4::bench

int main(int argc, char** argv) {
  using namespace dpa4;
  try {
    const bench::Options options = bench::parse(argc, argv);
    std::printf("%s, %d threads, %s\n", options.use_double ? "float64" : "float32",
                omp_get_max_threads(), cpu::instruction_sets().front().c_str());
    for (const std::string& file : options.files) {
      if (options.use_double) {
        bench::run<double>(file, options);
      } else {
        bench::run<float>(file, options);
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "native_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
