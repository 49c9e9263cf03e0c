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

/// A warp for each node and head.
template <class Real>
__device__ void head_backward(const kernels::HeadGateBackwardArgs<Real>& args, int hidden,
                              int weights, int rows, std::int64_t head, int lane) {
  const std::int64_t n = head / weights;
  const int head_width = hidden / weights;
  const std::int64_t at = n * rows * hidden + head % weights * head_width;
  const Real gate = math::sigmoid(args.logit[head]);
  Real along = 0;  // <grad_out, sum>
  for (int d = 0; d < rows; ++d) {
    for (int c = lane; c < head_width; c += kWarp) {
      const std::int64_t place = at + static_cast<std::int64_t>(d) * hidden + c;
      const Real grad = args.grad_out[place];
      along += grad * args.sum[place];
      args.grad_sum[place] = gate * grad;
    }
  }
  along = warp_sum(along);
  if (lane > 0) return;
  args.row_sum[head] = gate * along;
  args.grad_logit[head] = math::sigmoid_derivative(gate) * along;
}

/// Without attention: a warp a node, because kappa belongs to all focus streams.
template <class Real>
__device__ void degree_backward(const kernels::HeadGateBackwardArgs<Real>& args, int size,
                                std::int64_t n, int lane) {
  const Real kappa = args.kappa[n];
  Real along = 0;
  for (int k = lane; k < size; k += kWarp) {
    const Real grad = args.grad_out[n * size + k];
    along += grad * args.sum[n * size + k];
    args.grad_sum[n * size + k] = kappa * grad;
  }
  along = warp_sum(along);
  if (lane == 0) args.kappa_times_grad[n] += kappa * along;
}

template <class Real>
void head_gate_backward(const kernels::HeadGateBackwardArgs<Real>& args, kernels::Stream stream) {
  const int hidden = args.shape.hidden(), weights = args.shape.weights();
  const int rows = args.shape.full_rows();
  if (args.shape.n_heads == 0) {
    for_warps("head_gate_backward", args.n_nodes, stream,
              [=] __device__(int n, int lane) { degree_backward(args, rows * hidden, n, lane); });
    return;
  }
  for_warps("head_gate_backward", static_cast<std::int64_t>(args.n_nodes) * weights, stream,
            [=] __device__(int head, int lane) {
              head_backward(args, hidden, weights, rows, head, lane);
            });
}

DPA4_CUDA_INSTANTIATE(head_gate, HeadGateArgs);
DPA4_CUDA_INSTANTIATE(head_gate_backward, HeadGateBackwardArgs);

}  // namespace dpa4::cuda
