// SPDX-License-Identifier: GPL-2.0-or-later
// Time and memory of a step (energy, forces, virial) of the native engine: released architectures
// with random weights on slightly disordered diamond carbon, cutoff 6 Angstrom, edges built before.
//
//   model_bench [--device cuda|cpu] [--precision float32|float64] [--arithmetic NAME]
//               [--memory min|auto|BYTES] [--cohort N] [--warm-up N] [--repeat N] [--operations]
//               [--edges device|host] [--json FILE] [PRESET:ATOMS | FILE.pt:ATOMS ...]
//
// FILE.pt: a trained model instead of a preset, on diamond of its first element.
// --edges: where a step finds the edges and leaves the results of atoms; default: the device, as in
// dpa4/kk. --operations: where the time of a step goes, in steps of their own. Without PRESET:ATOMS
// the table of doc/performance.md.
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/logger.h"
#include "src/engine/bench_cases.h"
#include "src/model/step_bench.h"
#include "src/native/backends.h"
#include "src/native/native_evaluator.h"

namespace dpa4::bench {
namespace {

struct Options {
  model::EvaluatorOptions evaluator;
  model::StepBenchOptions step;
  std::string memory = "auto";
  std::string edges = "device";
  std::string json;
  std::vector<engine::BenchCase> cases;
};

Options parse(int argc, char** argv) {
  Options options;
  options.evaluator.device =
      native::cuda_devices() > 0 ? model::Device::kCuda : model::Device::kCpu;
  options.evaluator.precision = model::Precision::kFloat32;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw InputError(word + " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--device") {
      options.evaluator.device = value() == "cpu" ? model::Device::kCpu : model::Device::kCuda;
    } else if (word == "--precision") {
      options.evaluator.precision =
          value() == "float64" ? model::Precision::kFloat64 : model::Precision::kFloat32;
    } else if (word == "--arithmetic") {
      options.evaluator.arithmetic = value();
    } else if (word == "--memory") {
      options.memory = value();
      if (options.memory != "auto") {
        options.evaluator.memory = options.memory == "min" ? 0 : std::stoll(options.memory);
      }
    } else if (word == "--cohort") {
      options.evaluator.cohort = std::stoi(value());
    } else if (word == "--warm-up") {
      options.step.warm_up = std::stoi(value());
    } else if (word == "--repeat") {
      options.step.repeats = std::stoi(value());
    } else if (word == "--operations") {
      options.step.operations = true;
    } else if (word == "--edges") {
      options.edges = value();
    } else if (word == "--json") {
      options.json = value();
    } else {
      const auto found = engine::parse_bench_case(word);
      if (!found) throw InputError("PRESET:ATOMS or FILE.pt:ATOMS expected, not " + word);
      options.cases.push_back(*found);
    }
  }
  if (options.cases.empty()) options.cases = engine::usual_bench_cases(model::Device::kCuda);
  return options;
}

/// Copies structures to a device.
class Placement {
 public:
  explicit Placement(const model::EvaluatorOptions& options)
      : machine_(native::open_backend<float>(options).machine) {}
  ~Placement() { clear(); }
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  model::Structure operator()(const model::Structure& structure) {
    clear();
    model::Structure there = structure;
    const graph::EdgeList& edges = structure.edges;
    there.type = copy(structure.type);
    there.edges.src = copy(edges.src);
    there.edges.dst = copy(edges.dst);
    there.edges.dst_begin = copy(edges.dst_begin);
    there.edges.by_src = copy(edges.by_src);
    there.edges.src_begin = copy(edges.src_begin);
    const std::int64_t vec = edges.vec.size();
    there.edges.vec = {copy(edges.vec.data(), vec), edges.n_edges(), 3};
    machine_->synchronize();
    there.on_device = true;
    return there;
  }

 private:
  template <class T>
  T* copy(T* values, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    void* memory = machine_->allocate(bytes);
    owned_.push_back(memory);
    machine_->upload(memory, values, bytes);
    return static_cast<T*>(memory);
  }
  template <class T>
  TensorView<T, 1> copy(const TensorView<T, 1>& array) {
    return {copy(array.data(), array.size()), static_cast<int>(array.size())};
  }
  void clear() {
    machine_->synchronize();
    for (void* memory : owned_) machine_->release(memory);
    owned_.clear();
  }

  std::unique_ptr<kernels::Machine> machine_;
  std::vector<void*> owned_;
};

void run(Options options) {
  const model::EvaluatorOptions& evaluator = options.evaluator;
  const bool cuda = evaluator.device == model::Device::kCuda;
  options.step.used_bytes = [&] {
    return cuda ? -native::machine_info(evaluator).free_bytes : model::resident_bytes();
  };
  std::unique_ptr<Placement> placement;
  if (cuda && options.edges == "device") {
    model::EvaluatorOptions any = evaluator;
    any.precision = model::Precision::kFloat32;
    any.arithmetic = "auto";
    placement = std::make_unique<Placement>(any);
    options.step.place = std::ref(*placement);
  }
  const std::string machine = native::machine_info(evaluator).name;
  const std::string arithmetic =
      evaluator.arithmetic == "auto" ? native::candidates(evaluator).front() : evaluator.arithmetic;
  const bool float64 = evaluator.precision == model::Precision::kFloat64;
  const model::MachinePeak peak = model::machine_peak(machine, float64, arithmetic == "split");
  const std::string precision = float64 ? "float64" : "float32";
  std::cout << machine << ", " << precision << ", " << arithmetic << ", memory " << options.memory
            << (placement ? ", edges on the device" : ", edges on the host") << "\n";
  std::vector<model::StepBench> rows;
  NullLogger quiet;
  for (const engine::BenchCase& each : options.cases) {
    const engine::BenchModel opened = engine::open_bench_model(each.model, {}, quiet);
    const auto make = [&](bool profile) {
      model::EvaluatorOptions own = evaluator;
      own.profile = profile;
      return native::make_evaluator(opened.config, opened.weights, own);
    };
    rows.push_back(bench_step(each.model, opened.config, each.atoms, make, options.step));
    print_table(std::cout, {rows.back()}, peak);
    std::cout.flush();
  }
  if (options.json.empty()) return;
  std::ofstream file(options.json);
  print_json(file, machine, precision + " " + arithmetic, options.memory, rows, peak);
  if (!file) throw InputError("cannot write " + options.json);
}

}  // namespace
}  // namespace dpa4::bench

int main(int argc, char** argv) {
  try {
    dpa4::bench::run(dpa4::bench::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
