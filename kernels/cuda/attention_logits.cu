// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void attention_logits(const kernels::AttentionLogitsArgs<Real>& args, kernels::Stream stream) {
  const int weights = args.shape.weights(), hidden = args.shape.hidden();
  const int head_width = hidden / weights;
  for_warps("attention_logits", args.edges.count, stream, [=] __device__(int i, int lane) {
    const int edge = edge_at(args.edges, i);
    const int src = args.edges.src[edge];
    const Real* query = args.query + static_cast<std::int64_t>(args.edges.dst[edge]) * hidden;
    const Real* key = args.key + static_cast<std::int64_t>(src) * hidden;
    const Real scale = Real(1) / math::sqrt_of(static_cast<Real>(head_width));
    const Real envelope = args.envelope[i];
    const Real gate = args.gate != nullptr ? args.gate[src] : Real(1);
    const bool silent = !(envelope > 0) || !(gate > 0);
    const Real offset =
        silent ? -static_cast<Real>(INFINITY)
               : 2 * math::log_of(envelope) + (args.gate != nullptr ? math::log_of(gate) : Real(0));
    for (int h = 0; h < weights; ++h) {
      const Real product = warp_dot(query + h * head_width, key + h * head_width, head_width, lane);
      if (lane == 0) {
        args.logit[static_cast<std::int64_t>(edge) * weights + h] =
            silent ? offset
                   : scale * product +
                         args.radial[static_cast<std::int64_t>(i) * args.ld_radial + h] + offset;
      }
    }
  });
}

template <class Real>
void attention_lse(const kernels::AttentionLseArgs<Real>& args, kernels::Stream stream) {
  const std::int64_t rows = static_cast<std::int64_t>(args.node_count) * args.n_weights;
  for_warps("attention_lse", rows, stream, [=] __device__(int row, int lane) {
    const int n = args.node_first + row / args.n_weights, h = row % args.n_weights;
    const int begin = args.dst_begin[n], end = args.dst_begin[n + 1];
    const Real* logit = args.logit + h;
    const Real null = args.null_logit[h];
    Real highest = null;
    for (int e = begin + lane; e < end; e += kWarp) {
      const Real value = logit[static_cast<std::int64_t>(e) * args.n_weights];
      highest = value > highest ? value : highest;
    }
    highest = warp_max(highest);
    Real sum = 0;
    for (int e = begin + lane; e < end; e += kWarp) {
      sum += math::exp_of(logit[static_cast<std::int64_t>(e) * args.n_weights] - highest);
    }
    sum = warp_sum(sum) + math::exp_of(null - highest);
    if (lane == 0) {
      args.lse[static_cast<std::int64_t>(n) * args.n_weights + h] = highest + math::log_of(sum);
    }
  });
}

DPA4_CUDA_INSTANTIATE(attention_logits, AttentionLogitsArgs);
DPA4_CUDA_INSTANTIATE(attention_lse, AttentionLseArgs);

}  // namespace dpa4::cuda
