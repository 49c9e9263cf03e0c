// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.cuh"

namespace dpa4::cuda {

template <class Real>
void env_seed_sum(const kernels::EnvSeedSumArgs<Real>& args, kernels::Stream stream) {
  node_sums<4, Real>(
      "env_seed_sum", args.edges, args.width, stream,
      [=] __device__(int node, int i, int c, Real* sums) {
        const Real gate =
            args.gate != nullptr ? args.gate[args.edges.src[edge_at(args.edges, i)]] : Real(1);
        const Real rho = args.kappa[node] * gate * args.envelope[i] / args.length[i];
        const Real feature = rho * args.feature[static_cast<std::int64_t>(i) * args.width + c];
        const Real* unit = args.unit + 3 * static_cast<std::int64_t>(i);
        sums[0] += feature;
        for (int k = 0; k < 3; ++k) sums[k + 1] += unit[k] * feature;
      },
      [=] __device__(int node, int c, const Real* sums) {
        Real* sum = args.sum + static_cast<std::int64_t>(node) * 4 * args.width + c;
        for (int k = 0; k < 4; ++k) sum[k * args.width] += sums[k];
      });
}

template <class Real>
__device__ void env_seed_edge_backward(const kernels::EnvSeedSumBackwardArgs<Real>& args, int i,
                                       int lane) {
  const int width = args.width;
  const int edge = edge_at(args.edges, i);
  const int dst = args.edges.dst[edge];
  const Real gate = args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1);
  const Real* unit = args.unit + 3 * static_cast<std::int64_t>(i);
  const Real* grad = args.grad_sum + static_cast<std::int64_t>(dst) * 4 * width;
  const Real* feature = args.feature + static_cast<std::int64_t>(i) * width;
  Real* grad_feature = args.grad_feature + static_cast<std::int64_t>(i) * width;
  const Real sigma = args.envelope[i] / args.length[i];
  const Real kappa = args.kappa[dst];
  const Real factor = kappa * gate * sigma;
  Real along[4] = {0, 0, 0, 0};  // kappa <grad_sum[k, :], feature>
  for (int c = lane; c < width; c += kWarp) {
    Real g[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) g[k] = grad[k * width + c];
    const Real value = feature[c];
#pragma unroll
    for (int k = 0; k < 4; ++k) along[k] += g[k] * value;
    grad_feature[c] = factor * (g[0] + unit[0] * g[1] + unit[1] * g[2] + unit[2] * g[3]);
  }
  const Real mine = kappa * warp_sum_each(along);
#pragma unroll
  for (int k = 0; k < 4; ++k) along[k] = __shfl_sync(kAllLanes, mine, k * (kWarp / 4));
  if (lane > 0) return;
  const Real grad_sigma = along[0] + along[1] * unit[0] + along[2] * unit[1] + along[3] * unit[2];
  args.grad_envelope[i] += gate * grad_sigma / args.length[i];
  args.grad_length[i] -= gate * grad_sigma * sigma / args.length[i];
  Real* grad_unit = args.grad_unit + 3 * static_cast<std::int64_t>(i);
  for (int k = 0; k < 3; ++k) grad_unit[k] += gate * sigma * along[k + 1];
  if (args.grad_gate != nullptr) args.grad_gate[i] += sigma * grad_sigma;
}

/// kFewestLanes lanes an edge, 16 bytes of channels at a time.
template <class Real>
__global__ void __launch_bounds__(kBlock, sizeof(Real) == 4 ? 4 : 2)
    env_seed_sum_backward_vector_kernel(kernels::EnvSeedSumBackwardArgs<Real> args) {
  begin_kernel();
  constexpr int kVector = kWide<Real>, kLanes = kFewestLanes;
  const std::int64_t number =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, width = args.width;
  const bool valid = number < args.edges.count;
  const std::int64_t i = valid ? number : 0;  // an edge that exists
  const int edge = edge_at(args.edges, static_cast<int>(i));
  const std::int64_t dst = args.edges.dst[edge];
  const Real* unit_at = args.unit + 3 * i;
  const Real unit[3] = {unit_at[0], unit_at[1], unit_at[2]};
  const Real envelope = args.envelope[i], length = args.length[i];
  // A lane keeps one of the gradients of the edge.
  Real* kept = lane == 0   ? args.grad_envelope + i
               : lane == 1 ? args.grad_length + i
               : lane < 5  ? args.grad_unit + 3 * i + lane - 2
                           : nullptr;
  if (lane == 5 && args.grad_gate != nullptr) kept = args.grad_gate + i;
  if (!valid) kept = nullptr;
  const Real before = kept != nullptr ? *kept : Real(0);
  const Real gate = args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1);
  const Real* grad = args.grad_sum + dst * 4 * width;
  const Real sigma = envelope / length, kappa = args.kappa[dst];
  const Real factor = kappa * gate * sigma;
  Real along[4] = {0, 0, 0, 0};  // <grad_sum[k, :], feature>
#pragma unroll 1
  for (int c = kVector * lane; c < width; c += kVector * kLanes) {
    Real value[kVector], g[4][kVector], result[kVector];
    load_numbers<kVector>(args.feature + i * width + c, value);
#pragma unroll
    for (int k = 0; k < 4; ++k) load_numbers<kVector>(grad + k * width + c, g[k]);
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
#pragma unroll
      for (int k = 0; k < 4; ++k) along[k] += g[k][v] * value[v];
      result[v] = factor * (g[0][v] + unit[0] * g[1][v] + unit[1] * g[2][v] + unit[2] * g[3][v]);
    }
    if (valid) store_vector(args.grad_feature + i * width + c, result);
  }
  sum_neighbors<kLanes>(along);
#pragma unroll
  for (int k = 0; k < 4; ++k) along[k] *= kappa;
  const Real grad_sigma = along[0] + along[1] * unit[0] + along[2] * unit[1] + along[3] * unit[2];
  const Real share = lane == 0   ? gate * grad_sigma / length
                     : lane == 1 ? -gate * grad_sigma * sigma / length
                     : lane == 2 ? gate * sigma * along[1]
                     : lane == 3 ? gate * sigma * along[2]
                     : lane == 4 ? gate * sigma * along[3]
                                 : sigma * grad_sigma;
  if (kept != nullptr) *kept = before + share;
}

template <class Real>
void env_seed_sum_backward(const kernels::EnvSeedSumBackwardArgs<Real>& args,
                           kernels::Stream stream) {
  constexpr int kVector = kWide<Real>;
  if (args.width % kVector == 0 && is_aligned<kVector>(args.feature) &&
      is_aligned<kVector>(args.grad_sum) && is_aligned<kVector>(args.grad_feature)) {
    return launch("env_seed_sum_backward", env_seed_sum_backward_vector_kernel<Real>,
                  divide_up(args.edges.count, kBlock / kFewestLanes), kBlock, 0, stream, args);
  }
  for_warps("env_seed_sum_backward", args.edges.count, stream,
            [=] __device__(int i, int lane) { env_seed_edge_backward(args, i, lane); });
}

DPA4_CUDA_INSTANTIATE(env_seed_sum, EnvSeedSumArgs);
DPA4_CUDA_INSTANTIATE(env_seed_sum_backward, EnvSeedSumBackwardArgs);

}  // namespace dpa4::cuda
