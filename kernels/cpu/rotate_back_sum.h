// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/rotate_back_sum.h"
#include "kernels/cpu/env_seed_sum.h"
#include "kernels/cpu/rotate_mix.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <int kLmax, class Real>
void rotate_back_sum_of_degree(const kernels::RotateBackSumArgs<Real>& args) {
  constexpr int kRows = 3 * kLmax + 1, kFull = (kLmax + 1) * (kLmax + 1);
  const int width = args.shape.width, hidden = args.shape.hidden(), n_focus = args.shape.n_focus;
  const int weights = args.shape.weights(), heads = weights / n_focus;
  const int head_width = width / heads;
  for (int n = args.edges.node_first; n < args.edges.node_first + args.edges.node_count; ++n) {
    const Segment segment(args.edges, n);
    Real* sum = args.sum + static_cast<std::int64_t>(n) * kFull * hidden;
    for (int w = 0; w < weights; ++w) {
      const int f = w / heads;
      const int first = (w % heads) * head_width;  // of the head's channels in its focus stream
      const Real* u = args.u + f * args.focus_stride;
      for_lanes<Real>(
          head_width, [&](auto tag, int lane) __attribute__((always_inline)) {
            using S = decltype(tag);
            const int c = first + lane;
            S total[kFull];
#pragma GCC unroll 64
            for (int d = 0; d < kFull; ++d) total[d] = S(0);
            for (int i = segment.begin; i < segment.end; ++i) {
              Real factor = args.alpha[static_cast<std::int64_t>(i) * weights + w];
              if (args.focus != nullptr) {
                factor *= args.focus[static_cast<std::int64_t>(i) * n_focus + f];
              }
              const Real* row = u + static_cast<std::int64_t>(i) * kRows * width + c;
              S local[kRows];
#pragma GCC unroll 32
              for (int r = 0; r < kRows; ++r) local[r] = S(factor) * S::load(row + r * width);
              rotate_rows_back<kLmax>(
                  args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax),
                  local, [&](int d, S value) __attribute__((always_inline)) { total[d] += value; });
            }
            Real* to = sum + f * width + c;
            (S::load(to) + total[0]).store(to);
            math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
              constexpr int l = decltype(degree)::value + 1;
              constexpr double scale = math::rotate_back_scale(l);
#pragma GCC unroll 16
              for (int d = l * l; d < (l + 1) * (l + 1); ++d) {
                (S::load(to + d * hidden) + S(scale) * total[d]).store(to + d * hidden);
              }
            });
          });
    }
  }
}

template <int kLmax, class Real>
DPA4_CPU_INLINE void rotate_back_sum_backward_edge(
    const kernels::RotateBackSumBackwardArgs<Real>& args, int i) {
  constexpr int kRows = 3 * kLmax + 1, kFull = (kLmax + 1) * (kLmax + 1);
  using Wide = Simd<Real, kLanes<Real>>;
  const int count = args.edges.count;
  const int width = args.shape.width, hidden = args.shape.hidden(), n_focus = args.shape.n_focus;
  const int weights = args.shape.weights(), heads = weights / n_focus;
  const int head_width = width / heads;
  const int dst = args.edges.dst[edge_at(args.edges, i)];
  const Real* grad_sum = args.grad_sum + static_cast<std::int64_t>(dst) * kFull * hidden;
  const Real* wigner = args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
  Wide torque_sum[3] = {Wide(0), Wide(0), Wide(0)};
  Real torque_rest[3] = {0, 0, 0};
  Real grad_focus = 0;
  for (int w = 0; w < weights; ++w) {
    const int f = w / heads;
    const int first = (w % heads) * head_width;
    const Real alpha = args.alpha[static_cast<std::int64_t>(i) * weights + w];
    const Real focus =
        args.focus != nullptr ? args.focus[static_cast<std::int64_t>(i) * n_focus + f] : Real(1);
    const Real* u = args.u + f * args.focus_stride + static_cast<std::int64_t>(i) * kRows * width;
    Real* grad_u = args.grad_u + (static_cast<std::int64_t>(f) * count + i) * kRows * width;
    // <b D g, u>: what alpha and the focus weight multiply.
    const Real along = sum_lanes<Real>(
        head_width, [&](auto tag, int lane) __attribute__((always_inline)) {
          using S = decltype(tag);
          const int c = first + lane;
          const Real* grad = grad_sum + f * width + c;
          S global[kFull], local[kRows], message[kRows];
          global[0] = S::load(grad);
          math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
            constexpr int l = decltype(degree)::value + 1;
            constexpr double scale = math::rotate_back_scale(l);
#pragma GCC unroll 16
            for (int d = l * l; d < (l + 1) * (l + 1); ++d) {
              global[d] = S(scale) * S::load(grad + d * hidden);
            }
          });
          rotate_rows<kLmax>(
              wigner, [&](int d) { return global[d]; }, local);
          S product(0);
#pragma GCC unroll 32
          for (int r = 0; r < kRows; ++r) {
            const S value = S::load(u + r * width + c);
            product += local[r] * value;
            message[r] = S(alpha * focus) * value;
            (S(alpha * focus) * local[r]).store(grad_u + r * width + c);
          }
          S turned[kFull];
          rotate_rows_back<kLmax>(
              wigner,
              message, [&](int d, S value) __attribute__((always_inline)) { turned[d] = value; });
          S torque[3] = {S(0), S(0), S(0)};
          math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
            constexpr int l = decltype(degree)::value + 1;
            math::add_torque<l>(global + l * l, turned + l * l, torque);
          });
          for (int a = 0; a < 3; ++a) {
            if constexpr (S::kSize == Wide::kSize) {
              torque_sum[a] += torque[a];
            } else {
              torque_rest[a] += torque[a].lane(0);
            }
          }
          return product;
        });
    args.grad_alpha[static_cast<std::int64_t>(i) * weights + w] = focus * along;
    if (args.grad_focus != nullptr) {
      grad_focus = (w % heads == 0 ? Real(0) : grad_focus) + alpha * along;
      args.grad_focus[static_cast<std::int64_t>(i) * n_focus + f] = grad_focus;
    }
  }
  for (int a = 0; a < 3; ++a) args.torque[3 * i + a] -= torque_sum[a].sum() + torque_rest[a];
}

template <class Real>
void rotate_back_sum(const kernels::RotateBackSumArgs<Real>& args, kernels::Stream) {
  with_degree(args.shape.lmax,
              [&](auto degree) { rotate_back_sum_of_degree<decltype(degree)::value>(args); });
}

template <class Real>
void rotate_back_sum_backward(const kernels::RotateBackSumBackwardArgs<Real>& args,
                              kernels::Stream) {
  with_degree(args.shape.lmax, [&](auto degree) {
    for (int i = 0; i < args.edges.count; ++i) {
      rotate_back_sum_backward_edge<decltype(degree)::value>(args, i);
    }
  });
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
