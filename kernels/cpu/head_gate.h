// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/head_gate.h"
#include "kernels/cpu/simd.h"
#include "src/math/activation.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
DPA4_CPU_INLINE Real scalar_sigmoid(Real x) {
  return math::sigmoid(Simd<Real, 1>(x)).lane(0);
}

template <class Real>
void head_gate(const kernels::HeadGateArgs<Real>& args, kernels::Stream) {
  const int hidden = args.shape.hidden(), weights = args.shape.weights();
  const int head_width = hidden / weights, rows = args.shape.full_rows();
  for (int n = 0; n < args.n_nodes; ++n) {
    const std::int64_t at = static_cast<std::int64_t>(n) * rows * hidden;
    for (int w = 0; w < weights; ++w) {
      const Real gate = args.shape.n_heads > 0
                            ? scalar_sigmoid(args.logit[static_cast<std::int64_t>(n) * weights + w])
                            : args.kappa[n];
      for (int d = 0; d < rows; ++d) {
        const std::int64_t place = at + d * hidden + w * head_width;
        for_lanes<Real>(
            head_width, [&](auto tag, int c) __attribute__((always_inline)) {
              using S = decltype(tag);
              (S(gate) * S::load(args.sum + place + c)).store(args.out + place + c);
            });
      }
    }
  }
}

template <class Real>
void head_gate_backward(const kernels::HeadGateBackwardArgs<Real>& args, kernels::Stream) {
  const int hidden = args.shape.hidden(), weights = args.shape.weights();
  const int head_width = hidden / weights, rows = args.shape.full_rows();
  for (int n = 0; n < args.n_nodes; ++n) {
    const std::int64_t at = static_cast<std::int64_t>(n) * rows * hidden;
    for (int w = 0; w < weights; ++w) {
      const std::int64_t head = static_cast<std::int64_t>(n) * weights + w;
      const Real gate = args.shape.n_heads > 0 ? scalar_sigmoid(args.logit[head]) : args.kappa[n];
      Real along = 0;  // <grad_out, sum>
      for (int d = 0; d < rows; ++d) {
        const std::int64_t place = at + d * hidden + w * head_width;
        along += sum_lanes<Real>(
            head_width, [&](auto tag, int c) __attribute__((always_inline)) {
              using S = decltype(tag);
              const S grad = S::load(args.grad_out + place + c);
              const S product = grad * S::load(args.sum + place + c);
              (S(gate) * grad).store(args.grad_sum + place + c);
              return product;
            });
      }
      if (args.shape.n_heads > 0) {
        args.row_sum[head] = gate * along;
        args.grad_logit[head] = math::sigmoid_derivative(gate) * along;
      } else {
        args.kappa_times_grad[n] += gate * along;
      }
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
