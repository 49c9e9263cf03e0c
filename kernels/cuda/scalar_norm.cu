// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void scalar_norm(const kernels::ScalarNormArgs<Real>& args, kernels::Stream stream) {
  const std::int64_t rows = static_cast<std::int64_t>(args.n_nodes) * args.n_focus;
  for_warps("scalar_norm", rows, stream, [=] __device__(int row, int lane) {
    const int n = row / args.n_focus, f = row % args.n_focus;
    const Real* x = args.x + n * args.ldx + f * args.width;
    const Real factor = inverse_rms(x, args.width, args.eps, lane);
    for (int c = lane; c < args.width; c += kWarp) {
      args.y[static_cast<std::int64_t>(row) * args.width + c] =
          x[c] * factor * args.scale[f * args.width + c];
    }
  });
}

template <class Real>
void scalar_norm_backward(const kernels::ScalarNormBackwardArgs<Real>& args,
                          kernels::Stream stream) {
  const std::int64_t rows = static_cast<std::int64_t>(args.n_nodes) * args.n_focus;
  for_warps("scalar_norm_backward", rows, stream, [=] __device__(int row, int lane) {
    const int n = row / args.n_focus, f = row % args.n_focus;
    const Real* x = args.x + n * args.ldx + f * args.width;
    const Real* scale = args.scale + f * args.width;
    const Real* grad_y = args.grad_y + static_cast<std::int64_t>(row) * args.width;
    Real* grad_x = args.grad_x + n * args.ld_grad + f * args.width;
    const Real factor = inverse_rms(x, args.width, args.eps, lane);
    Real along = 0;
    for (int c = lane; c < args.width; c += kWarp) along += grad_y[c] * scale[c] * x[c];
    const Real pull = factor * factor * factor * warp_sum(along) / args.width;
    for (int c = lane; c < args.width; c += kWarp) {
      grad_x[c] += factor * grad_y[c] * scale[c] - pull * x[c];
    }
  });
}

DPA4_CUDA_INSTANTIATE(scalar_norm, ScalarNormArgs);
DPA4_CUDA_INSTANTIATE(scalar_norm_backward, ScalarNormBackwardArgs);

}  // namespace dpa4::cuda
