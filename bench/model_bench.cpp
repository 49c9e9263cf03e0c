// SPDX-License-Identifier: GPL-2.0-or-later
// Time and device memory of a step (energy, forces, virial) of the native engine on a CUDA device:
// released architectures with random weights on slightly disordered diamond carbon, cutoff 6
// Angstrom, edges built before. Median of ten steps after three.
//
//   model_bench [--double] [--plain] [--operations] [--cohort N] [--memory BYTES] [PRESET:ATOMS
//   ...]
//
// --plain: float32 products by fused multiply-adds. --operations: where the time goes, each
// operation waited for. Without PRESET:ATOMS the table of doc/performance.md.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/timed_table.h"
#include "kernels/cuda/cuda_backend.h"
#include "src/base/error.h"
#include "src/graph/periodic.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"
#include "src/native/step_engine.h"

namespace dpa4::bench {
namespace {

struct Size {
  std::string preset;
  int atoms;
};

struct Options {
  bool use_double = false;
  bool operations = false;
  cuda::Arithmetic arithmetic = cuda::Arithmetic::kSplit;
  model::EvaluatorOptions evaluator;
  std::vector<Size> sizes;
};

Options parse(int argc, char** argv) {
  Options options;
  options.evaluator.cohort = 131072;
  options.evaluator.device = model::Device::kCuda;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw InputError(word + " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--double") {
      options.use_double = true;
    } else if (word == "--plain") {
      options.arithmetic = cuda::Arithmetic::kPlain;
    } else if (word == "--operations") {
      options.operations = true;
    } else if (word == "--cohort") {
      options.evaluator.cohort = std::stoi(value());
    } else if (word == "--memory") {
      options.evaluator.memory = std::stoll(value());
    } else {
      const std::size_t colon = word.find(':');
      if (colon == std::string::npos) throw InputError("PRESET:ATOMS expected, not " + word);
      options.sizes.push_back({word.substr(0, colon), std::stoi(word.substr(colon + 1))});
    }
  }
  if (options.sizes.empty()) {
    options.sizes = {{"nano", 8000}, {"mini", 8000}, {"neo", 4096}, {"air", 4096}, {"plus", 1728},
                     {"pro", 1000},  {"nano", 64},   {"mini", 64},  {"neo", 64},   {"air", 64}};
  }
  return options;
}

/// Cubic cells of 8 atoms, each atom displaced by about 0.05 Angstrom.
struct Diamond {
  std::vector<double> x;
  graph::Cell cell;

  explicit Diamond(int n_atoms) {
    constexpr double kLattice = 3.567, kShift = 0.05;
    constexpr double kBasis[8][3] = {{0, 0, 0},       {0, .5, .5},     {.5, 0, .5},
                                     {.5, .5, 0},     {.25, .25, .25}, {.25, .75, .75},
                                     {.75, .25, .75}, {.75, .75, .25}};
    const int cells = std::max(1, static_cast<int>(std::lround(std::cbrt(n_atoms / 8.0))));
    std::mt19937 random(1);
    std::normal_distribution<double> shift(0, kShift);
    for (int i = 0; i < cells * cells * cells; ++i) {
      const int at[3] = {i / cells / cells, i / cells % cells, i % cells};
      for (const auto& site : kBasis) {
        for (int a = 0; a < 3; ++a) x.push_back((at[a] + site[a]) * kLattice + shift(random));
      }
    }
    const double side = cells * kLattice;
    cell = graph::Cell::periodic_3d({{{side, 0, 0}, {0, side, 0}, {0, 0, side}}});
  }
  int n_atoms() const { return static_cast<int>(x.size() / 3); }
};

void wait_for(kernels::Stream stream) { cudaStreamSynchronize(static_cast<cudaStream_t>(stream)); }

std::int64_t used_bytes() {
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return static_cast<std::int64_t>(total - free);
}

template <class Real>
void print_operations(TimedTable<Real>& timed, int steps) {
  std::vector<OperationTime> parts = timed.times();
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  for (const OperationTime& part : parts) {
    if (part.calls == 0) continue;
    std::printf("    %-28s %9.3f ms %6lld calls\n", part.name.c_str(), 1e3 * part.seconds / steps,
                part.calls / steps);
  }
}

template <class Real>
void run(const Options& options, const Size& size, TimedTable<Real>& timed) {
  constexpr int kWarmUp = 3, kSteps = 10;
  const model::ModelConfig config = model::preset(size.preset, {"C"});
  const model::Weights weights = model::random_weights(config, 1);
  const Diamond diamond(size.atoms);
  const std::vector<int> type(static_cast<std::size_t>(diamond.n_atoms()), 0);
  graph::PeriodicGraph graph(config.rcut, 1);
  model::Structure structure;
  structure.type = {type.data(), diamond.n_atoms()};
  structure.edges =
      graph.build({diamond.x.data(), diamond.n_atoms(), 3}, structure.type, diamond.cell);

  const std::int64_t before = used_bytes();
  const kernels::KernelTable<Real>& table =
      options.operations ? timed.table() : cuda::table<Real>(options.arithmetic);
  native::StepEngine<Real> engine(config, weights, options.evaluator,
                                  {cuda::make_machine(0), &table});
  model::NoHalo halo;
  model::Evaluation result;
  std::vector<double> times;
  for (int i = 0; i < kWarmUp + kSteps; ++i) {
    if (i == kWarmUp) timed.reset();
    const auto start = std::chrono::steady_clock::now();
    engine.evaluate(structure, {}, halo, {}, result);
    if (i < kWarmUp) continue;
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%-6s %8d %10d %10.2f %10.2f %8.3f   %.6f\n", size.preset.c_str(), diamond.n_atoms(),
              structure.edges.n_edges(), 1e3 * times[times.size() / 2], 1e3 * times.front(),
              1e-9 * static_cast<double>(used_bytes() - before), result.energy);
  if (options.operations) print_operations(timed, kSteps);
  std::fflush(stdout);
}

template <class Real>
void run_all(const Options& options) {
  TimedTable<Real> timed(cuda::table<Real>(options.arithmetic), wait_for);
  for (const Size& size : options.sizes) run(options, size, timed);
}

void run(const Options& options) {
  std::printf(
      "%s, %s, cohorts of up to %d edges, memory %s\n", cuda::make_machine(0)->name().c_str(),
      options.use_double                               ? "float64"
      : options.arithmetic == cuda::Arithmetic::kPlain ? "float32 plain"
                                                       : "float32 split",
      options.evaluator.cohort,
      options.evaluator.memory ? std::to_string(*options.evaluator.memory).c_str() : "auto");
  std::printf("%-6s %8s %10s %10s %10s %8s   %s\n", "preset", "atoms", "edges", "median ms",
              "best ms", "GB", "energy eV");
  if (options.use_double) {
    run_all<double>(options);
  } else {
    run_all<float>(options);
  }
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
