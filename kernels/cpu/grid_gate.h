// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/grid_gate.h"
#include "kernels/cpu/simd.h"
#include "src/math/activation.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void grid_gate(const kernels::GridGateArgs<Real>& args, kernels::Stream) {
  const int width = args.width, size = args.n_coefficients;
  for (int n = 0; n < args.count; ++n) {
    const Real* from = args.coefficient + static_cast<std::int64_t>(n) * size * width;
    const Real* logit = args.logit + static_cast<std::int64_t>(n) * width;
    const Real* scalars = args.scalars + static_cast<std::int64_t>(n) * 2 * width;
    Real* y = args.y + static_cast<std::int64_t>(n) * size * width;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S gate = math::sigmoid(S::load(logit + c));
          const S extra = math::silu(S::load(scalars + c)) * S::load(scalars + width + c);
          (gate * S::load(from + c) + extra).store(y + c);
          for (int i = 1; i < size; ++i)
            (gate * S::load(from + i * width + c)).store(y + i * width + c);
        });
  }
}

template <class Real>
void grid_gate_backward(const kernels::GridGateBackwardArgs<Real>& args, kernels::Stream) {
  const int width = args.width, size = args.n_coefficients;
  for (int n = 0; n < args.count; ++n) {
    const std::int64_t at = static_cast<std::int64_t>(n) * size * width;
    const Real* logit = args.logit + static_cast<std::int64_t>(n) * width;
    const Real* scalars = args.scalars + static_cast<std::int64_t>(n) * 2 * width;
    Real* grad_logit = args.grad_logit + static_cast<std::int64_t>(n) * width;
    Real* grad_scalars = args.grad_scalars + static_cast<std::int64_t>(n) * 2 * width;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S gate = math::sigmoid(S::load(logit + c));
          const S a = S::load(scalars + c), b = S::load(scalars + width + c);
          const S open = math::sigmoid(a);
          const S first = S::load(args.grad_y + at + c);
          (first * b * math::silu_derivative(a, open)).store(grad_scalars + c);
          (first * a * open).store(grad_scalars + width + c);
          S along(0);
          for (int i = 0; i < size; ++i) {
            const S grad = S::load(args.grad_y + at + i * width + c);
            along += grad * S::load(args.coefficient + at + i * width + c);
            (gate * grad).store(args.grad_coefficient + at + i * width + c);
          }
          math::gate_logit_gradient(along, gate).store(grad_logit + c);
        });
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
