// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/pair_bias.h"
#include "kernels/cpu/edge_geometry.h"
#include "src/math/activation.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// The rows of the two tables that belong to an edge.
template <class Args>
struct PairRows {
  decltype(Args::src_table) src, dst;

  DPA4_CPU_INLINE PairRows(const Args& args, int i) {
    const int edge = edge_at(args.edges, i);
    src = args.src_table + static_cast<std::int64_t>(args.type[args.edges.src[edge]]) * args.width;
    dst = args.dst_table + static_cast<std::int64_t>(args.type[args.edges.dst[edge]]) * args.width;
  }
};

template <class Real>
void pair_bias(const kernels::PairBiasArgs<Real>& args, kernels::Stream) {
  for (int i = 0; i < args.edges.count; ++i) {
    const PairRows rows(args, i);
    const Real factor = args.factor != nullptr ? args.factor[i] : Real(1);
    const Real* x = args.x + static_cast<std::int64_t>(i) * args.width;
    Real* y = args.y + static_cast<std::int64_t>(i) * args.width;
    for_lanes<Real>(
        args.width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S value =
              S(factor) * S::load(x + c) + (S::load(rows.src + c) + S::load(rows.dst + c));
          (args.silu ? math::silu(value) : value).store(y + c);
        });
  }
}

template <class Real>
void pair_bias_backward(const kernels::PairBiasBackwardArgs<Real>& args, kernels::Stream) {
  for (int i = 0; i < args.edges.count; ++i) {
    const PairRows rows(args, i);
    const Real factor = args.factor != nullptr ? args.factor[i] : Real(1);
    const Real* x = args.x + static_cast<std::int64_t>(i) * args.width;
    const Real* grad_y = args.grad_y + static_cast<std::int64_t>(i) * args.width;
    Real* grad_x = args.grad_x + static_cast<std::int64_t>(i) * args.width;
    const Real grad_factor = sum_lanes<Real>(
        args.width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S input = S::load(x + c);
          S grad = S::load(grad_y + c);
          if (args.silu) {
            const S value = S(factor) * input + (S::load(rows.src + c) + S::load(rows.dst + c));
            grad *= math::silu_derivative(value, math::sigmoid(value));
          }
          (S(factor) * grad).store(grad_x + c);
          return input * grad;
        });
    if (args.grad_factor != nullptr) args.grad_factor[i] += grad_factor;
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
