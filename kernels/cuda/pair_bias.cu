// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/activation.h"

namespace dpa4::cuda {

/// What an edge's types add at c.
template <class Args>
__device__ auto pair_term(const Args& args, int edge, int c) {
  const std::int64_t src = args.type[args.edges.src[edge]], dst = args.type[args.edges.dst[edge]];
  return args.src_table[src * args.width + c] + args.dst_table[dst * args.width + c];
}

template <class Real>
void pair_bias(const kernels::PairBiasArgs<Real>& args, kernels::Stream stream) {
  for_rows("pair_bias", args.edges.count, args.width, stream, [=] __device__(int i, int c) {
    const std::int64_t at = static_cast<std::int64_t>(i) * args.width + c;
    const Real factor = args.factor != nullptr ? args.factor[i] : Real(1);
    const Real value = factor * args.x[at] + pair_term(args, edge_at(args.edges, i), c);
    args.y[at] = args.silu ? math::silu(value) : value;
  });
}

template <class Real>
void pair_bias_backward(const kernels::PairBiasBackwardArgs<Real>& args, kernels::Stream stream) {
  for_warps("pair_bias_backward", args.edges.count, stream, [=] __device__(int i, int lane) {
    const int edge = edge_at(args.edges, i);
    const Real factor = args.factor != nullptr ? args.factor[i] : Real(1);
    Real grad_factor = 0;
    for (int c = lane; c < args.width; c += kWarp) {
      const std::int64_t at = static_cast<std::int64_t>(i) * args.width + c;
      const Real x = args.x[at];
      Real grad = args.grad_y[at];
      if (args.silu) {
        const Real value = factor * x + pair_term(args, edge, c);
        grad *= math::silu_derivative(value, math::sigmoid(value));
      }
      args.grad_x[at] = factor * grad;
      grad_factor += x * grad;
    }
    if (args.grad_factor == nullptr) return;
    grad_factor = warp_sum(grad_factor);
    if (lane == 0) args.grad_factor[i] += grad_factor;
  });
}

DPA4_CUDA_INSTANTIATE(pair_bias, PairBiasArgs);
DPA4_CUDA_INSTANTIATE(pair_bias_backward, PairBiasBackwardArgs);

}  // namespace dpa4::cuda
