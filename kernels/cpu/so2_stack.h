// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/so2_stack.h"
#include "kernels/cpu/gemm.h"
#include "src/math/activation.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// Sizes of the rows of the stack.
struct StackSizes {
  int lmax, width, n_focus, row, m0, m1, gates;

  explicit StackSizes(const kernels::MessageShape& shape)
      : lmax(shape.lmax),
        width(shape.width),
        n_focus(shape.n_focus),
        row(shape.row_size()),
        m0((shape.lmax + 1) * shape.width),
        m1(2 * shape.lmax * shape.width),
        gates(shape.lmax * shape.width) {}

  /// Element of (l, row m, channel 0) behind the row of an edge.
  DPA4_CPU_INLINE int at(int l, int m_row) const {
    return (m_row == 0 ? l : m_row * lmax + l) * width;
  }
};

/// One row for z and one for the gates of each degree, of all focus streams.
inline std::int64_t so2_stack_work(const kernels::MessageShape& shape) {
  return static_cast<std::int64_t>(shape.n_focus) * (shape.row_size() + shape.lmax * shape.width);
}

/// u += act(z) for the row of an edge; `gate` holds the logits of the degrees.
template <class Real>
DPA4_CPU_INLINE void add_gated(const StackSizes& size, const Real* z, const Real* gate, Real* u) {
  for_lanes<Real>(
      size.width, [&](auto tag, int c) __attribute__((always_inline)) {
        using S = decltype(tag);
        (S::load(u + c) + math::silu(S::load(z + c))).store(u + c);
        for (int l = 1; l <= size.lmax; ++l) {
          const S open = math::sigmoid(S::load(gate + (l - 1) * size.width + c));
          for (int m_row = 0; m_row < 3; ++m_row) {
            const int at = size.at(l, m_row) + c;
            (S::load(u + at) + open * S::load(z + at)).store(u + at);
          }
        }
      });
}

/// grad_z = gradient through the activation from g = dE/d(act(z)), and the gradients of the gates'
/// logits in place of the logits. The part of row 0 that comes through the gates is not in grad_z
/// yet.
template <class Real>
DPA4_CPU_INLINE void gated_backward(const StackSizes& size, const Real* z, const Real* grad,
                                    Real* grad_z, Real* gate) {
  for_lanes<Real>(
      size.width, [&](auto tag, int c) __attribute__((always_inline)) {
        using S = decltype(tag);
        const S scalar = S::load(z + c);
        (S::load(grad + c) * math::silu_derivative(scalar, math::sigmoid(scalar)))
            .store(grad_z + c);
        for (int l = 1; l <= size.lmax; ++l) {
          const S open = math::sigmoid(S::load(gate + (l - 1) * size.width + c));
          S along(0);
          for (int m_row = 0; m_row < 3; ++m_row) {
            const int at = size.at(l, m_row) + c;
            const S g = S::load(grad + at);
            along += g * S::load(z + at);
            (g * open).store(grad_z + at);
          }
          math::gate_logit_gradient(along, open).store(gate + (l - 1) * size.width + c);
        }
      });
}

template <class Real>
void so2_stack(const kernels::So2StackArgs<Real>& args, kernels::Stream) {
  const StackSizes size(args.shape);
  const int count = args.count;
  const bool keep_in_place = args.kept != nullptr && args.kept_row == nullptr;
  Real* gate = args.work + static_cast<std::int64_t>(size.n_focus) * count * size.row;
  // Where row i of plane j and focus f goes, or null.
  const auto kept_row = [&](int j, int f, int i) -> Real* {
    if (args.kept == nullptr || (j + 1 == args.n_layers && !args.keep_result)) return nullptr;
    const std::int64_t row = args.kept_row != nullptr ? args.kept_row[i] : i;
    if (row < 0) return nullptr;
    return args.kept +
           ((static_cast<std::int64_t>(j) * size.n_focus + f) * args.kept_rows + row) * size.row;
  };
  for (int f = 0; f < size.n_focus; ++f) {
    Real* u = args.u + static_cast<std::int64_t>(f) * count * size.row;
    for (int j = 0; j < args.n_layers; ++j) {
      const kernels::So2Layer<Real>& layer = args.layers[j];
      const bool last = j + 1 == args.n_layers;
      Real* z = keep_in_place && !last && count > 0 ? kept_row(j, f, 0) : args.work;
      gemm_matrix(count, size.m0, size.m0, u, size.row,
                  layer.m0 + static_cast<std::int64_t>(f) * size.m0 * size.m0, size.m0, z, size.row,
                  false);
      gemm_matrix(count, size.m1, size.m1, u + size.m0, size.row,
                  layer.m1 + static_cast<std::int64_t>(f) * size.m1 * size.m1, size.m1, z + size.m0,
                  size.row, false);
      if (!last) {
        gemm_matrix(count, size.gates, size.width, z, size.row,
                    layer.gate + static_cast<std::int64_t>(f) * size.width * size.gates, size.gates,
                    gate, size.gates, false);
      }
      for (int i = 0; i < count; ++i) {
        Real* u_row = u + static_cast<std::int64_t>(i) * size.row;
        const Real* z_row = z + static_cast<std::int64_t>(i) * size.row;
        if (last) {
          add_scaled(u_row, z_row, Real(1), size.row);
        } else {
          add_gated(size, z_row, gate + static_cast<std::int64_t>(i) * size.gates, u_row);
        }
        Real* kept = kept_row(j, f, i);
        const Real* from = last ? u_row : z_row;
        if (kept != nullptr && kept != from) std::memcpy(kept, from, size.row * sizeof(Real));
      }
    }
  }
}

template <class Real>
void so2_stack_backward(const kernels::So2StackBackwardArgs<Real>& args, kernels::Stream) {
  const StackSizes size(args.shape);
  const int count = args.count;
  Real* grad_z = args.work;
  Real* gate = args.work + static_cast<std::int64_t>(size.n_focus) * count * size.row;
  for (int f = 0; f < size.n_focus; ++f) {
    Real* grad = args.grad_u + static_cast<std::int64_t>(f) * count * size.row;
    for (int j = args.n_layers - 1; j >= 0; --j) {
      const kernels::So2Layer<Real>& layer = args.layers[j];
      const bool last = j + 1 == args.n_layers;
      if (last) {
        std::memcpy(grad_z, grad, static_cast<std::size_t>(count) * size.row * sizeof(Real));
      } else {
        const Real* z = args.kept + (static_cast<std::int64_t>(j) * size.n_focus + f) *
                                        args.kept_rows * size.row;
        gemm_matrix(count, size.gates, size.width, z, size.row,
                    layer.gate + static_cast<std::int64_t>(f) * size.width * size.gates, size.gates,
                    gate, size.gates, false);
        for (int i = 0; i < count; ++i) {
          const std::int64_t at = static_cast<std::int64_t>(i) * size.row;
          gated_backward(size, z + at, grad + at, grad_z + at,
                         gate + static_cast<std::int64_t>(i) * size.gates);
        }
        gemm_matrix(count, size.width, size.gates, gate, size.gates,
                    layer.gate_transposed + static_cast<std::int64_t>(f) * size.width * size.gates,
                    size.width, grad_z, size.row, true);
      }
      gemm_matrix(count, size.m0, size.m0, grad_z, size.row,
                  layer.m0_transposed + static_cast<std::int64_t>(f) * size.m0 * size.m0, size.m0,
                  grad, size.row, true);
      gemm_matrix(count, size.m1, size.m1, grad_z + size.m0, size.row,
                  layer.m1_transposed + static_cast<std::int64_t>(f) * size.m1 * size.m1, size.m1,
                  grad + size.m0, size.row, true);
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
