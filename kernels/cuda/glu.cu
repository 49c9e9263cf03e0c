// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/activation.h"

namespace dpa4::cuda {

/// x + bias at c, or x where there is no bias.
template <class Real>
__device__ Real biased(const Real* x, const Real* bias, int c) {
  return bias != nullptr ? x[c] + bias[c] : x[c];
}

template <class Real>
void glu(const kernels::GluArgs<Real>& args, kernels::Stream stream) {
  const int width = args.width, ldx = args.plain ? width : 2 * width;
  for_rows("glu", args.rows, width, stream, [=] __device__(int n, int c) {
    const Real* x = args.x + static_cast<std::int64_t>(n) * ldx;
    const Real value = biased(x, args.bias, c);
    args.y[static_cast<std::int64_t>(n) * width + c] =
        args.plain ? math::silu(value) : value * math::silu(biased(x, args.bias, width + c));
  });
}

template <class Real>
void glu_backward(const kernels::GluBackwardArgs<Real>& args, kernels::Stream stream) {
  const int width = args.width, ldx = args.plain ? width : 2 * width;
  for_rows("glu_backward", args.rows, width, stream, [=] __device__(int n, int c) {
    const Real* x = args.x + static_cast<std::int64_t>(n) * ldx;
    Real* grad_x = args.grad_x + static_cast<std::int64_t>(n) * ldx;
    const Real grad = args.grad_y[static_cast<std::int64_t>(n) * width + c];
    const Real value = biased(x, args.bias, c);
    if (args.plain) {
      grad_x[c] = grad * math::silu_derivative(value, math::sigmoid(value));
      return;
    }
    const Real gate = biased(x, args.bias, width + c);
    const Real open = math::sigmoid(gate);
    grad_x[c] = grad * gate * open;
    grad_x[width + c] = grad * value * math::silu_derivative(gate, open);
  });
}

DPA4_CUDA_INSTANTIATE(glu, GluArgs);
DPA4_CUDA_INSTANTIATE(glu_backward, GluBackwardArgs);

}  // namespace dpa4::cuda
