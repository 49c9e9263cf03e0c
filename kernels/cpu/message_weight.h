// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/message_weight.h"
#include "kernels/cpu/edge_geometry.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void message_weight(const kernels::MessageWeightArgs<Real>& args, kernels::Stream) {
  const int weights = args.shape.weights();
  for (int i = 0; i < args.edges.count; ++i) {
    const int edge = edge_at(args.edges, i);
    Real* alpha = args.alpha + static_cast<std::int64_t>(i) * weights;
    if (args.shape.n_heads == 0) {
      const Real gate = args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1);
      for (int h = 0; h < weights; ++h) alpha[h] = args.envelope[i] * gate;
      continue;
    }
    const Real* logit = args.logit + static_cast<std::int64_t>(edge) * weights;
    const Real* lse = args.lse + static_cast<std::int64_t>(args.edges.dst[edge]) * weights;
    for (int h = 0; h < weights; ++h) alpha[h] = scalar_exp(logit[h] - lse[h]);
  }
}

template <class Real>
void message_weight_backward(const kernels::MessageWeightBackwardArgs<Real>& args,
                             kernels::Stream) {
  const int weights = args.shape.weights(), hidden = args.shape.hidden();
  const int head_width = hidden / weights;
  const Real scale = Real(1) / math::sqrt_of(static_cast<Real>(head_width));
  for (int i = 0; i < args.edges.count; ++i) {
    const int edge = edge_at(args.edges, i);
    const int src = args.edges.src[edge], dst = args.edges.dst[edge];
    const Real gate = args.gate != nullptr ? args.gate[src] : Real(1);
    const Real* grad_alpha = args.grad_alpha + static_cast<std::int64_t>(i) * weights;
    Real sum = 0;
    if (args.shape.n_heads == 0) {
      for (int h = 0; h < weights; ++h) sum += grad_alpha[h];
      args.grad_envelope[i] += gate * sum;
      if (args.grad_gate != nullptr) args.grad_gate[i] += args.envelope[i] * sum;
      continue;
    }
    const Real* alpha = args.alpha + static_cast<std::int64_t>(i) * weights;
    const Real* row_sum = args.row_sum + static_cast<std::int64_t>(dst) * weights;
    const Real* query = args.query + static_cast<std::int64_t>(dst) * hidden;
    Real* grad_logit = args.grad_logit + static_cast<std::int64_t>(edge) * weights;
    Real* grad_radial = args.grad_radial + static_cast<std::int64_t>(i) * args.ld_radial;
    Real* grad_key = args.grad_key + static_cast<std::int64_t>(src) * hidden;
    for (int h = 0; h < weights; ++h) {
      const Real grad = alpha[h] * (grad_alpha[h] - row_sum[h]);
      grad_logit[h] = grad;
      grad_radial[h] = grad;
      sum += grad;
      add_scaled(grad_key + h * head_width, query + h * head_width, scale * grad, head_width);
    }
    if (args.envelope[i] > 0) args.grad_envelope[i] += 2 * sum / args.envelope[i];
    if (args.grad_gate != nullptr && gate > 0) args.grad_gate[i] += sum / gate;
  }
}

template <class Real>
void query_gradient(const kernels::QueryGradientArgs<Real>& args, kernels::Stream) {
  const int weights = args.shape.weights(), hidden = args.shape.hidden();
  const int head_width = hidden / weights;
  const Real scale = Real(1) / math::sqrt_of(static_cast<Real>(head_width));
  for (int n = args.node_first; n < args.node_first + args.node_count; ++n) {
    Real* grad = args.grad_query + static_cast<std::int64_t>(n) * hidden;
    std::memset(grad, 0, hidden * sizeof(Real));
    for (int e = args.dst_begin[n]; e < args.dst_begin[n + 1]; ++e) {
      const Real* key = args.key + static_cast<std::int64_t>(args.src[e]) * hidden;
      const Real* grad_logit = args.grad_logit + static_cast<std::int64_t>(e) * weights;
      for (int h = 0; h < weights; ++h) {
        add_scaled(grad + h * head_width, key + h * head_width, scale * grad_logit[h], head_width);
      }
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
