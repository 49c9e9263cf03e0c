// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/tensor_view.h"
#include "src/base/version.h"
#include "src/graph/edge_list.h"
#include "src/model/conditions.h"
#include "src/model/halo_exchange.h"

namespace dpa4::model {

enum class Precision { kFloat32, kFloat64 };
enum class Device { kCpu, kCuda };

/// How an evaluator is built; what the keywords of `pair_style dpa4` and of the `dpa4` tool set.
struct EvaluatorOptions {
  Precision precision = kDefaultIsFloat64 ? Precision::kFloat64 : Precision::kFloat32;
  Device device = Device::kCpu;
  int device_index = 0;
  int cohort = 0;  // most edges processed at a time; 0: what suits the machine
  std::optional<std::int64_t>
      memory;  // byte budget; 0: as little as can be; unset: by what is free
  /// Which kernels the native engine takes: "auto", or a name of native::candidates().
  std::string arithmetic = "auto";
  int sharers = 1;  // processes that share the memory of this device
  /// A CUDA stream of `device_index` to which all work goes, in the order of the calls; null: one
  /// of the evaluator's own, and a call ends when its work has ended.
  void* stream = nullptr;
  bool profile = false;  // measure operations one by one, see take_profile()
};

/// What an operation of the kernels took.
struct OperationTime {
  std::string name;
  double seconds = 0;  // on a device: from its begin to its end there; else processor time
  std::int64_t calls = 0;
  double flops = 0;  // arithmetic of its formula, where it is worth counting
  double bytes = 0;  // arrays read and written once
};

/// The atoms and edges of one rank at one step.
struct Structure {
  TensorView<const int, 1> type;       // (n_nodes)  index into the model's type_map, >= 0
  TensorView<const double, 2> aparam;  // (n_owned, numb_aparam) or empty
  graph::EdgeList edges;
  /// `type` and `edges` are in the memory of the evaluator's device, written by work that has
  /// ended or is on EvaluatorOptions::stream, and stay as they are until the results are there. The
  /// results of atoms are left there, too. Only for evaluators that work_on_device().
  bool on_device = false;
};

struct Request {
  bool atom_virial = false;
};

/// Results of own atoms in the memory of the evaluator's device, valid until `evaluate` is called
/// again. Complete when it returns, or, with an EvaluatorOptions::stream, for later work on that.
struct DeviceResults {
  TensorView<const double, 1> atom_energy;  // (n_owned)     [eV]
  TensorView<const double, 2> force;        // (n_owned, 3)  [eV/Angstrom]
  /// (n_nodes, 9) [eV]: the rows sum to this rank's share of the virial; when requested, the rows
  /// of own atoms are the atomic virials and the others are zero.
  TensorView<const double, 2> node_virial;
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
  DeviceResults device;             // in place of all the above where the structure is on_device
};

/// What a step needs, known before the first one. Counted is what the evaluator takes beside the
/// program itself (on a device: beside the driver's context and code).
struct MemoryPlan {
  std::int64_t fixed_bytes = 0;     // weights, tables and the buffers of one cohort
  std::int64_t bytes_per_atom = 0;  // per node row (owned or copied)
  std::int64_t bytes_per_edge = 0;
  int cohort = 0;  // edges worked on at a time
  int chunk = 0;   // atoms worked on at a time

  /// The buffers, contained in fixed_bytes. Steps with fewer edges than a cohort and fewer atoms
  /// than a chunk have smaller ones: the larger of their edges' and of their atoms' share.
  std::int64_t buffer_bytes = 0;
  std::int64_t buffer_bytes_per_edge = 0;
  std::int64_t buffer_bytes_per_atom = 0;

  /// Intermediate results that are kept where there is room, instead of being made again.
  std::int64_t kept_bytes_per_edge = 0;
  std::int64_t kept_limit = 0;         // for all of them, unless there is a budget
  std::optional<std::int64_t> budget;  // for everything, as the user said

  std::int64_t available = 0;  // bytes there were for all of this at the start; 0: not known

  /// The least that a step takes.
  std::int64_t total(std::int64_t n_nodes, std::int64_t n_edges) const {
    std::int64_t buffers = buffer_bytes;
    if (buffer_bytes_per_edge > 0) {
      buffers = std::max(buffer_bytes_per_edge * std::min<std::int64_t>(n_edges, cohort),
                         buffer_bytes_per_atom * std::min<std::int64_t>(n_nodes, chunk));
    }
    return fixed_bytes - buffer_bytes + buffers + bytes_per_atom * n_nodes +
           bytes_per_edge * n_edges;
  }
  /// What it takes beyond that to keep what it may.
  std::int64_t kept_bytes(std::int64_t n_nodes, std::int64_t n_edges) const {
    const std::int64_t room =
        budget ? std::max<std::int64_t>(*budget - total(n_nodes, n_edges), 0) : kept_limit;
    return std::min(room, kept_bytes_per_edge * n_edges);
  }
  /// What it takes in all.
  std::int64_t peak(std::int64_t n_nodes, std::int64_t n_edges) const {
    return total(n_nodes, n_edges) + kept_bytes(n_nodes, n_edges);
  }
  /// How many atoms with so many neighbors each fit into `bytes`.
  std::int64_t most_atoms(std::int64_t bytes, double neighbors) const {
    const double per_atom =
        static_cast<double>(bytes_per_atom) + static_cast<double>(bytes_per_edge) * neighbors;
    const double room = static_cast<double>(bytes - fixed_bytes);
    return room > 0 && per_atom > 0 ? static_cast<std::int64_t>(room / per_atom) : 0;
  }
};

/// A loaded model on a device. One call is one step; calls may have any sizes in any order.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  /// Energy, forces and virial of a structure. Collective over the ranks of `halo`.
  virtual void evaluate(const Structure& structure, const Conditions& conditions,
                        HaloExchange& halo, Request request, Evaluation& result) = 0;

  /// Whether structures may be on_device.
  virtual bool works_on_device() const { return false; }

  /// Whether their edges may have padding behind them (edge_list.h).
  virtual bool takes_padding() const { return false; }

  /// One line for the log: engine, precision, device.
  virtual std::string description() const = 0;

  virtual MemoryPlan memory_plan() const = 0;

  /// With EvaluatorOptions::profile: the operations since the last call, longest first.
  virtual std::vector<OperationTime> take_profile() { return {}; }
};

}  // namespace dpa4::model
