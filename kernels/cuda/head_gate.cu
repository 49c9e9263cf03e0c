// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/activation.h"

namespace dpa4::cuda {

template <class Real>
void head_gate(const kernels::HeadGateArgs<Real>& args, kernels::Stream stream) {
  const int hidden = args.shape.hidden(), weights = args.shape.weights();
  const int head_width = hidden / weights, rows = args.shape.full_rows();
  const bool attention = args.shape.n_heads > 0;
  for_rows("head_gate", args.n_nodes, rows * hidden, stream, [=] __device__(int n, int k) {
    const Real gate =
        attention
            ? math::sigmoid(
                  args.logit[static_cast<std::int64_t>(n) * weights + k % hidden / head_width])
            : args.kappa[n];
    const std::int64_t at = static_cast<std::int64_t>(n) * rows * hidden + k;
    args.out[at] = gate * args.sum[at];
  });
}

inline constexpr int kMostGateWarps = 8;  // that share the elements of a gate

/// Backward of the product with one of `count` gates, whose elements `warps` warps share, a few
/// each on their way at a time: grad_sum = gate grad_out; takes <grad_out, sum>. gate_of(i) gives
/// the gate i, place(i, k) its k-th element of `size`, finish(i, gate, sum) takes the result.
template <class Real, class GateOf, class Place, class Finish>
__global__ void __launch_bounds__(kMostGateWarps* kWarp)
    gate_backward_kernel(kernels::HeadGateBackwardArgs<Real> args, std::int64_t count, int size,
                         int warps, GateOf gate_of, Place place, Finish finish) {
  begin_kernel();
  constexpr int kAhead = 4;
  __shared__ Real partial[kMostGateWarps];
  const int threads = warps * kWarp;
  const int first = static_cast<int>(threadIdx.x) / threads * threads;  // of those that share
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / threads) +
                         static_cast<int>(threadIdx.x) / threads;
  const int thread = static_cast<int>(threadIdx.x) - first;
  const Real gate = i < count ? gate_of(i) : Real(0);
  Real along = 0;
  for (int begin = thread; i < count && begin < size; begin += kAhead * threads) {
    Real grad[kAhead], sum[kAhead];
#pragma unroll
    for (int t = 0; t < kAhead; ++t) {
      const int k = begin + t * threads;
      grad[t] = k < size ? args.grad_out[place(i, k)] : Real(0);
      sum[t] = k < size ? args.sum[place(i, k)] : Real(0);
    }
#pragma unroll
    for (int t = 0; t < kAhead; ++t) {
      const int k = begin + t * threads;
      along += grad[t] * sum[t];
      if (k < size) args.grad_sum[place(i, k)] = gate * grad[t];
    }
  }
  along = warp_sum(along);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = along;
  __syncthreads();
  if (thread > 0 || i >= count) return;
  along = 0;
  for (int w = 0; w < warps; ++w) along += partial[first / kWarp + w];
  finish(i, gate, along);
}

template <class Real, class GateOf, class Place, class Finish>
void gate_backward(const kernels::HeadGateBackwardArgs<Real>& args, std::int64_t count, int size,
                   kernels::Stream stream, const GateOf& gate_of, const Place& place,
                   const Finish& finish) {
  int warps = 1;  // by the size alone, so that the sums do not depend on the number of gates
  while (warps < kMostGateWarps && 4 * kWarp * warps < size) warps *= 2;
  launch("head_gate_backward", gate_backward_kernel<Real, GateOf, Place, Finish>,
         divide_up(count, kMostGateWarps / warps), kMostGateWarps * kWarp, 0, stream, args, count,
         size, warps, gate_of, place, finish);
}

template <class Real>
void head_gate_backward(const kernels::HeadGateBackwardArgs<Real>& args, kernels::Stream stream) {
  const int hidden = args.shape.hidden(), weights = args.shape.weights();
  const int rows = args.shape.full_rows();
  const int size = rows * hidden;
  if (args.shape.n_heads == 0) {
    // A gate a node, because kappa belongs to all focus streams.
    gate_backward(
        args, args.n_nodes, size, stream, [=] __device__(std::int64_t n) { return args.kappa[n]; },
        [=] __device__(std::int64_t n, int k) { return n * size + k; },
        [=] __device__(std::int64_t n, Real kappa, Real along) {
          args.kappa_times_grad[n] += kappa * along;
        });
    return;
  }
  const int head_width = hidden / weights;
  gate_backward(
      args, static_cast<std::int64_t>(args.n_nodes) * weights, rows * head_width, stream,
      [=] __device__(std::int64_t head) { return math::sigmoid(args.logit[head]); },
      [=] __device__(std::int64_t head, int k) {
        return head / weights * size + k / head_width * hidden + head % weights * head_width +
               k % head_width;
      },
      [=] __device__(std::int64_t head, Real gate, Real along) {
        args.row_sum[head] = gate * along;
        args.grad_logit[head] = math::sigmoid_derivative(gate) * along;
      });
}

DPA4_CUDA_INSTANTIATE(head_gate, HeadGateArgs);
DPA4_CUDA_INSTANTIATE(head_gate_backward, HeadGateBackwardArgs);

}  // namespace dpa4::cuda
