// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/zonal_sum.h"
#include "kernels/cpu/env_seed_sum.h"
#include "src/math/wigner.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <int kLmax, class Real>
void zonal_sum_of_degree(const kernels::ZonalSumArgs<Real>& args) {
  constexpr int kRows = (kLmax + 1) * (kLmax + 1);
  const int channels = args.channels;
  for (int n = args.edges.node_first; n < args.edges.node_first + args.edges.node_count; ++n) {
    const Segment segment(args.edges, n);
    Real* x = args.x + static_cast<std::int64_t>(n) * kRows * channels;
    for_lanes<Real>(
        channels, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          S total[kRows];
          for (int d = 1; d < kRows; ++d) total[d] = S::load(x + d * channels + c);
          for (int i = segment.begin; i < segment.end; ++i) {
            Real factor = args.kappa[n];
            if (args.gate != nullptr) factor *= args.gate[args.edges.src[edge_at(args.edges, i)]];
            if (args.factor != nullptr) factor *= args.factor[i];
            const Real* wigner =
                args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
            const Real* radial = args.radial + static_cast<std::int64_t>(i) * kLmax * channels + c;
            math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
              constexpr int l = decltype(degree)::value + 1;
              const S value = S(factor) * S::load(radial + (l - 1) * channels);
              for (int k = -l; k <= l; ++k) {
                total[l * l + l + k] += S(wigner[math::wigner_index(l, 0, k)]) * value;
              }
            });
          }
          for (int d = 1; d < kRows; ++d) total[d].store(x + d * channels + c);
        });
  }
}

template <int kLmax, class Real>
void zonal_sum_backward_of_degree(const kernels::ZonalSumBackwardArgs<Real>& args) {
  constexpr int kRows = (kLmax + 1) * (kLmax + 1);
  using Scalar = Simd<Real, 1>;
  const int channels = args.channels;
  for (int i = 0; i < args.edges.count; ++i) {
    const int edge = edge_at(args.edges, i);
    const int dst = args.edges.dst[edge];
    const Real gate = args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1);
    const Real factor = args.factor != nullptr ? args.factor[i] : Real(1);
    const Real kappa = args.kappa[dst];
    const Real* wigner = args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
    const Real* radial = args.radial + static_cast<std::int64_t>(i) * kLmax * channels;
    const Real* grad = args.grad_x + static_cast<std::int64_t>(dst) * kRows * channels;
    Real* grad_radial = args.grad_radial + static_cast<std::int64_t>(i) * kLmax * channels;
    Scalar harmonic[kRows], grad_harmonic[kRows];  // grad: kappa <radial, grad_x>
    for (int l = 1; l <= kLmax; ++l) {
      for (int k = -l; k <= l; ++k) {
        const int d = l * l + l + k;
        harmonic[d] = Scalar(wigner[math::wigner_index(l, 0, k)]);
        grad_harmonic[d] =
            Scalar(kappa * dot(radial + (l - 1) * channels, grad + d * channels, channels));
      }
      for_lanes<Real>(
          channels, [&](auto tag, int c) __attribute__((always_inline)) {
            using S = decltype(tag);
            S total(0);
            for (int k = -l; k <= l; ++k) {
              total += S(wigner[math::wigner_index(l, 0, k)]) *
                       S::load(grad + (l * l + l + k) * channels + c);
            }
            (S(kappa * gate * factor) * total).store(grad_radial + (l - 1) * channels + c);
          });
    }
    Real along = 0;
    for (int d = 1; d < kRows; ++d) along += harmonic[d].lane(0) * grad_harmonic[d].lane(0);
    if (args.grad_factor != nullptr) args.grad_factor[i] += gate * along;
    if (args.grad_gate != nullptr) args.grad_gate[i] += factor * along;
    Scalar torque[3] = {Scalar(0), Scalar(0), Scalar(0)};
    math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
      constexpr int l = decltype(degree)::value + 1;
      math::add_torque<l>(grad_harmonic + l * l, harmonic + l * l, torque);
    });
    for (int a = 0; a < 3; ++a) args.torque[3 * i + a] -= gate * factor * torque[a].lane(0);
  }
}

template <class Real>
void zonal_sum(const kernels::ZonalSumArgs<Real>& args, kernels::Stream) {
  with_degree(args.lmax, [&](auto degree) { zonal_sum_of_degree<decltype(degree)::value>(args); });
}

template <class Real>
void zonal_sum_backward(const kernels::ZonalSumBackwardArgs<Real>& args, kernels::Stream) {
  with_degree(args.lmax,
              [&](auto degree) { zonal_sum_backward_of_degree<decltype(degree)::value>(args); });
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
