// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/focus_weights.h"
#include "kernels/cpu/rms_norm_silu.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

inline constexpr int kMaxFocus = 8;
inline constexpr double kFocusShare = 0.98;  // weight = kFocusShare softmax + (1 - kFocusShare) / F

/// <norm(u), competition[:, f]>
template <class Real>
DPA4_CPU_INLINE Real focus_logit(const Real* u, const Real* scale, const Real* competition,
                                 int n_focus, int width, double eps) {
  const Real factor = scale != nullptr ? inverse_rms(u, width, eps) : Real(1);
  Real sum = 0;
  for (int c = 0; c < width; ++c) {
    sum += u[c] * (scale != nullptr ? factor * scale[c] : Real(1)) * competition[c * n_focus];
  }
  return sum;
}

template <class Real>
void focus_weights(const kernels::FocusWeightsArgs<Real>& args, kernels::Stream) {
  const int n_focus = args.shape.n_focus, width = args.shape.width;
  const std::int64_t row = args.scalars_only ? width : args.shape.row_size();
  for (int i = 0; i < args.count; ++i) {
    Real value[kMaxFocus];
    Real highest = -static_cast<Real>(__builtin_inf());
    for (int f = 0; f < n_focus; ++f) {
      const Real* u = args.u + (static_cast<std::int64_t>(f) * args.count + i) * row;
      value[f] = focus_logit(u, args.scale != nullptr ? args.scale + f * width : nullptr,
                             args.competition + f, n_focus, width, args.eps);
      highest = value[f] > highest ? value[f] : highest;
      if (args.scalars != nullptr) {
        std::memcpy(args.scalars + (static_cast<std::int64_t>(f) * args.count + i) * width, u,
                    width * sizeof(Real));
      }
    }
    Real sum = 0;
    for (int f = 0; f < n_focus; ++f) {
      value[f] = scalar_exp(value[f] - highest);
      sum += value[f];
    }
    for (int f = 0; f < n_focus; ++f) {
      args.weight[static_cast<std::int64_t>(i) * n_focus + f] =
          static_cast<Real>(kFocusShare) * value[f] / sum +
          static_cast<Real>((1 - kFocusShare) / n_focus);
    }
  }
}

template <class Real>
void focus_weights_backward(const kernels::FocusWeightsBackwardArgs<Real>& args, kernels::Stream) {
  const int n_focus = args.shape.n_focus, width = args.shape.width;
  const std::int64_t row = args.shape.row_size();
  for (int i = 0; i < args.count; ++i) {
    const Real* weight = args.weight + static_cast<std::int64_t>(i) * n_focus;
    const Real* grad = args.grad_weight + static_cast<std::int64_t>(i) * n_focus;
    Real share[kMaxFocus];
    Real mean = 0;
    for (int f = 0; f < n_focus; ++f) {
      share[f] = (weight[f] - static_cast<Real>((1 - kFocusShare) / n_focus)) /
                 static_cast<Real>(kFocusShare);
      mean += share[f] * grad[f];
    }
    for (int f = 0; f < n_focus; ++f) {
      const Real grad_logit = static_cast<Real>(kFocusShare) * share[f] * (grad[f] - mean);
      const std::int64_t edge = static_cast<std::int64_t>(f) * args.count + i;
      const Real* u = args.scalars + edge * width;
      Real* grad_u = args.grad_u + edge * row;
      if (args.scale == nullptr) {
        for (int c = 0; c < width; ++c) grad_u[c] += grad_logit * args.competition[c * n_focus + f];
        continue;
      }
      const Real* scale = args.scale + f * width;
      const Real factor = inverse_rms(u, width, args.eps);
      Real along = 0;
      for (int c = 0; c < width; ++c) {
        along += grad_logit * args.competition[c * n_focus + f] * scale[c] * u[c];
      }
      const Real pull = factor * factor * factor * along / width;
      for (int c = 0; c < width; ++c) {
        grad_u[c] +=
            factor * grad_logit * args.competition[c * n_focus + f] * scale[c] - pull * u[c];
      }
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
