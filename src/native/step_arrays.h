// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dpa4::native {

/// Cuts one piece of memory into arrays; without memory it only counts.
class Carver {
 public:
  explicit Carver(char* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    constexpr std::int64_t kAlignment = 256;
    char* result = base_ != nullptr ? base_ + used_ : nullptr;
    used_ +=
        (count * static_cast<std::int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(result);
  }
  std::int64_t used() const { return used_; }

 private:
  char* base_;
  std::int64_t used_ = 0;
};

/// How large a step is. Arrays are made for the largest one so far.
struct StepCounts {
  std::int64_t owned = 0;
  std::int64_t nodes = 0;
  std::int64_t edges = 0;

  bool covers(const StepCounts& other) const {
    return owned >= other.owned && nodes >= other.nodes && edges >= other.edges;
  }
  /// Room for both.
  static StepCounts most(const StepCounts& a, const StepCounts& b) {
    return {std::max(a.owned, b.owned), std::max(a.nodes, b.nodes), std::max(a.edges, b.edges)};
  }
};

/// Elements that a model keeps of a node or an edge.
struct ArraySizes {
  struct Block {
    std::int64_t row = 0;         // input of the block, D C
    std::int64_t hidden_row = 0;  // D Cw
    std::int64_t weights = 0;     // F H
  };
  std::vector<Block> blocks;
  std::int64_t row = 0;  // widest features of a node
  std::int64_t hidden_row = 0;
  std::int64_t hidden = 0;
  std::int64_t weights = 0;
  std::int64_t environment = 0;
  std::int64_t n_aparam = 0;
  bool gate = false;     // source gates of bridging
  bool mirrors = false;  // copies of the caller's arrays: the machine cannot read the host's
};

/// Everything that is kept of nodes and edges during a step, in one piece of memory. Nothing is
/// carried from one step to the next.
template <class Real>
struct StepArrays {
  // Copies of the caller's arrays; null where the machine reads the originals.
  int* type = nullptr;       // (N)
  int* src = nullptr;        // (E)
  int* dst = nullptr;        // (E)
  int* dst_begin = nullptr;  // (n_owned + 1)
  int* by_src = nullptr;     // (E)
  int* src_begin = nullptr;  // (N + 1)
  double* vec = nullptr;     // (E, 3)
  Real* aparam = nullptr;    // (n_owned, n_aparam)

  std::vector<Real*> inputs;      // of each block: (N, D C)
  std::vector<Real*> sums, lses;  // of each block: (n_owned, D Cw), (n_owned, F H)
  Real* kappa = nullptr;          // (n_owned)
  Real* gate_partial = nullptr;   // (N, 2)
  Real* gate = nullptr;           // (N)
  Real* environment = nullptr;    // (n_owned, 4, width)
  Real* features = nullptr;       // (N, D Cw)
  Real* query = nullptr;          // (N, Cw)
  Real* key = nullptr;            // (N, Cw)
  Real* logit = nullptr;          // (E, F H)

  Real* grad_x = nullptr;            // (N, D C)
  Real* grad_sum = nullptr;          // (n_owned, D Cw)
  Real* row_sum = nullptr;           // (n_owned, F H)
  Real* grad_features = nullptr;     // (N, D Cw)
  Real* grad_query = nullptr;        // (N, Cw)
  Real* grad_key = nullptr;          // (N, Cw)
  Real* grad_environment = nullptr;  // (n_owned, 4, width)
  Real* grad_degree = nullptr;       // (n_owned)
  Real* grad_kappa = nullptr;        // (n_owned)
  Real* grad_gate = nullptr;         // (N)
  Real* grad_vec = nullptr;          // (E, 3)

  // Results, one behind the other.
  double* energy = nullptr;       // (n_owned)
  double* force = nullptr;        // (N, 3)
  double* node_virial = nullptr;  // (N, 9)

  void lay_out(Carver& carver, const ArraySizes& sizes, const StepCounts& counts);
};

/// Bytes that the arrays of a step take.
template <class Real>
std::int64_t array_bytes(const ArraySizes& sizes, const StepCounts& counts) {
  Carver carver(nullptr);
  StepArrays<Real>().lay_out(carver, sizes, counts);
  return carver.used();
}

}  // namespace dpa4::native
