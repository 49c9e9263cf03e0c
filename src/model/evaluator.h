// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/tensor_view.h"
#include "src/base/version.h"
#include "src/graph/edge_list.h"
#include "src/model/halo_exchange.h"

namespace dpa4::model {

enum class Precision { kFloat32, kFloat64 };
enum class Device { kCpu, kCuda };

/// How an evaluator is built; what the keywords of `pair_style dpa4` and of the `dpa4` tool set.
struct EvaluatorOptions {
  Precision precision = kDefaultIsFloat64 ? Precision::kFloat64 : Precision::kFloat32;
  Device device = Device::kCpu;
  int device_index = 0;
  int cohort = 8192;                   // largest number of edges processed at a time, >= 1
  std::optional<std::int64_t> memory;  // byte budget; unset: chosen from what is free
  int sharers = 1;                     // processes that share the memory of this device
};

/// External conditions of a run; empty members take the model's defaults (or none).
struct Conditions {
  std::vector<double> fparam;                        // (numb_fparam)
  std::optional<std::array<double, 2>> charge_spin;  // total charge, spin multiplicity
};

/// The atoms and edges of one rank at one step.
struct Structure {
  TensorView<const int, 1> type;       // (n_nodes)  index into the model's type_map, >= 0
  TensorView<const double, 2> aparam;  // (n_owned, numb_aparam) or empty
  graph::EdgeList edges;
};

struct Request {
  bool atom_virial = false;
};

/// What a rank gets back, for its own atoms only (contributions to other ranks' atoms have been
/// sent home through the HaloExchange). `energy` and `virial` are this rank's share: sum them over
/// ranks.
struct Evaluation {
  double energy = 0;                // [eV]
  std::array<double, 9> virial{};   // [eV], row-major, -sum g (x) vec; compressive positive
  std::vector<double> atom_energy;  // (n_owned)     [eV]
  std::vector<double> force;        // (n_owned * 3) [eV/Angstrom]
  std::vector<double> atom_virial;  // (n_owned * 9) [eV], only when requested; sums to `virial`
};

/// What a step needs, known before the first one.
struct MemoryPlan {
  std::int64_t fixed_bytes = 0;     // weights, tables and the buffers of one cohort
  std::int64_t bytes_per_atom = 0;  // per node row (owned or copied)
  std::int64_t bytes_per_edge = 0;
  int cohort = 0;

  std::int64_t total(std::int64_t n_nodes, std::int64_t n_edges) const {
    return fixed_bytes + bytes_per_atom * n_nodes + bytes_per_edge * n_edges;
  }
};

/// A loaded model on a device. One call is one step; calls may have any sizes in any order.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  /// Energy, forces and virial of a structure. Collective over the ranks of `halo`.
  virtual void evaluate(const Structure& structure, const Conditions& conditions,
                        HaloExchange& halo, Request request, Evaluation& result) = 0;

  /// One line for the log: engine, precision, device.
  virtual std::string description() const = 0;

  virtual MemoryPlan memory_plan() const = 0;
};

}  // namespace dpa4::model
