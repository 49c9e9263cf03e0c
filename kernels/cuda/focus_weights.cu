// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

inline constexpr int kMaxFocus = 8;
inline constexpr double kFocusShare = 0.98;  // weight = kFocusShare softmax + (1 - kFocusShare) / F

template <class Real>
__device__ void edge_focus_weights(const kernels::FocusWeightsArgs<Real>& args, int n_focus,
                                   int width, std::int64_t row, int i, int lane) {
  Real value[kMaxFocus];
  Real highest = -static_cast<Real>(INFINITY);
#pragma unroll
  for (int f = 0; f < kMaxFocus; ++f) {
    if (f >= n_focus) break;
    const std::int64_t edge = static_cast<std::int64_t>(f) * args.count + i;
    const Real* u = args.u + edge * row;
    const Real* scale = args.scale != nullptr ? args.scale + f * width : nullptr;
    const Real factor = scale != nullptr ? inverse_rms(u, width, args.eps, lane) : Real(1);
    Real sum = 0;
    for (int c = lane; c < width; c += kWarp) {
      sum += u[c] * (scale != nullptr ? factor * scale[c] : Real(1)) *
             args.competition[c * n_focus + f];
      if (args.scalars != nullptr) args.scalars[edge * width + c] = u[c];
    }
    value[f] = warp_sum(sum);
    highest = value[f] > highest ? value[f] : highest;
  }
  Real sum = 0;
#pragma unroll
  for (int f = 0; f < kMaxFocus; ++f) {
    if (f >= n_focus) break;
    value[f] = math::exp_of(value[f] - highest);
    sum += value[f];
  }
  if (lane > 0) return;
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
  const std::int64_t row = args.shape.row_size();
  DPA4_EXPECTS(n_focus <= kMaxFocus);
  for_warps("focus_weights", args.count, stream, [=] __device__(int i, int lane) {
    edge_focus_weights(args, n_focus, width, row, i, lane);
  });
}

template <class Real>
__device__ void edge_focus_backward(const kernels::FocusWeightsBackwardArgs<Real>& args,
                                    int n_focus, int width, std::int64_t row, int i, int lane) {
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
      factor = inverse_rms(u, width, args.eps, lane);
      Real along = 0;
      for (int c = lane; c < width; c += kWarp) {
        along += grad_logit * args.competition[c * n_focus + f] * scale[c] * u[c];
      }
      pull = factor * factor * factor * warp_sum(along) / width;
    }
    for (int c = lane; c < width; c += kWarp) {
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
  for_warps("focus_weights_backward", args.count, stream, [=] __device__(int i, int lane) {
    edge_focus_backward(args, n_focus, width, row, i, lane);
  });
}

DPA4_CUDA_INSTANTIATE(focus_weights, FocusWeightsArgs);
DPA4_CUDA_INSTANTIATE(focus_weights_backward, FocusWeightsBackwardArgs);

}  // namespace dpa4::cuda
