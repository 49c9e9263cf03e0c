// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/attention_logits.h"
#include "kernels/cpu/edge_geometry.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void attention_logits(const kernels::AttentionLogitsArgs<Real>& args, kernels::Stream) {
  const int weights = args.shape.weights(), hidden = args.shape.hidden();
  const int head_width = hidden / weights;
  const Real scale = Real(1) / math::sqrt_of(static_cast<Real>(head_width));
  for (int i = 0; i < args.edges.count; ++i) {
    const int edge = edge_at(args.edges, i);
    const int src = args.edges.src[edge];
    const Real* query = args.query + static_cast<std::int64_t>(args.edges.dst[edge]) * hidden;
    const Real* key = args.key + static_cast<std::int64_t>(src) * hidden;
    const Real* radial = args.radial + static_cast<std::int64_t>(i) * args.ld_radial;
    Real* logit = args.logit + static_cast<std::int64_t>(edge) * weights;
    const Real gate = args.gate != nullptr ? args.gate[src] : Real(1);
    const bool silent = !(args.envelope[i] > 0) || !(gate > 0);
    const Real offset = silent ? Real(0)
                               : 2 * math::log_of(args.envelope[i]) +
                                     (args.gate != nullptr ? math::log_of(gate) : Real(0));
    for (int h = 0; h < weights; ++h) {
      logit[h] = silent ? -static_cast<Real>(__builtin_inf())
                        : scale * dot(query + h * head_width, key + h * head_width, head_width) +
                              radial[h] + offset;
    }
  }
}

template <class Real>
void attention_lse(const kernels::AttentionLseArgs<Real>& args, kernels::Stream) {
  const int weights = args.n_weights;
  for (int n = args.node_first; n < args.node_first + args.node_count; ++n) {
    const int begin = args.dst_begin[n], end = args.dst_begin[n + 1];
    for (int h = 0; h < weights; ++h) {
      const Real* logit = args.logit + h;
      Real highest = args.null_logit[h];
      for (int e = begin; e < end; ++e) {
        const Real value = logit[static_cast<std::int64_t>(e) * weights];
        highest = value > highest ? value : highest;
      }
      Real sum = scalar_exp(args.null_logit[h] - highest);
      for (int e = begin; e < end; ++e) {
        sum += scalar_exp(logit[static_cast<std::int64_t>(e) * weights] - highest);
      }
      args.lse[static_cast<std::int64_t>(n) * weights + h] = highest + math::log_of(sum);
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
