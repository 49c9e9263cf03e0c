// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/so3_norm.h"
#include "kernels/cpu/simd.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
DPA4_CPU_INLINE Real mean_of(const Real* x, int n) {
  return sum_lanes<Real>(
             n, [&](auto tag, int c)
                    __attribute__((always_inline)) { return decltype(tag)::load(x + c); }) /
         n;
}

/// (v + eps)^(-1/2) of a node; `mean` is the channel mean of row 0.
template <class Real>
DPA4_CPU_INLINE Real so3_inverse_rms(const Real* x, const Real* balance, Real mean, int lmax,
                                     int channels, double eps) {
  Real total = sum_lanes<Real>(
      channels, [&](auto tag, int c) __attribute__((always_inline)) {
        using S = decltype(tag);
        const S z = S::load(x + c) - S(mean);
        return z * z;
      });
  total *= balance[0];
  for (int l = 1; l <= lmax; ++l) {
    const Real* rows = x + l * l * channels;
    const int size = (2 * l + 1) * channels;
    total += balance[l] * dot(rows, rows, size);
  }
  return Real(1) / math::sqrt_of(total + static_cast<Real>(eps));
}

template <class Real>
void so3_norm(const kernels::So3NormArgs<Real>& args, kernels::Stream) {
  const int channels = args.channels, rows = (args.lmax + 1) * (args.lmax + 1);
  for (int n = 0; n < args.n_nodes; ++n) {
    const Real* x = args.x + n * args.ldx;
    Real* y = args.y + static_cast<std::int64_t>(n) * rows * channels;
    const Real mean = mean_of(x, channels);
    const Real s = so3_inverse_rms(x, args.balance, mean, args.lmax, channels, args.eps);
    for_lanes<Real>(
        channels, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          const S z = S::load(x + c) - S(mean);
          (z * S(s) * S::load(args.scale + c) + S::load(args.bias + c)).store(y + c);
        });
    for (int l = 1; l <= args.lmax; ++l) {
      for (int d = l * l; d < (l + 1) * (l + 1); ++d) {
        for_lanes<Real>(
            channels, [&](auto tag, int c) __attribute__((always_inline)) {
              using S = decltype(tag);
              (S::load(x + d * channels + c) * S(s) * S::load(args.scale + l * channels + c))
                  .store(y + d * channels + c);
            });
      }
    }
  }
}

template <class Real>
void so3_norm_backward(const kernels::So3NormBackwardArgs<Real>& args, kernels::Stream) {
  const int channels = args.channels, rows = (args.lmax + 1) * (args.lmax + 1);
  for (int n = 0; n < args.n_nodes; ++n) {
    const Real* x = args.x + n * args.ldx;
    const Real* grad_y = args.grad_y + static_cast<std::int64_t>(n) * rows * channels;
    Real* grad_x = args.grad_x + n * args.ld_grad;
    const Real mean = mean_of(x, channels);
    const Real s = so3_inverse_rms(x, args.balance, mean, args.lmax, channels, args.eps);
    Real along = 0;  // <grad_y scale, z>
    for (int l = 0; l <= args.lmax; ++l) {
      const Real center = l == 0 ? mean : Real(0);
      for (int d = l * l; d < (l + 1) * (l + 1); ++d) {
        along += sum_lanes<Real>(
            channels, [&](auto tag, int c) __attribute__((always_inline)) {
              using S = decltype(tag);
              return S::load(grad_y + d * channels + c) * S::load(args.scale + l * channels + c) *
                     (S::load(x + d * channels + c) - S(center));
            });
      }
    }
    const Real pull = s * s * s * along;
    // The channel mean of row 0 does not change z, so it is taken out of the gradient.
    const Real grad_mean = sum_lanes<Real>(
                               channels,
                               [&](auto tag, int c) __attribute__((always_inline)) {
                                 using S = decltype(tag);
                                 return S(s) * S::load(grad_y + c) * S::load(args.scale + c) -
                                        S(pull * args.balance[0]) * (S::load(x + c) - S(mean));
                               }) /
                           channels;
    for (int l = 0; l <= args.lmax; ++l) {
      const Real center = l == 0 ? mean : Real(0);
      const Real offset = l == 0 ? grad_mean : Real(0);
      for (int d = l * l; d < (l + 1) * (l + 1); ++d) {
        for_lanes<Real>(
            channels, [&](auto tag, int c) __attribute__((always_inline)) {
              using S = decltype(tag);
              S grad = S(s) * S::load(grad_y + d * channels + c) *
                           S::load(args.scale + l * channels + c) -
                       S(pull * args.balance[l]) * (S::load(x + d * channels + c) - S(center)) -
                       S(offset);
              if (args.accumulate) grad += S::load(grad_x + d * channels + c);
              grad.store(grad_x + d * channels + c);
            });
      }
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
