// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/activation.h"

namespace dpa4::cuda {

template <class Real>
void rms_norm_silu(const kernels::RmsNormSiluArgs<Real>& args, kernels::Stream stream) {
  for_warps("rms_norm_silu", args.rows, stream, [=] __device__(int row, int lane) {
    const Real* x = args.x + static_cast<std::int64_t>(row) * args.width;
    Real* y = args.y + static_cast<std::int64_t>(row) * args.width;
    const Real factor =
        args.scale != nullptr ? inverse_rms(x, args.width, args.eps, lane) : Real(1);
    for (int c = lane; c < args.width; c += kWarp) {
      y[c] = math::silu(args.scale != nullptr ? x[c] * factor * args.scale[c] : x[c]);
    }
  });
}

/// grad_y phi'(.) scale at c: the gradient of the normalised x.
template <class Real>
__device__ Real silu_gradient(const kernels::RmsNormSiluBackwardArgs<Real>& args, const Real* x,
                              const Real* grad_y, Real factor, int c) {
  const Real scale = args.scale != nullptr ? args.scale[c] : Real(1);
  const Real value = x[c] * factor * scale;
  return grad_y[c] * math::silu_derivative(value, math::sigmoid(value)) * scale;
}

template <class Real>
void rms_norm_silu_backward(const kernels::RmsNormSiluBackwardArgs<Real>& args,
                            kernels::Stream stream) {
  for_warps("rms_norm_silu_backward", args.rows, stream, [=] __device__(int row, int lane) {
    const std::int64_t at = static_cast<std::int64_t>(row) * args.width;
    const Real* x = args.x + at;
    const Real* grad_y = args.grad_y + at;
    Real* grad_x = args.grad_x + at;
    if (args.scale == nullptr) {
      for (int c = lane; c < args.width; c += kWarp) {
        grad_x[c] = silu_gradient(args, x, grad_y, Real(1), c);
      }
      return;
    }
    const Real factor = inverse_rms(x, args.width, args.eps, lane);
    Real along = 0;
    for (int c = lane; c < args.width; c += kWarp) {
      along += silu_gradient(args, x, grad_y, factor, c) * x[c];
    }
    const Real pull = factor * factor * factor * warp_sum(along) / args.width;
    for (int c = lane; c < args.width; c += kWarp) {
      grad_x[c] = factor * silu_gradient(args, x, grad_y, factor, c) - pull * x[c];
    }
  });
}

DPA4_CUDA_INSTANTIATE(rms_norm_silu, RmsNormSiluArgs);
DPA4_CUDA_INSTANTIATE(rms_norm_silu_backward, RmsNormSiluBackwardArgs);

}  // namespace dpa4::cuda
