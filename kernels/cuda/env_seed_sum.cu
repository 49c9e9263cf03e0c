// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

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

template <class Real>
void env_seed_sum_backward(const kernels::EnvSeedSumBackwardArgs<Real>& args,
                           kernels::Stream stream) {
  for_warps("env_seed_sum_backward", args.edges.count, stream,
            [=] __device__(int i, int lane) { env_seed_edge_backward(args, i, lane); });
}

DPA4_CUDA_INSTANTIATE(env_seed_sum, EnvSeedSumArgs);
DPA4_CUDA_INSTANTIATE(env_seed_sum_backward, EnvSeedSumBackwardArgs);

}  // namespace dpa4::cuda
