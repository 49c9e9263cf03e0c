// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/activation.h"

namespace dpa4::cuda {

template <class Real>
void grid_gate(const kernels::GridGateArgs<Real>& args, kernels::Stream stream) {
  const int width = args.width, size = args.n_coefficients * args.width;
  for_rows("grid_gate", args.count, size, stream, [=] __device__(int n, int k) {
    const int c = k % width;
    const std::int64_t at = static_cast<std::int64_t>(n) * size + k;
    const Real* scalars = args.scalars + static_cast<std::int64_t>(n) * 2 * width;
    const Real value =
        args.coefficient[at] * math::sigmoid(args.logit[static_cast<std::int64_t>(n) * width + c]);
    args.y[at] = k < width ? value + math::silu(scalars[c]) * scalars[width + c] : value;
  });
}

template <class Real>
void grid_gate_backward(const kernels::GridGateBackwardArgs<Real>& args, kernels::Stream stream) {
  const int width = args.width, size = args.n_coefficients;
  for_rows("grid_gate_backward", args.count, width, stream, [=] __device__(int n, int c) {
    const std::int64_t at = static_cast<std::int64_t>(n) * size * width + c;
    const std::int64_t row = static_cast<std::int64_t>(n) * width;
    const Real gate = math::sigmoid(args.logit[row + c]);
    const Real a = args.scalars[2 * row + c], b = args.scalars[2 * row + width + c];
    const Real open = math::sigmoid(a);
    const Real first = args.grad_y[at];
    args.grad_scalars[2 * row + c] = first * b * math::silu_derivative(a, open);
    args.grad_scalars[2 * row + width + c] = first * a * open;
    // All loads of a batch are on their way before the first store, which the compiler cannot see
    // to be allowed.
    constexpr int kBatch = 8;
    Real along = 0;
    for (int first = 0; first < size; first += kBatch) {
      Real grad[kBatch], coefficient[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const std::int64_t place = at + static_cast<std::int64_t>(min(first + i, size - 1)) * width;
        grad[i] = args.grad_y[place];
        coefficient[i] = args.coefficient[place];
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first + i >= size) break;
        along += grad[i] * coefficient[i];
        args.grad_coefficient[at + static_cast<std::int64_t>(first + i) * width] = gate * grad[i];
      }
    }
    args.grad_logit[row + c] = math::gate_logit_gradient(along, gate);
  });
}

DPA4_CUDA_INSTANTIATE(grid_gate, GridGateArgs);
DPA4_CUDA_INSTANTIATE(grid_gate_backward, GridGateBackwardArgs);

}  // namespace dpa4::cuda
