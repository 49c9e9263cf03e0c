// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/rms_norm_silu.h"
#include "kernels/cpu/simd.h"
#include "src/math/activation.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// 1 / sqrt(mean(x^2) + eps)
template <class Real>
DPA4_CPU_INLINE Real inverse_rms(const Real* x, int width, double eps) {
  return Real(1) / math::sqrt_of(dot(x, x, width) / width + static_cast<Real>(eps));
}

template <class Real>
void rms_norm_silu(const kernels::RmsNormSiluArgs<Real>& args, kernels::Stream) {
  const int width = args.width;
  for (int n = 0; n < args.rows; ++n) {
    const Real* x = args.x + static_cast<std::int64_t>(n) * width;
    Real* y = args.y + static_cast<std::int64_t>(n) * width;
    const Real factor = args.scale != nullptr ? inverse_rms(x, width, args.eps) : Real(1);
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          S value = S::load(x + c);
          if (args.scale != nullptr) value *= S(factor) * S::load(args.scale + c);
          math::silu(value).store(y + c);
        });
  }
}

template <class Real>
void rms_norm_silu_backward(const kernels::RmsNormSiluBackwardArgs<Real>& args, kernels::Stream) {
  const int width = args.width;
  for (int n = 0; n < args.rows; ++n) {
    const Real* x = args.x + static_cast<std::int64_t>(n) * width;
    const Real* grad_y = args.grad_y + static_cast<std::int64_t>(n) * width;
    Real* grad_x = args.grad_x + static_cast<std::int64_t>(n) * width;
    const Real factor = args.scale != nullptr ? inverse_rms(x, width, args.eps) : Real(1);
    // Gradient of the normalised value times its scale, stored in place of the result.
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          S value = S::load(x + c);
          if (args.scale != nullptr) value *= S(factor) * S::load(args.scale + c);
          S grad = S::load(grad_y + c) * math::silu_derivative(value, math::sigmoid(value));
          if (args.scale != nullptr) grad *= S::load(args.scale + c);
          grad.store(grad_x + c);
        });
    if (args.scale == nullptr) continue;
    const Real mean = dot(grad_x, x, width) / width;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S grad =
              S(factor) * S::load(grad_x + c) - S(factor * factor * factor * mean) * S::load(x + c);
          grad.store(grad_x + c);
        });
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
