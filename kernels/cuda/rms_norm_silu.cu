// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.cuh"
#include "src/math/activation.h"

namespace dpa4::cuda {

/// kLanes lanes a row, which hold it in registers, 16 bytes each. With a scale.
template <int kLanes, class Real>
__global__ void __launch_bounds__(kBlock)
    rms_norm_silu_vector_kernel(kernels::RmsNormSiluArgs<Real> args) {
  constexpr int kVector = kWide<Real>;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes;
  const int c = static_cast<int>(threadIdx.x) % kLanes * kVector;
  const bool active = row < args.rows && c < args.width;
  const std::int64_t at = row * args.width + c;
  Real x[kVector], scale[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) x[v] = scale[v] = 0;
  if (active) {
    load_numbers<kVector>(args.x + at, x);
    load_numbers<kVector>(args.scale + c, scale);
  }
  Real sum[1] = {0};
#pragma unroll
  for (int v = 0; v < kVector; ++v) sum[0] += x[v] * x[v];
  sum_neighbors<kLanes>(sum);
  const Real factor = Real(1) / math::sqrt_of(sum[0] / args.width + static_cast<Real>(args.eps));
#pragma unroll
  for (int v = 0; v < kVector; ++v) x[v] = math::silu(x[v] * factor * scale[v]);
  if (active) store_vector(args.y + at, x);
}

/// Launches the vector kernel of the fewest lanes that hold a row; false where there is none.
template <int kLanes, class Real>
bool rms_norm_silu_vector(const kernels::RmsNormSiluArgs<Real>& args, kernels::Stream stream) {
  constexpr int kVector = kWide<Real>;
  if constexpr (kLanes > kWarp) {
    return false;
  } else {
    if (args.width > kLanes * kVector) return rms_norm_silu_vector<2 * kLanes>(args, stream);
    if (args.width % kVector != 0 || !is_aligned<kVector>(args.x) || !is_aligned<kVector>(args.y) ||
        !is_aligned<kVector>(args.scale)) {
      return false;
    }
    launch("rms_norm_silu", rms_norm_silu_vector_kernel<kLanes, Real>,
           divide_up(args.rows, kBlock / kLanes), kBlock, 0, stream, args);
    return true;
  }
}

template <class Real>
void rms_norm_silu(const kernels::RmsNormSiluArgs<Real>& args, kernels::Stream stream) {
  if (args.scale != nullptr && rms_norm_silu_vector<kFewestLanes>(args, stream)) return;
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

/// kLanes lanes a row, which hold it in registers, 16 bytes each. With a scale.
template <int kLanes, class Real>
__global__ void __launch_bounds__(kBlock)
    rms_norm_silu_backward_vector_kernel(kernels::RmsNormSiluBackwardArgs<Real> args) {
  constexpr int kVector = kWide<Real>;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes;
  const int c = static_cast<int>(threadIdx.x) % kLanes * kVector;
  const bool active = row < args.rows && c < args.width;
  const std::int64_t at = row * args.width + c;
  Real x[kVector], grad[kVector], scale[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) x[v] = grad[v] = scale[v] = 0;
  if (active) {
    load_numbers<kVector>(args.x + at, x);
    load_numbers<kVector>(args.grad_y + at, grad);
    load_numbers<kVector>(args.scale + c, scale);
  }
  Real sum[1] = {0};
#pragma unroll
  for (int v = 0; v < kVector; ++v) sum[0] += x[v] * x[v];
  sum_neighbors<kLanes>(sum);
  const Real factor = Real(1) / math::sqrt_of(sum[0] / args.width + static_cast<Real>(args.eps));
  sum[0] = 0;
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    const Real value = x[v] * factor * scale[v];
    grad[v] *= math::silu_derivative(value, math::sigmoid(value)) * scale[v];
    sum[0] += grad[v] * x[v];
  }
  sum_neighbors<kLanes>(sum);
  const Real pull = factor * factor * factor * sum[0] / args.width;
#pragma unroll
  for (int v = 0; v < kVector; ++v) grad[v] = factor * grad[v] - pull * x[v];
  if (active) store_vector(args.grad_x + at, grad);
}

/// Launches the vector kernel of the fewest lanes that hold a row; false where there is none.
template <int kLanes, class Real>
bool rms_norm_silu_backward_vector(const kernels::RmsNormSiluBackwardArgs<Real>& args,
                                   kernels::Stream stream) {
  constexpr int kVector = kWide<Real>;
  if constexpr (kLanes > kWarp) {
    return false;
  } else {
    if (args.width > kLanes * kVector) {
      return rms_norm_silu_backward_vector<2 * kLanes>(args, stream);
    }
    if (args.width % kVector != 0 || !is_aligned<kVector>(args.x) ||
        !is_aligned<kVector>(args.grad_y) || !is_aligned<kVector>(args.grad_x) ||
        !is_aligned<kVector>(args.scale)) {
      return false;
    }
    launch("rms_norm_silu_backward", rms_norm_silu_backward_vector_kernel<kLanes, Real>,
           divide_up(args.rows, kBlock / kLanes), kBlock, 0, stream, args);
    return true;
  }
}

template <class Real>
void rms_norm_silu_backward(const kernels::RmsNormSiluBackwardArgs<Real>& args,
                            kernels::Stream stream) {
  if (args.scale != nullptr && rms_norm_silu_backward_vector<kFewestLanes>(args, stream)) return;
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
