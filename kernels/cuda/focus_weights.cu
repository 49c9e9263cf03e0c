// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/elementary.h"

namespace dpa4::cuda {

inline constexpr int kMaxFocus = 8;
inline constexpr double kFocusShare = 0.98;  // weight = kFocusShare softmax + (1 - kFocusShare) / F

inline constexpr int kFocusLanes = 8;  // lanes that share an edge

/// Sum over the lanes that share an edge.
template <class Real>
__device__ __forceinline__ Real focus_sum(Real x) {
#pragma unroll
  for (int step = kFocusLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

/// f(edge, lane, valid) for every edge; all lanes of a warp call it, those beyond the end with an
/// edge that exists.
template <class F>
__global__ void __launch_bounds__(kBlock) focus_kernel(int count, F f) {
  begin_kernel();
  const std::int64_t number =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kFocusLanes) + threadIdx.x / kFocusLanes;
  const bool valid = number < count;
  f(valid ? static_cast<int>(number) : 0, static_cast<int>(threadIdx.x) % kFocusLanes, valid);
}

template <class F>
void for_focus_edges(const char* name, int count, kernels::Stream stream, const F& f) {
  launch(name, focus_kernel<F>, divide_up(count, kBlock / kFocusLanes), kBlock, 0, stream, count,
         f);
}

template <class Real>
__device__ void edge_focus_weights(const kernels::FocusWeightsArgs<Real>& args, int n_focus,
                                   int width, std::int64_t row, int i, int lane, bool valid) {
  Real value[kMaxFocus];
  Real highest = -static_cast<Real>(INFINITY);
#pragma unroll
  for (int f = 0; f < kMaxFocus; ++f) {
    if (f >= n_focus) break;
    const std::int64_t edge = static_cast<std::int64_t>(f) * args.count + i;
    const Real* u = args.u + edge * row;
    const Real* scale = args.scale != nullptr ? args.scale + f * width : nullptr;
    Real sum = 0, squares = 0;
    for (int c = lane; c < width; c += kFocusLanes) {
      const Real x = u[c];
      sum += x * (scale != nullptr ? scale[c] : Real(1)) * args.competition[c * n_focus + f];
      squares += x * x;
      if (args.scalars != nullptr && valid) args.scalars[edge * width + c] = x;
    }
    value[f] = focus_sum(sum);
    if (scale != nullptr) {
      value[f] /= math::sqrt_of(focus_sum(squares) / width + static_cast<Real>(args.eps));
    }
    highest = value[f] > highest ? value[f] : highest;
  }
  Real sum = 0;
#pragma unroll
  for (int f = 0; f < kMaxFocus; ++f) {
    if (f >= n_focus) break;
    value[f] = math::exp_of(value[f] - highest);
    sum += value[f];
  }
  if (lane > 0 || !valid) return;
#pragma unroll
  for (int f = 0; f < kMaxFocus; ++f) {
    if (f >= n_focus) break;
    args.weight[static_cast<std::int64_t>(i) * n_focus + f] =
        static_cast<Real>(kFocusShare) * value[f] / sum +
        static_cast<Real>((1 - kFocusShare) / n_focus);
  }
}

template <class Real>
void focus_weights(const kernels::FocusWeightsArgs<Real>& args, kernels::Stream stream) {
  const int n_focus = args.shape.n_focus, width = args.shape.width;
  const std::int64_t row = args.scalars_only ? width : args.shape.row_size();
  DPA4_EXPECTS(n_focus <= kMaxFocus);
  for_focus_edges("focus_weights", args.count, stream, [=] __device__(int i, int lane, bool valid) {
    edge_focus_weights(args, n_focus, width, row, i, lane, valid);
  });
}

template <class Real>
__device__ void edge_focus_backward(const kernels::FocusWeightsBackwardArgs<Real>& args,
                                    int n_focus, int width, std::int64_t row, int i, int lane,
                                    bool valid) {
  const Real* weight = args.weight + static_cast<std::int64_t>(i) * n_focus;
  const Real* grad = args.grad_weight + static_cast<std::int64_t>(i) * n_focus;
  const auto share = [&](int f) {
    return (weight[f] - static_cast<Real>((1 - kFocusShare) / n_focus)) /
           static_cast<Real>(kFocusShare);
  };
  Real mean = 0;
  for (int f = 0; f < n_focus; ++f) mean += share(f) * grad[f];
  for (int f = 0; f < n_focus; ++f) {
    const Real grad_logit = static_cast<Real>(kFocusShare) * share(f) * (grad[f] - mean);
    const std::int64_t edge = static_cast<std::int64_t>(f) * args.count + i;
    const Real* u = args.scalars + edge * width;
    const Real* scale = args.scale != nullptr ? args.scale + f * width : nullptr;
    Real* grad_u = args.grad_u + edge * row;
    Real factor = 1, pull = 0;
    if (scale != nullptr) {
      Real along = 0, squares = 0;
      for (int c = lane; c < width; c += kFocusLanes) {
        along += grad_logit * args.competition[c * n_focus + f] * scale[c] * u[c];
        squares += u[c] * u[c];
      }
      factor = Real(1) / math::sqrt_of(focus_sum(squares) / width + static_cast<Real>(args.eps));
      pull = factor * factor * factor * focus_sum(along) / width;
    }
    if (!valid) continue;
    for (int c = lane; c < width; c += kFocusLanes) {
      const Real along = factor * grad_logit * args.competition[c * n_focus + f];
      grad_u[c] += scale != nullptr ? along * scale[c] - pull * u[c] : along;
    }
  }
}

template <class Real>
void focus_weights_backward(const kernels::FocusWeightsBackwardArgs<Real>& args,
                            kernels::Stream stream) {
  const int n_focus = args.shape.n_focus, width = args.shape.width;
  const std::int64_t row = args.shape.row_size();
  for_focus_edges("focus_weights_backward", args.count, stream,
                  [=] __device__(int i, int lane, bool valid) {
                    edge_focus_backward(args, n_focus, width, row, i, lane, valid);
                  });
}

DPA4_CUDA_INSTANTIATE(focus_weights, FocusWeightsArgs);
DPA4_CUDA_INSTANTIATE(focus_weights_backward, FocusWeightsBackwardArgs);

}  // namespace dpa4::cuda
