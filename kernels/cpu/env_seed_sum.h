// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/env_seed_sum.h"
#include "kernels/cpu/edge_geometry.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// Positions of the edges of a node that are in the call, as indices into its arrays.
struct Segment {
  int begin, end;

  DPA4_CPU_INLINE Segment(const kernels::EdgeSlice& edges, int node) {
    const int first = edges.begin[node] - edges.first;
    const int last = edges.begin[node + 1] - edges.first;
    begin = first > 0 ? first : 0;
    end = last < edges.count ? last : edges.count;
  }
};

template <class Real>
void env_seed_sum(const kernels::EnvSeedSumArgs<Real>& args, kernels::Stream) {
  const int width = args.width;
  for (int n = args.edges.node_first; n < args.edges.node_first + args.edges.node_count; ++n) {
    const Segment segment(args.edges, n);
    Real* sum = args.sum + static_cast<std::int64_t>(n) * 4 * width;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          S total[4];
          for (int k = 0; k < 4; ++k) total[k] = S::load(sum + k * width + c);
          for (int i = segment.begin; i < segment.end; ++i) {
            const Real gate =
                args.gate != nullptr ? args.gate[args.edges.src[edge_at(args.edges, i)]] : Real(1);
            const Real rho = args.kappa[n] * gate * args.envelope[i] / args.length[i];
            const S feature =
                S(rho) * S::load(args.feature + static_cast<std::int64_t>(i) * width + c);
            total[0] += feature;
            for (int k = 0; k < 3; ++k) total[k + 1] += S(args.unit[3 * i + k]) * feature;
          }
          for (int k = 0; k < 4; ++k) total[k].store(sum + k * width + c);
        });
  }
}

template <class Real>
void env_seed_sum_backward(const kernels::EnvSeedSumBackwardArgs<Real>& args, kernels::Stream) {
  const int width = args.width;
  for (int i = 0; i < args.edges.count; ++i) {
    const int edge = edge_at(args.edges, i);
    const int dst = args.edges.dst[edge];
    const Real gate = args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1);
    const Real* unit = args.unit + 3 * i;
    const Real* grad = args.grad_sum + static_cast<std::int64_t>(dst) * 4 * width;
    const Real* feature = args.feature + static_cast<std::int64_t>(i) * width;
    Real* grad_feature = args.grad_feature + static_cast<std::int64_t>(i) * width;
    Real along[4];  // kappa <grad_sum[k, :], feature>
    for (int k = 0; k < 4; ++k) along[k] = args.kappa[dst] * dot(grad + k * width, feature, width);
    const Real sigma = args.envelope[i] / args.length[i];
    const Real factor = args.kappa[dst] * gate * sigma;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          S total = S::load(grad + c);
          for (int k = 0; k < 3; ++k) total += S(unit[k]) * S::load(grad + (k + 1) * width + c);
          (S(factor) * total).store(grad_feature + c);
        });
    const Real grad_sigma = along[0] + along[1] * unit[0] + along[2] * unit[1] + along[3] * unit[2];
    args.grad_envelope[i] += gate * grad_sigma / args.length[i];
    args.grad_length[i] -= gate * grad_sigma * sigma / args.length[i];
    for (int k = 0; k < 3; ++k) args.grad_unit[3 * i + k] += gate * sigma * along[k + 1];
    if (args.grad_gate != nullptr) args.grad_gate[i] += sigma * grad_sigma;
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
