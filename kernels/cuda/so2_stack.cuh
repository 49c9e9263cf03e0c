// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/so2_stack.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "src/math/activation.h"

/// The mixing stack as a chain of matrix products with the gates in their prologues and epilogues.
///
/// Forward, a gated layer (z1, z0: the parts |m| = 1 and m = 0 of z):
///   1  z0 = u0 m0                                        z0 stored
///   2  s = sigmoid(z0[0] gate)                           s stored; u0 += silu(z0[0]), s z0[l]
///   3  u1' = u1 + s (u1 m1)                              z1 stored where it is kept
/// Backward:
///   1  s = sigmoid(z0[0] gate)                           s and the gradients of the gates' logits
///   2  h = g0[0] silu' + (gradients of logits) gate^T    gradient of z0[0]
///   3  g0' = g0 + [h | s g0[l]] m0^T
///   4  g1' = g1 + (s g1) m1^T
/// A product reads whole rows of what it adds to, so it writes to another buffer than it reads
/// from.
namespace dpa4::cuda {

struct StackSizes {
  int width;  // Cf
  int gates;  // L Cf
  int row;    // R Cf
  int m0, m1;
  int n_focus;
  int count;

  StackSizes(const kernels::MessageShape& shape, int n_edges)
      : width(shape.width),
        gates(shape.lmax * shape.width),
        row(shape.row_size()),
        m0((shape.lmax + 1) * shape.width),
        m1(2 * shape.lmax * shape.width),
        n_focus(shape.n_focus),
        count(n_edges) {}

  /// Elements of an array (F, count, size).
  std::int64_t total(int size) const { return static_cast<std::int64_t>(n_focus) * count * size; }
};

/// Rows (F, count, size) in memory.
template <class Real>
struct EdgeRows {
  Real* data = nullptr;
  int ld = 0;               // elements between edges
  std::int64_t stride = 0;  // elements between focus streams

  __device__ Real* at(int focus, int edge, int column) const {
    return data + focus * stride + static_cast<std::int64_t>(edge) * ld + column;
  }
  EdgeRows columns(int first) const { return {data + first, ld, stride}; }
};

/// A plane of kept rows, or nothing.
template <class Real>
struct KeptRows {
  Real* data = nullptr;
  const int* row = nullptr;  // of each edge, negative: not kept; null: the edge's number
  int ld = 0;
  std::int64_t stride = 0;

  template <int kCount>
  __device__ void put(int focus, int edge, int column, const Real* values) const {
    if (data == nullptr) return;
    const int place = row != nullptr ? row[edge] : edge;
    if (place < 0) return;
    store_numbers<kCount>(data + focus * stride + static_cast<std::int64_t>(place) * ld + column,
                          values);
  }
  KeptRows columns(int first) const {
    return {data != nullptr ? data + first : nullptr, row, ld, stride};
  }
};

template <class Real>
struct LoadRows {
  EdgeRows<const Real> rows;

  template <int kCount>
  __device__ __forceinline__ void get(int f, int i, int k, Real* values) const {
    load_numbers<kCount>(rows.at(f, i, k), values);
  }
};

/// z0, and its kept copy.
template <class Real>
struct StoreScalars {
  EdgeRows<Real> z;
  KeptRows<Real> kept;

  template <int kCount>
  using Old = NothingOld;
  template <int kCount>
  __device__ __forceinline__ NothingOld old(int, int, int) const {
    return {};
  }
  template <int kCount>
  __device__ __forceinline__ void put(int f, int i, int column, const Real* values,
                                      const NothingOld&) const {
    store_numbers<kCount>(z.at(f, i, column), values);
    kept.template put<kCount>(f, i, column, values);
  }
};

/// From the gates' logits: the open gates, and u0 += act(z0).
template <class Real>
struct StoreGates {
  EdgeRows<Real> open;
  EdgeRows<const Real> z;
  EdgeRows<Real> u;
  int width;

  template <int kCount>
  struct Old {
    Real value[kCount], sum[kCount];     // of the gated row
    Real scalar[kCount], first[kCount];  // of the scalar row, for its columns
  };
  template <int kCount>
  __device__ __forceinline__ Old<kCount> old(int f, int i, int column) const {
    Old<kCount> old;
    load_numbers<kCount>(z.at(f, i, width + column), old.value);
    load_numbers<kCount>(u.at(f, i, width + column), old.sum);
    if (column < width) {
      load_numbers<kCount>(z.at(f, i, column), old.scalar);
      load_numbers<kCount>(u.at(f, i, column), old.first);
    }
    return old;
  }
  template <int kCount>
  __device__ __forceinline__ void put(int f, int i, int column, const Real* logits,
                                      const Old<kCount>& old) const {
    Real s[kCount], sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      s[c] = math::sigmoid(logits[c]);
      sum[c] = old.sum[c] + s[c] * old.value[c];
    }
    store_numbers<kCount>(open.at(f, i, column), s);
    store_numbers<kCount>(u.at(f, i, width + column), sum);
    if (column >= width) return;
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = old.first[c] + math::silu(old.scalar[c]);
    store_numbers<kCount>(u.at(f, i, column), sum);
  }
};

/// to = from + s z, and the kept copy of z. The gates of m = -1 and m = +1 are the same.
template <class Real>
struct StoreGated {
  EdgeRows<const Real> from;
  EdgeRows<Real> to;
  EdgeRows<const Real> open;
  KeptRows<Real> kept;
  int gates;

  template <int kCount>
  struct Old {
    Real s[kCount], sum[kCount];
  };
  template <int kCount>
  __device__ __forceinline__ Old<kCount> old(int f, int i, int column) const {
    Old<kCount> old;
    load_numbers<kCount>(open.at(f, i, column < gates ? column : column - gates), old.s);
    load_numbers<kCount>(from.at(f, i, column), old.sum);
    return old;
  }
  template <int kCount>
  __device__ __forceinline__ void put(int f, int i, int column, const Real* z,
                                      const Old<kCount>& old) const {
    Real sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = old.sum[c] + old.s[c] * z[c];
    store_numbers<kCount>(to.at(f, i, column), sum);
    kept.template put<kCount>(f, i, column, z);
  }
};

/// to = from + z, and the kept copy of the sum.
template <class Real>
struct StoreSum {
  EdgeRows<const Real> from;
  EdgeRows<Real> to;
  KeptRows<Real> kept;

  template <int kCount>
  struct Old {
    Real sum[kCount];
  };
  template <int kCount>
  __device__ __forceinline__ Old<kCount> old(int f, int i, int column) const {
    Old<kCount> old;
    load_numbers<kCount>(from.at(f, i, column), old.sum);
    return old;
  }
  template <int kCount>
  __device__ __forceinline__ void put(int f, int i, int column, const Real* z,
                                      const Old<kCount>& old) const {
    Real sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] = old.sum[c] + z[c];
    store_numbers<kCount>(to.at(f, i, column), sum);
    kept.template put<kCount>(f, i, column, sum);
  }
};

/// From the gates' logits: the open gates and the gradients of the logits.
template <class Real>
struct StoreGateGradients {
  EdgeRows<Real> open;
  EdgeRows<Real> grad_logit;
  EdgeRows<const Real> z;
  EdgeRows<const Real> grad;
  int width;
  int gates;

  template <int kCount>
  struct Old {
    Real along[kCount];  // <gradient, value> over the orders
  };
  template <int kCount>
  __device__ __forceinline__ Old<kCount> old(int f, int i, int column) const {
    Old<kCount> old;
#pragma unroll
    for (int c = 0; c < kCount; ++c) old.along[c] = 0;
#pragma unroll
    for (int order = 0; order < 3; ++order) {  // m = 0, -1, +1
      Real g[kCount], value[kCount];
      load_numbers<kCount>(grad.at(f, i, width + order * gates + column), g);
      load_numbers<kCount>(z.at(f, i, width + order * gates + column), value);
#pragma unroll
      for (int c = 0; c < kCount; ++c) old.along[c] += g[c] * value[c];
    }
    return old;
  }
  template <int kCount>
  __device__ __forceinline__ void put(int f, int i, int column, const Real* logits,
                                      const Old<kCount>& old) const {
    Real s[kCount], along[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      s[c] = math::sigmoid(logits[c]);
      along[c] = math::gate_logit_gradient(old.along[c], s[c]);
    }
    store_numbers<kCount>(open.at(f, i, column), s);
    store_numbers<kCount>(grad_logit.at(f, i, column), along);
  }
};

/// Gradient of z0[0]: through the gates (the product) and through silu.
template <class Real>
struct StoreScalarGradient {
  EdgeRows<Real> to;
  EdgeRows<const Real> z;
  EdgeRows<const Real> grad;

  template <int kCount>
  struct Old {
    Real value[kCount], g[kCount];
  };
  template <int kCount>
  __device__ __forceinline__ Old<kCount> old(int f, int i, int column) const {
    Old<kCount> old;
    load_numbers<kCount>(z.at(f, i, column), old.value);
    load_numbers<kCount>(grad.at(f, i, column), old.g);
    return old;
  }
  template <int kCount>
  __device__ __forceinline__ void put(int f, int i, int column, const Real* through_gates,
                                      const Old<kCount>& old) const {
    Real sum[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      sum[c] = through_gates[c] +
               old.g[c] * math::silu_derivative(old.value[c], math::sigmoid(old.value[c]));
    }
    store_numbers<kCount>(to.at(f, i, column), sum);
  }
};

/// Gradient of z0: the scalar row as computed, the others s g.
template <class Real>
struct LoadScalarGradients {
  EdgeRows<const Real> scalar;
  EdgeRows<const Real> grad;
  EdgeRows<const Real> open;
  int width;

  template <int kCount>
  __device__ __forceinline__ void get(int f, int i, int k, Real* values) const {
    if (k < width) {
      load_numbers<kCount>(scalar.at(f, i, k), values);
      return;
    }
    Real s[kCount];
    load_numbers<kCount>(grad.at(f, i, k), values);
    load_numbers<kCount>(open.at(f, i, k - width), s);
#pragma unroll
    for (int c = 0; c < kCount; ++c) values[c] *= s[c];
  }
};

/// Gradient of z1: s g.
template <class Real>
struct LoadGated {
  EdgeRows<const Real> grad;
  EdgeRows<const Real> open;
  int gates;

  template <int kCount>
  __device__ __forceinline__ void get(int f, int i, int k, Real* values) const {
    Real s[kCount];
    load_numbers<kCount>(grad.at(f, i, k), values);
    load_numbers<kCount>(open.at(f, i, k < gates ? k : k - gates), s);
#pragma unroll
    for (int c = 0; c < kCount; ++c) values[c] *= s[c];
  }
};

template <class Real>
EdgeRows<const Real> read(const EdgeRows<Real>& rows) {
  return {rows.data, rows.ld, rows.stride};
}

/// The product of a step, Load and Store among those above. CMake makes the source files from the
/// list of shapes.cmake and so2_stack_shard.cu.in.
template <Arithmetic kArithmetic, class Real, class Load, class Store>
void stack_product(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
                   const Load& load, const Store& store, kernels::Stream stream);

}  // namespace dpa4::cuda
