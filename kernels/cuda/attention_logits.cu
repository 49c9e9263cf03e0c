// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/elementary.h"

namespace dpa4::cuda {

inline constexpr int kLogitLanes = 8;  // lanes that share an edge

/// <a, b>, the same in the lanes that share an edge. kVector: numbers come four at a time.
template <bool kVector, class Real>
__device__ __forceinline__ Real shared_dot(const Real* a, const Real* b, int width, int lane) {
  Real sum = 0;
  if constexpr (kVector) {
#pragma unroll 1
    for (int c = 4 * lane; c < width; c += 4 * kLogitLanes) {
      Real x[4], y[4];
      load_numbers<4>(a + c, x);
      load_numbers<4>(b + c, y);
#pragma unroll
      for (int t = 0; t < 4; ++t) sum += x[t] * y[t];
    }
  } else {
#pragma unroll 1
    for (int c = lane; c < width; c += kLogitLanes) sum += a[c] * b[c];
  }
#pragma unroll
  for (int step = kLogitLanes / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, step);
  }
  return sum;
}

template <bool kVector, class Real>
__global__ void __launch_bounds__(kBlock)
    attention_logits_kernel(kernels::AttentionLogitsArgs<Real> args, int weights, int head_width) {
  begin_kernel();
  const std::int64_t number =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kLogitLanes) + threadIdx.x / kLogitLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLogitLanes;
  const bool valid = number < args.edges.count;
  const int i = valid ? static_cast<int>(number) : 0;
  const int edge = edge_at(args.edges, i);
  const int src = args.edges.src[edge];
  const std::int64_t hidden = weights * head_width;
  const Real* query = args.query + args.edges.dst[edge] * hidden;
  const Real* key = args.key + src * hidden;
  const Real scale = Real(1) / math::sqrt_of(static_cast<Real>(head_width));
  const Real envelope = args.envelope[i];
  const Real gate = args.gate != nullptr ? args.gate[src] : Real(1);
  const bool silent = !(envelope > 0) || !(gate > 0);
  const Real offset =
      silent ? -static_cast<Real>(INFINITY)
             : 2 * math::log_of(envelope) + (args.gate != nullptr ? math::log_of(gate) : Real(0));
#pragma unroll 1
  for (int h = 0; h < weights; ++h) {
    const Real product =
        shared_dot<kVector>(query + h * head_width, key + h * head_width, head_width, lane);
    if (lane != h % kLogitLanes || !valid) continue;
    args.logit[static_cast<std::int64_t>(edge) * weights + h] =
        silent ? offset
               : scale * product + args.radial[static_cast<std::int64_t>(i) * args.ld_radial + h] +
                     offset;
  }
}

template <class Real>
void attention_logits(const kernels::AttentionLogitsArgs<Real>& args, kernels::Stream stream) {
  const int weights = args.shape.weights(), hidden = args.shape.hidden();
  const int head_width = hidden / weights;
  const bool vector = head_width % 4 == 0 &&
                      reinterpret_cast<std::uintptr_t>(args.query) % 16 == 0 &&
                      reinterpret_cast<std::uintptr_t>(args.key) % 16 == 0;
  const auto kernel =
      vector ? attention_logits_kernel<true, Real> : attention_logits_kernel<false, Real>;
  launch("attention_logits", kernel, divide_up(args.edges.count, kBlock / kLogitLanes), kBlock, 0,
         stream, args, weights, head_width);
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
