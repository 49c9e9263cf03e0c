// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/scalar_norm.h"
#include "kernels/cpu/rms_norm_silu.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void scalar_norm(const kernels::ScalarNormArgs<Real>& args, kernels::Stream) {
  const int width = args.width;
  for (int n = 0; n < args.n_nodes; ++n) {
    for (int f = 0; f < args.n_focus; ++f) {
      const Real* x = args.x + n * args.ldx + f * width;
      const Real* scale = args.scale + f * width;
      Real* y = args.y + (static_cast<std::int64_t>(n) * args.n_focus + f) * width;
      const Real factor = inverse_rms(x, width, args.eps);
      for_lanes<Real>(
          width, [&](auto tag, int c) __attribute__((always_inline)) {
            using S = decltype(tag);
            (S::load(x + c) * S(factor) * S::load(scale + c)).store(y + c);
          });
    }
  }
}

template <class Real>
void scalar_norm_backward(const kernels::ScalarNormBackwardArgs<Real>& args, kernels::Stream) {
  const int width = args.width;
  for (int n = 0; n < args.n_nodes; ++n) {
    for (int f = 0; f < args.n_focus; ++f) {
      const Real* x = args.x + n * args.ldx + f * width;
      const Real* scale = args.scale + f * width;
      const Real* grad_y = args.grad_y + (static_cast<std::int64_t>(n) * args.n_focus + f) * width;
      Real* grad_x = args.grad_x + n * args.ld_grad + f * width;
      const Real factor = inverse_rms(x, width, args.eps);
      const Real mean = sum_lanes<Real>(
                            width,
                            [&](auto tag, int c) __attribute__((always_inline)) {
                              using S = decltype(tag);
                              return S::load(grad_y + c) * S::load(scale + c) * S::load(x + c);
                            }) /
                        width;
      const Real pull = factor * factor * factor * mean;
      for_lanes<Real>(
          width, [&](auto tag, int c) __attribute__((always_inline)) {
            using S = decltype(tag);
            (S::load(grad_x + c) + S(factor) * S::load(grad_y + c) * S::load(scale + c) -
             S(pull) * S::load(x + c))
                .store(grad_x + c);
          });
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
