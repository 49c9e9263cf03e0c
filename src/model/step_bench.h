// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "src/model/evaluator.h"
#include "src/model/model_config.h"

namespace dpa4::model {

/// What a step (energy, forces, virial) of one system takes.
struct StepBench {
  std::string model;  // preset or file
  int n_atoms = 0;
  int n_edges = 0;
  double median_seconds = 0;
  double best_seconds = 0;
  std::int64_t planned_bytes = 0;         // MemoryPlan::peak, made before the first step
  std::int64_t cold_bytes = 0;            // measured growth up to and with the first step
  std::int64_t steady_bytes = 0;          // and after all steps
  double energy = 0;                      // [eV]
  std::vector<OperationTime> operations;  // of one step; empty unless asked for
};

struct StepBenchOptions {
  int warm_up = 3;
  int repeats = 10;         // 0: the first step is what is timed
  bool operations = false;  // in steps of their own, behind those that are timed
  double lattice = 3.567;   // cubic cell of diamond [Angstrom]; atoms displaced by 0.05 at random
  /// Memory in use, of the device or of the process. Only differences count.
  std::function<std::int64_t()> used_bytes;
  /// The structure as the timed steps get it, for one that is on_device; null: as it is.
  std::function<Structure(const Structure&)> place;
};

/// Measures steps of diamond with about `n_atoms` atoms of the model's first element. The edges are
/// built before. `make` makes the evaluator, with or without a profile.
StepBench bench_step(const std::string& name, const ModelConfig& config, int n_atoms,
                     const std::function<std::unique_ptr<Evaluator>(bool profile)>& make,
                     const StepBenchOptions& options);

/// Memory of this process that is in RAM.
std::int64_t resident_bytes();

/// The rate that a machine can reach; 0 where it is not known.
struct MachinePeak {
  double flops = 0;       // [1/s]
  double bytes = 0;       // [B/s]
  bool compared = false;  // DeePMD-kit was timed on such a machine
};
/// Peaks of known devices by (part of) their name. `split`: products of float32 made of three
/// products of half precision on tensor cores.
MachinePeak machine_peak(const std::string& name, bool float64, bool split);

/// A table of the measurements, beside those of DeePMD-kit where there are any, with the operations
/// below each row and the part of the time that the machine would need at its peak.
void print_table(std::ostream& out, const std::vector<StepBench>& rows, const MachinePeak& peak);

/// {"machine": ..., "arithmetic": ..., "memory": ..., "rows": [...]}
void print_json(std::ostream& out, const std::string& machine, const std::string& arithmetic,
                const std::string& memory, const std::vector<StepBench>& rows,
                const MachinePeak& peak);

}  // namespace dpa4::model
