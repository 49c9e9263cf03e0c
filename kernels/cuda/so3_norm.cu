// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/elementary.h"

namespace dpa4::cuda {

/// One block a node.
inline constexpr int kNormThreads = 256;

/// Sum over the threads of the block, the same bits in every thread. `shared` has a place a warp.
template <class Real>
__device__ Real block_sum(Real x, Real* shared) {
  x = warp_sum(x);
  __syncthreads();  // the last sum has been read
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  Real total = shared[0];
#pragma unroll
  for (int w = 1; w < kNormThreads / kWarp; ++w) total += shared[w];
  return total;
}

__device__ inline int degree_of_row(int d) {
  int l = 0;
  while ((l + 1) * (l + 1) <= d) ++l;
  return l;
}

/// What both directions need of a node.
template <class Real>
struct NodeNorm {
  const Real* x;
  int channels, size;
  Real mean;     // channel mean of row 0
  Real inverse;  // (v + eps)^(-1/2)

  /// The element without the mean.
  __device__ Real centered(int k) const { return k < channels ? x[k] - mean : x[k]; }

  __device__ NodeNorm(const Real* values, const Real* balance, int lmax, int n_channels, double eps,
                      Real* shared)
      : x(values), channels(n_channels), size((lmax + 1) * (lmax + 1) * n_channels) {
    Real sum = 0;
    for (int c = threadIdx.x; c < channels; c += kNormThreads) sum += x[c];
    mean = block_sum(sum, shared) / channels;
    sum = 0;
    for (int k = threadIdx.x; k < size; k += kNormThreads) {
      const Real z = centered(k);
      sum += balance[degree_of_row(k / channels)] * z * z;
    }
    inverse = Real(1) / math::sqrt_of(block_sum(sum, shared) + static_cast<Real>(eps));
  }
};

template <class Real>
__global__ void __launch_bounds__(kNormThreads) so3_norm_kernel(kernels::So3NormArgs<Real> args) {
  begin_kernel();
  __shared__ Real shared[kNormThreads / kWarp];
  const std::int64_t n = blockIdx.x;
  const NodeNorm<Real> norm(args.x + n * args.ldx, args.balance, args.lmax, args.channels, args.eps,
                            shared);
  Real* y = args.y + n * norm.size;
  for (int k = threadIdx.x; k < norm.size; k += kNormThreads) {
    const int d = k / args.channels, c = k % args.channels;
    const Real value =
        norm.centered(k) * norm.inverse * args.scale[degree_of_row(d) * args.channels + c];
    y[k] = d == 0 ? value + args.bias[c] : value;
  }
}

template <class Real>
__global__ void __launch_bounds__(kNormThreads)
    so3_norm_backward_kernel(kernels::So3NormBackwardArgs<Real> args) {
  begin_kernel();
  __shared__ Real shared[kNormThreads / kWarp];
  const std::int64_t n = blockIdx.x;
  const NodeNorm<Real> norm(args.x + n * args.ldx, args.balance, args.lmax, args.channels, args.eps,
                            shared);
  const Real* grad_y = args.grad_y + n * norm.size;
  Real* grad_x = args.grad_x + n * args.ld_grad;
  const auto scaled = [&](int k) {
    return grad_y[k] *
           args.scale[degree_of_row(k / args.channels) * args.channels + k % args.channels];
  };
  Real sum = 0;
  for (int k = threadIdx.x; k < norm.size; k += kNormThreads) sum += scaled(k) * norm.centered(k);
  const Real pull = norm.inverse * norm.inverse * norm.inverse * block_sum(sum, shared);
  sum = 0;
  for (int c = threadIdx.x; c < args.channels; c += kNormThreads) {
    sum += norm.inverse * scaled(c) - pull * args.balance[0] * norm.centered(c);
  }
  // The channel mean of row 0 does not change the result, so it is taken out of the gradient.
  const Real grad_mean = block_sum(sum, shared) / args.channels;
  for (int k = threadIdx.x; k < norm.size; k += kNormThreads) {
    const int l = degree_of_row(k / args.channels);
    const Real grad = norm.inverse * scaled(k) - pull * args.balance[l] * norm.centered(k) -
                      (l == 0 ? grad_mean : Real(0));
    grad_x[k] = args.accumulate ? grad_x[k] + grad : grad;
  }
}

template <class Real>
void so3_norm(const kernels::So3NormArgs<Real>& args, kernels::Stream stream) {
  launch("so3_norm", so3_norm_kernel<Real>, args.n_nodes, kNormThreads, 0, stream, args);
}

template <class Real>
void so3_norm_backward(const kernels::So3NormBackwardArgs<Real>& args, kernels::Stream stream) {
  launch("so3_norm_backward", so3_norm_backward_kernel<Real>, args.n_nodes, kNormThreads, 0, stream,
         args);
}

DPA4_CUDA_INSTANTIATE(so3_norm, So3NormArgs);
DPA4_CUDA_INSTANTIATE(so3_norm_backward, So3NormBackwardArgs);

}  // namespace dpa4::cuda
