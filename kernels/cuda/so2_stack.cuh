// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/so2_stack.h"
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
  __device__ __forceinline__ void put(int f, int i, int column, const Real* values) const {
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
  __device__ __forceinline__ void put(int f, int i, int column, const Real* logits) const {
    Real s[kCount], value[kCount], sum[kCount];
    load_numbers<kCount>(z.at(f, i, width + column), value);
    load_numbers<kCount>(u.at(f, i, width + column), sum);
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      s[c] = math::sigmoid(logits[c]);
      sum[c] += s[c] * value[c];
    }
    store_numbers<kCount>(open.at(f, i, column), s);
    store_numbers<kCount>(u.at(f, i, width + column), sum);
    if (column >= width) return;
    load_numbers<kCount>(z.at(f, i, column), value);
    load_numbers<kCount>(u.at(f, i, column), sum);
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] += math::silu(value[c]);
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
  __device__ __forceinline__ void put(int f, int i, int column, const Real* z) const {
    Real s[kCount], sum[kCount];
    load_numbers<kCount>(open.at(f, i, column < gates ? column : column - gates), s);
    load_numbers<kCount>(from.at(f, i, column), sum);
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] += s[c] * z[c];
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
  __device__ __forceinline__ void put(int f, int i, int column, const Real* z) const {
    Real sum[kCount];
    load_numbers<kCount>(from.at(f, i, column), sum);
#pragma unroll
    for (int c = 0; c < kCount; ++c) sum[c] += z[c];
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
  __device__ __forceinline__ void put(int f, int i, int column, const Real* logits) const {
    Real along[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) along[c] = 0;
#pragma unroll
    for (int order = 0; order < 3; ++order) {  // m = 0, -1, +1
      Real g[kCount], value[kCount];
      load_numbers<kCount>(grad.at(f, i, width + order * gates + column), g);
      load_numbers<kCount>(z.at(f, i, width + order * gates + column), value);
#pragma unroll
      for (int c = 0; c < kCount; ++c) along[c] += g[c] * value[c];
    }
    Real s[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      s[c] = math::sigmoid(logits[c]);
      along[c] = math::gate_logit_gradient(along[c], s[c]);
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
  __device__ __forceinline__ void put(int f, int i, int column, const Real* through_gates) const {
    Real value[kCount], g[kCount], sum[kCount];
    load_numbers<kCount>(z.at(f, i, column), value);
    load_numbers<kCount>(grad.at(f, i, column), g);
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      sum[c] = through_gates[c] + g[c] * math::silu_derivative(value[c], math::sigmoid(value[c]));
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

template <class Real>
void copy_rows(const EdgeRows<const Real>& from, const EdgeRows<Real>& to, int n_focus, int count,
               int width, kernels::Stream stream) {
  for_rows("so2_stack_copy", count * n_focus, width / 4, stream, [=] __device__(int row, int k) {
    Real values[4];
    load_numbers<4>(from.at(row / count, row % count, 4 * k), values);
    store_numbers<4>(to.at(row / count, row % count, 4 * k), values);
  });
}

/// The stack with the products of Gemm: Gemm<Real>::run(name, shape, weights, load, store, stream).
template <class Gemm, class Real>
class So2Stack {
 public:
  So2Stack(const kernels::MessageShape& shape, int count, Real* u, Real* work,
           kernels::Stream stream)
      : size_(shape, count), stream_(stream), u_{u, size_.row, size_.total(size_.row) / focus()} {
    DPA4_EXPECTS(size_.width % 4 == 0);
    const auto rows = [&](int width) {
      const EdgeRows<Real> part{work, width, static_cast<std::int64_t>(count) * width};
      work += size_.total(width);
      return part;
    };
    spare_ = rows(size_.row);
    open_ = rows(size_.gates);
    grad_logit_ = rows(size_.gates);
    grad_scalar_ = rows(size_.width);
  }

  void forward(const kernels::So2StackArgs<Real>& args) {
    for (int j = 0; j < args.n_layers; ++j) {
      const kernels::So2Layer<Real>& layer = args.layers[j];
      KeptRows<Real> kept;
      if (args.kept != nullptr && (args.keep_result || j + 1 < args.n_layers)) {
        const std::int64_t stride = args.kept_rows * size_.row;
        kept = {args.kept + j * size_.n_focus * stride, args.kept_row, size_.row, stride};
      }
      if (j + 1 < args.n_layers) {
        gated_layer(layer, kept);
      } else {
        last_layer(layer, kept);
      }
    }
  }

  void backward(const kernels::So2StackBackwardArgs<Real>& args) {
    EdgeRows<Real> grad = u_, other = spare_;
    for (int j = args.n_layers - 1; j >= 0; --j) {
      const kernels::So2Layer<Real>& layer = args.layers[j];
      if (j + 1 == args.n_layers) {
        const EdgeRows<const Real> from = read(grad);
        product("so2_stack_backward_m0", size_.m0, size_.m0, layer.m0_transposed,
                LoadRows<Real>{from}, StoreSum<Real>{from, other, {}});
        const EdgeRows<const Real> from1 = from.columns(size_.m0);
        product("so2_stack_backward_m1", size_.m1, size_.m1, layer.m1_transposed,
                LoadRows<Real>{from1}, StoreSum<Real>{from1, other.columns(size_.m0), {}});
      } else {
        const std::int64_t stride = args.kept_rows * size_.row;
        gated_layer_backward(layer, {args.kept + j * size_.n_focus * stride, size_.row, stride},
                             read(grad), other);
      }
      std::swap(grad, other);
    }
    if (grad.data != u_.data) copy(read(grad), u_, size_.row);
  }

 private:
  int focus() const { return size_.n_focus; }

  template <class Load, class Store>
  void product(const char* name, int k, int n, const Real* weights, const Load& load,
               const Store& store) {
    const GemmShape shape{size_.count, n, k, size_.n_focus};
    Gemm::run(name, shape, WeightMatrix<Real>{weights, n, static_cast<std::int64_t>(k) * n}, load,
              store, stream_);
  }

  void copy(const EdgeRows<const Real>& from, const EdgeRows<Real>& to, int width) {
    copy_rows(from, to, size_.n_focus, size_.count, width, stream_);
  }

  void gated_layer(const kernels::So2Layer<Real>& layer, const KeptRows<Real>& kept) {
    // z0 goes to its kept place at once where every row has one.
    const bool in_place = kept.data != nullptr && kept.row == nullptr;
    const EdgeRows<Real> z = in_place ? EdgeRows<Real>{kept.data, kept.ld, kept.stride} : spare_;
    product("so2_stack_m0", size_.m0, size_.m0, layer.m0, LoadRows<Real>{read(u_)},
            StoreScalars<Real>{z, in_place ? KeptRows<Real>{} : kept});
    product("so2_stack_gate", size_.width, size_.gates, layer.gate, LoadRows<Real>{read(z)},
            StoreGates<Real>{open_, read(z), u_, size_.width});
    const EdgeRows<Real> from = odd_ ? spare_.columns(size_.m0) : u_.columns(size_.m0);
    const EdgeRows<Real> to = odd_ ? u_.columns(size_.m0) : spare_.columns(size_.m0);
    product("so2_stack_m1", size_.m1, size_.m1, layer.m1, LoadRows<Real>{read(from)},
            StoreGated<Real>{read(from), to, read(open_), kept.columns(size_.m0), size_.gates});
    odd_ = !odd_;
  }

  void last_layer(const kernels::So2Layer<Real>& layer, const KeptRows<Real>& kept) {
    product("so2_stack_m0", size_.m0, size_.m0, layer.m0, LoadRows<Real>{read(u_)},
            StoreSum<Real>{read(u_), spare_, kept});
    copy(read(spare_), u_, size_.m0);
    const EdgeRows<Real> u1 = u_.columns(size_.m0), spare1 = spare_.columns(size_.m0);
    const EdgeRows<Real> from = odd_ ? spare1 : u1, to = odd_ ? u1 : spare1;
    product("so2_stack_m1", size_.m1, size_.m1, layer.m1, LoadRows<Real>{read(from)},
            StoreSum<Real>{read(from), to, kept.columns(size_.m0)});
    if (!odd_) copy(read(spare1), u1, size_.m1);
    odd_ = false;
  }

  void gated_layer_backward(const kernels::So2Layer<Real>& layer, const EdgeRows<const Real>& z,
                            const EdgeRows<const Real>& grad, const EdgeRows<Real>& to) {
    product("so2_stack_backward_gate", size_.width, size_.gates, layer.gate, LoadRows<Real>{z},
            StoreGateGradients<Real>{open_, grad_logit_, z, grad, size_.width, size_.gates});
    product("so2_stack_backward_scalar", size_.gates, size_.width, layer.gate_transposed,
            LoadRows<Real>{read(grad_logit_)}, StoreScalarGradient<Real>{grad_scalar_, z, grad});
    product("so2_stack_backward_m0", size_.m0, size_.m0, layer.m0_transposed,
            LoadScalarGradients<Real>{read(grad_scalar_), grad, read(open_), size_.width},
            StoreSum<Real>{grad, to, {}});
    const EdgeRows<const Real> grad1 = grad.columns(size_.m0);
    product("so2_stack_backward_m1", size_.m1, size_.m1, layer.m1_transposed,
            LoadGated<Real>{grad1, read(open_), size_.gates},
            StoreSum<Real>{grad1, to.columns(size_.m0), {}});
  }

  StackSizes size_;
  kernels::Stream stream_;
  EdgeRows<Real> u_;
  EdgeRows<Real> spare_;  // rows of the other buffer
  EdgeRows<Real> open_, grad_logit_, grad_scalar_;
  bool odd_ = false;  // u1 is in the spare buffer
};

}  // namespace dpa4::cuda
