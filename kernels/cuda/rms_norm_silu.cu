// SPDX-License-Identifier: GPL-2.0-or-later
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.cuh"
#include "src/math/activation.h"

namespace dpa4::cuda {

// ---- without a norm: one number after another, whatever the rows
// ----------------------------------

inline constexpr int kInFlight = 4;  // vectors of a thread, so that it waits for memory once

/// y = silu(x), or y = grad_y silu'(x) where there is a gradient, of n vectors.
template <int kVector, bool kBackward, class Real>
__global__ void __launch_bounds__(kBlock)
    silu_kernel(std::int64_t n, const Real* x, const Real* grad_y, Real* y) {
  begin_kernel();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kInFlight * kBlock) +
                             static_cast<std::int64_t>(threadIdx.x);
  Real value[kInFlight][kVector], grad[kInFlight][kVector];
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    const std::int64_t at = first + j * kBlock;
    if (at >= n) continue;
    load_numbers<kVector>(x + at * kVector, value[j]);
    if constexpr (kBackward) load_numbers<kVector>(grad_y + at * kVector, grad[j]);
  }
#pragma unroll
  for (int j = 0; j < kInFlight; ++j) {
    const std::int64_t at = first + j * kBlock;
    if (at >= n) return;
    Real result[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const Real z = value[j][v];
      if constexpr (kBackward) {
        result[v] = grad[j][v] * math::silu_derivative(z, math::sigmoid(z));
      } else {
        result[v] = math::silu(z);
      }
    }
    store_numbers<kVector>(y + at * kVector, result);
  }
}

template <bool kBackward, class Real>
void silu_rows(const char* name, int rows, int width, const Real* x, const Real* grad_y, Real* y,
               kernels::Stream stream) {
  constexpr int kVector = kWide<Real>;
  const bool wide = width % kVector == 0 && is_aligned<kVector>(x) && is_aligned<kVector>(grad_y) &&
                    is_aligned<kVector>(y);
  const std::int64_t n = static_cast<std::int64_t>(rows) * width / (wide ? kVector : 1);
  launch(name, wide ? silu_kernel<kVector, kBackward, Real> : silu_kernel<1, kBackward, Real>,
         divide_up(n, kInFlight * kBlock), kBlock, 0, stream, n, x, grad_y, y);
}

// ---- with a norm: some lanes or a warp a row
// -----------------------------------------------------

/// What a lane has of a row that kLanes lanes hold in registers, 16 bytes each.
template <int kLanes, class Real>
struct NormedRow {
  static constexpr int kVector = kWide<Real>;

  std::int64_t at;  // of this lane's numbers
  bool active;      // has numbers of a row
  Real x[kVector], scale[kVector];

  template <class Args>
  __device__ __forceinline__ explicit NormedRow(const Args& args) {
    const std::int64_t row =
        static_cast<std::int64_t>(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes;
    const int c = static_cast<int>(threadIdx.x) % kLanes * kVector;
    at = row * args.width + c;
    active = row < args.rows && c < args.width;
#pragma unroll
    for (int v = 0; v < kVector; ++v) x[v] = scale[v] = 0;
    if (active) {
      load_numbers<kVector>(args.x + at, x);
      load_numbers<kVector>(args.scale + c, scale);
    }
  }

  /// 1 / sqrt(mean(x^2) + eps)
  template <class Args>
  __device__ __forceinline__ Real factor(const Args& args) const {
    Real squares[1] = {0};
#pragma unroll
    for (int v = 0; v < kVector; ++v) squares[0] += x[v] * x[v];
    sum_neighbors<kLanes>(squares);
    return Real(1) / math::sqrt_of(squares[0] / args.width + static_cast<Real>(args.eps));
  }
};

template <int kLanes, class Real>
__global__ void __launch_bounds__(kBlock)
    rms_norm_silu_vector_kernel(kernels::RmsNormSiluArgs<Real> args) {
  begin_kernel();
  NormedRow<kLanes, Real> row(args);
  const Real factor = row.factor(args);
#pragma unroll
  for (int v = 0; v < row.kVector; ++v) row.x[v] = math::silu(row.x[v] * factor * row.scale[v]);
  if (row.active) store_vector(args.y + row.at, row.x);
}

template <int kLanes, class Real>
__global__ void __launch_bounds__(kBlock)
    rms_norm_silu_backward_vector_kernel(kernels::RmsNormSiluBackwardArgs<Real> args) {
  begin_kernel();
  constexpr int kVector = kWide<Real>;
  const NormedRow<kLanes, Real> row(args);
  Real grad[kVector];
#pragma unroll
  for (int v = 0; v < kVector; ++v) grad[v] = 0;
  if (row.active) load_numbers<kVector>(args.grad_y + row.at, grad);
  const Real factor = row.factor(args);
  Real along[1] = {0};
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    const Real value = row.x[v] * factor * row.scale[v];
    grad[v] *= math::silu_derivative(value, math::sigmoid(value)) * row.scale[v];
    along[0] += grad[v] * row.x[v];
  }
  sum_neighbors<kLanes>(along);
  const Real pull = factor * factor * factor * along[0] / args.width;
#pragma unroll
  for (int v = 0; v < kVector; ++v) grad[v] = factor * grad[v] - pull * row.x[v];
  if (row.active) store_vector(args.grad_x + row.at, grad);
}

/// Calls launch_with(integral_constant kLanes) with the fewest lanes that hold a row of `width`;
/// false where a warp does not.
template <class Real, int kLanes = kFewestLanes, class LaunchWith>
bool with_row_lanes(int width, const LaunchWith& launch_with) {
  if constexpr (kLanes > kWarp) {
    return false;
  } else {
    if (width > kLanes * kWide<Real>) return with_row_lanes<Real, 2 * kLanes>(width, launch_with);
    launch_with(std::integral_constant<int, kLanes>{});
    return true;
  }
}

/// grad_y silu'(.) scale at c: the gradient of the normalised x.
template <class Real>
__device__ Real normed_gradient(const kernels::RmsNormSiluBackwardArgs<Real>& args, const Real* x,
                                const Real* grad_y, Real factor, int c) {
  const Real value = x[c] * factor * args.scale[c];
  return grad_y[c] * math::silu_derivative(value, math::sigmoid(value)) * args.scale[c];
}

template <class Real>
void rms_norm_silu(const kernels::RmsNormSiluArgs<Real>& args, kernels::Stream stream) {
  constexpr const char* kName = "rms_norm_silu";
  if (args.scale == nullptr) {
    return silu_rows<false, Real>(kName, args.rows, args.width, args.x, nullptr, args.y, stream);
  }
  constexpr int kVector = kWide<Real>;
  const bool wide = args.width % kVector == 0 && is_aligned<kVector>(args.x) &&
                    is_aligned<kVector>(args.y) && is_aligned<kVector>(args.scale);
  if (wide && with_row_lanes<Real>(args.width, [&](auto lanes) {
        constexpr int kLanes = decltype(lanes)::value;
        launch(kName, rms_norm_silu_vector_kernel<kLanes, Real>,
               divide_up(args.rows, kBlock / kLanes), kBlock, 0, stream, args);
      })) {
    return;
  }
  for_warps(kName, args.rows, stream, [=] __device__(int row, int lane) {
    const Real* x = args.x + static_cast<std::int64_t>(row) * args.width;
    Real* y = args.y + static_cast<std::int64_t>(row) * args.width;
    const Real factor = inverse_rms(x, args.width, args.eps, lane);
    for (int c = lane; c < args.width; c += kWarp) y[c] = math::silu(x[c] * factor * args.scale[c]);
  });
}

template <class Real>
void rms_norm_silu_backward(const kernels::RmsNormSiluBackwardArgs<Real>& args,
                            kernels::Stream stream) {
  constexpr const char* kName = "rms_norm_silu_backward";
  if (args.scale == nullptr) {
    return silu_rows<true>(kName, args.rows, args.width, args.x, args.grad_y, args.grad_x, stream);
  }
  constexpr int kVector = kWide<Real>;
  const bool wide = args.width % kVector == 0 && is_aligned<kVector>(args.x) &&
                    is_aligned<kVector>(args.grad_y) && is_aligned<kVector>(args.grad_x) &&
                    is_aligned<kVector>(args.scale);
  if (wide && with_row_lanes<Real>(args.width, [&](auto lanes) {
        constexpr int kLanes = decltype(lanes)::value;
        launch(kName, rms_norm_silu_backward_vector_kernel<kLanes, Real>,
               divide_up(args.rows, kBlock / kLanes), kBlock, 0, stream, args);
      })) {
    return;
  }
  for_warps(kName, args.rows, stream, [=] __device__(int row, int lane) {
    const std::int64_t at = static_cast<std::int64_t>(row) * args.width;
    const Real* x = args.x + at;
    const Real* grad_y = args.grad_y + at;
    Real* grad_x = args.grad_x + at;
    const Real factor = inverse_rms(x, args.width, args.eps, lane);
    Real along = 0;
    for (int c = lane; c < args.width; c += kWarp) {
      along += normed_gradient(args, x, grad_y, factor, c) * x[c];
    }
    const Real pull = factor * factor * factor * warp_sum(along) / args.width;
    for (int c = lane; c < args.width; c += kWarp) {
      grad_x[c] = factor * normed_gradient(args, x, grad_y, factor, c) - pull * x[c];
    }
  });
}

DPA4_CUDA_INSTANTIATE(rms_norm_silu, RmsNormSiluArgs);
DPA4_CUDA_INSTANTIATE(rms_norm_silu_backward, RmsNormSiluBackwardArgs);

}  // namespace dpa4::cuda
