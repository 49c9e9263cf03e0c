// SPDX-License-Identifier: GPL-2.0-or-later
// Resident memory of one step on the CPU against the number of atoms.
//
//   memory_bench [--engine eager|native] [--preset NAME] [--cohort N] ATOMS ...
//
// Random weights, slightly disordered diamond carbon, float32. Every size runs in a process of its
// own, so that its peak is its own; the last column is the memory of each atom beyond the size
// before.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/eager/eager_evaluator.h"
#include "src/graph/periodic.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"
#include "src/native/native_evaluator.h"

namespace dpa4::bench {
namespace {

struct Options {
  std::string engine = "eager";
  std::string preset = "neo";
  int cohort = 8192;
  std::vector<int> sizes;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw InputError(word + " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--engine") {
      options.engine = value();
    } else if (word == "--preset") {
      options.preset = value();
    } else if (word == "--cohort") {
      options.cohort = std::stoi(value());
    } else {
      options.sizes.push_back(std::stoi(word));
    }
  }
  return options;
}

/// Cubic cells of 8 atoms, each atom displaced by about 0.05 Angstrom; at least `n_atoms` atoms.
struct Diamond {
  explicit Diamond(int n_atoms) {
    const int cells = std::max(1, static_cast<int>(std::lround(std::cbrt(n_atoms / 8.0))));
    const double a = 3.567;
    constexpr double kBasis[8][3] = {{0, 0, 0},       {0, .5, .5},     {.5, 0, .5},
                                     {.5, .5, 0},     {.25, .25, .25}, {.25, .75, .75},
                                     {.75, .25, .75}, {.75, .75, .25}};
    std::mt19937 random(1);
    std::normal_distribution<double> shift(0, 0.05);
    for (int i = 0; i < cells; ++i)
      for (int j = 0; j < cells; ++j)
        for (int k = 0; k < cells; ++k)
          for (const auto& site : kBasis) {
            x.push_back((i + site[0]) * a + shift(random));
            x.push_back((j + site[1]) * a + shift(random));
            x.push_back((k + site[2]) * a + shift(random));
          }
    const double side = cells * a;
    cell = graph::Cell::periodic_3d({{{side, 0, 0}, {0, side, 0}, {0, 0, side}}});
  }

  int n_atoms() const { return static_cast<int>(x.size() / 3); }

  std::vector<double> x;
  graph::Cell cell;
};

struct Measurement {
  int n_atoms = 0;
  int n_edges = 0;
  double seconds = 0;
  double resident_bytes = 0;
};

/// Two steps, the second one timed.
Measurement measure(const Options& options, int n_atoms) {
  const model::ModelConfig config = model::preset(options.preset, {"C"});
  const model::Weights weights = model::random_weights(config, 1);
  model::EvaluatorOptions evaluator_options;
  evaluator_options.cohort = options.cohort;
  const auto evaluator = options.engine == "native"
                             ? native::make_evaluator(config, weights, evaluator_options)
                             : eager::make_evaluator(config, weights, evaluator_options);
  const Diamond diamond(n_atoms);
  const std::vector<int> type(static_cast<std::size_t>(diamond.n_atoms()), 0);
  graph::PeriodicGraph graph(config.rcut, 1);
  model::Structure structure;
  structure.type = {type.data(), diamond.n_atoms()};
  structure.edges =
      graph.build({diamond.x.data(), diamond.n_atoms(), 3}, structure.type, diamond.cell);
  model::NoHalo halo;
  model::Evaluation result;
  evaluator->evaluate(structure, {}, halo, {}, result);
  const auto start = std::chrono::steady_clock::now();
  evaluator->evaluate(structure, {}, halo, {}, result);
  Measurement m;
  m.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  m.n_atoms = diamond.n_atoms();
  m.n_edges = structure.edges.n_edges();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  m.resident_bytes = 1024.0 * static_cast<double>(usage.ru_maxrss);
  return m;
}

/// Runs `measure` in a child process.
Measurement measure_alone(const Options& options, int n_atoms) {
  int ends[2];
  if (pipe(ends) != 0) throw InternalError("dpa4 bench: pipe failed");
  const pid_t child = fork();
  if (child == 0) {
    const Measurement m = measure(options, n_atoms);
    _exit(write(ends[1], &m, sizeof m) == sizeof m ? 0 : 1);
  }
  close(ends[1]);
  Measurement m;
  const bool complete = read(ends[0], &m, sizeof m) == sizeof m;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!complete || status != 0) throw InternalError("dpa4 bench: a measurement failed");
  return m;
}

void run(const Options& options) {
  std::printf("engine %s, preset %s, float32, cohorts of %d edges\n", options.engine.c_str(),
              options.preset.c_str(), options.cohort);
  std::printf("%8s %10s %12s %14s %22s\n", "atoms", "edges", "s/step", "peak MB",
              "bytes per added atom");
  Measurement before;
  for (int n_atoms : options.sizes) {
    const Measurement m = measure_alone(options, n_atoms);
    std::printf("%8d %10d %12.3f %14.1f", m.n_atoms, m.n_edges, m.seconds, m.resident_bytes / 1e6);
    if (before.n_atoms > 0) {
      std::printf(" %22.0f",
                  (m.resident_bytes - before.resident_bytes) / (m.n_atoms - before.n_atoms));
    }
    std::printf("\n");
    std::fflush(stdout);
    before = m;
  }
}

}  // namespace
}  // namespace dpa4::bench

int main(int argc, char** argv) {
  try {
    dpa4::bench::run(dpa4::bench::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "memory_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
