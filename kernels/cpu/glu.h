// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/glu.h"
#include "kernels/cpu/simd.h"
#include "src/math/activation.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// x + bias at c, or x where there is no bias.
template <class S, class Real>
DPA4_CPU_INLINE S biased(const Real* x, const Real* bias, int c) {
  return bias != nullptr ? S::load(x + c) + S::load(bias + c) : S::load(x + c);
}

template <class Real>
void glu(const kernels::GluArgs<Real>& args, kernels::Stream) {
  const int width = args.width, ldx = args.plain ? width : 2 * width;
  for (int n = 0; n < args.rows; ++n) {
    const Real* x = args.x + static_cast<std::int64_t>(n) * ldx;
    Real* y = args.y + static_cast<std::int64_t>(n) * width;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S value = biased<S>(x, args.bias, c);
          if (args.plain) {
            math::silu(value).store(y + c);
          } else {
            (value * math::silu(biased<S>(x, args.bias, width + c))).store(y + c);
          }
        });
  }
}

template <class Real>
void glu_backward(const kernels::GluBackwardArgs<Real>& args, kernels::Stream) {
  const int width = args.width, ldx = args.plain ? width : 2 * width;
  for (int n = 0; n < args.rows; ++n) {
    const Real* x = args.x + static_cast<std::int64_t>(n) * ldx;
    const Real* grad_y = args.grad_y + static_cast<std::int64_t>(n) * width;
    Real* grad_x = args.grad_x + static_cast<std::int64_t>(n) * ldx;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S grad = S::load(grad_y + c);
          const S value = biased<S>(x, args.bias, c);
          if (args.plain) {
            (grad * math::silu_derivative(value, math::sigmoid(value))).store(grad_x + c);
            return;
          }
          const S gate = biased<S>(x, args.bias, width + c);
          const S open = math::sigmoid(gate);
          (grad * gate * open).store(grad_x + c);
          (grad * value * math::silu_derivative(gate, open)).store(grad_x + width + c);
        });
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
