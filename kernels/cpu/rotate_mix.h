// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/rotate_mix.h"
#include "kernels/cpu/edge_geometry.h"
#include "src/math/wigner.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// Place of (l, m) among the rows of the edge frame; row = 0, 1, 2 for m = 0, -1, +1.
constexpr int local_row(int lmax, int l, int row) { return row == 0 ? l : row * lmax + l; }

/// Rows |m| <= 1 of D x for one register of channels; x(d) is packed row d.
template <int kLmax, class S, class Real, class X>
DPA4_CPU_INLINE void rotate_rows(const Real* wigner, X&& x, S* local) {
  local[0] = x(0);
  math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
    constexpr int l = decltype(degree)::value + 1;
    S sum[3] = {S(0), S(0), S(0)};
#pragma GCC unroll 16
    for (int k = -l; k <= l; ++k) {
      const S value = x(l * l + l + k);
#pragma GCC unroll 3
      for (int row = 0; row < 3; ++row) {
        sum[row] += S(wigner[math::wigner_index(l, row, k)]) * value;
      }
    }
#pragma GCC unroll 3
    for (int row = 0; row < 3; ++row) local[local_row(kLmax, l, row)] = sum[row];
  });
}

/// emit(d, (D^T local)[d]) for every packed row d.
template <int kLmax, class S, class Real, class Emit>
DPA4_CPU_INLINE void rotate_rows_back(const Real* wigner, const S* local, Emit&& emit) {
  emit(0, local[0]);
  math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
    constexpr int l = decltype(degree)::value + 1;
#pragma GCC unroll 16
    for (int k = -l; k <= l; ++k) {
      S sum(0);
#pragma GCC unroll 3
      for (int row = 0; row < 3; ++row) {
        sum += S(wigner[math::wigner_index(l, row, k)]) * local[local_row(kLmax, l, row)];
      }
      emit(l * l + l + k, sum);
    }
  });
}

/// visit(input row, output row, place of the coefficient) for every pair of rows that the radial
/// kernel mixes.
template <int kLmax, class Visit>
DPA4_CPU_INLINE void visit_mixing(Visit&& visit) {
#pragma GCC unroll 8
  for (int i = 0; i <= kLmax; ++i) {
#pragma GCC unroll 8
    for (int o = 0; o <= kLmax; ++o) visit(i, o, i * (kLmax + 1) + o);
  }
#pragma GCC unroll 8
  for (int i = 1; i <= kLmax; ++i) {
#pragma GCC unroll 8
    for (int o = 1; o <= kLmax; ++o) {
      const int place = (kLmax + 1) * (kLmax + 1) + (i - 1) * kLmax + (o - 1);
      visit(local_row(kLmax, i, 1), local_row(kLmax, o, 1), place);
      visit(local_row(kLmax, i, 2), local_row(kLmax, o, 2), place);
    }
  }
}

/// Degree of a row of the edge frame.
constexpr int local_degree(int lmax, int r) { return r <= lmax ? r : (r - 1) % lmax + 1; }

template <int kLmax, class Real>
void rotate_mix_of_degree(const kernels::RotateMixArgs<Real>& args) {
  constexpr int kRows = 3 * kLmax + 1, kFull = (kLmax + 1) * (kLmax + 1);
  const int count = args.edges.count, width = args.shape.width, hidden = args.shape.hidden();
  const int rank = args.shape.rank;
  const bool scaled = args.shape.mixing == kernels::RadialMixing::kScale;
  for (int i = 0; i < count; ++i) {
    const int src = args.edges.src[edge_at(args.edges, i)];
    const Real* x = args.x + static_cast<std::int64_t>(src) * kFull * hidden;
    const Real* wigner = args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
    const Real* radial = args.radial + static_cast<std::int64_t>(i) * args.ld_radial;
    for (int f = 0; f < args.shape.n_focus; ++f) {
      const int rows = args.scalars_only ? 1 : kRows;
      Real* u = args.u + (static_cast<std::int64_t>(f) * count + i) * rows * width;
      for_lanes<Real>(
          width, [&](auto tag, int lane) __attribute__((always_inline)) {
            using S = decltype(tag);
            const int c = f * width + lane;
            S local[kRows];
            rotate_rows<kLmax>(
                wigner, [&](int d) { return S::load(x + d * hidden + c); }, local);
            if (scaled) {
              for (int r = 0; r < rows; ++r) {
                (local[r] * S::load(radial + local_degree(kLmax, r) * hidden + c))
                    .store(u + r * width + lane);
              }
              return;
            }
            S mixed[kRows];
#pragma GCC unroll 32
            for (int r = 0; r < kRows; ++r) mixed[r] = S(0);
            for (int p = 0; p < rank; ++p) {
              S sum[kRows];
#pragma GCC unroll 32
              for (int r = 0; r < kRows; ++r) sum[r] = S(0);
              visit_mixing<kLmax>([&](int in, int out, int place) __attribute__((always_inline)) {
                sum[out] += S(radial[place * rank + p]) * local[in];
              });
              const S basis = S::load(args.channel_basis + p * hidden + c);
#pragma GCC unroll 32
              for (int r = 0; r < kRows; ++r) mixed[r] += basis * sum[r];
            }
            for (int r = 0; r < rows; ++r) mixed[r].store(u + r * width + lane);
          });
    }
  }
}

/// One edge of rotate_mix_backward.
template <int kLmax, class Real>
DPA4_CPU_INLINE void rotate_mix_backward_edge(const kernels::RotateMixBackwardArgs<Real>& args,
                                              int i) {
  constexpr int kRows = 3 * kLmax + 1, kFull = (kLmax + 1) * (kLmax + 1);
  constexpr int kMixing = kFull + kLmax * kLmax;
  using Wide = Simd<Real, kLanes<Real>>;
  const int count = args.edges.count, width = args.shape.width, hidden = args.shape.hidden();
  const int rank = args.shape.rank;
  const bool scaled = args.shape.mixing == kernels::RadialMixing::kScale;
  const int src = args.edges.src[edge_at(args.edges, i)];
  const Real* x = args.x + static_cast<std::int64_t>(src) * kFull * hidden;
  Real* grad_x = args.grad_x + static_cast<std::int64_t>(src) * kFull * hidden;
  const Real* wigner = args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
  const Real* radial = args.radial + static_cast<std::int64_t>(i) * args.ld_radial;
  Real* grad_radial = args.grad_radial + static_cast<std::int64_t>(i) * args.ld_radial;
  if (!scaled) std::memset(grad_radial, 0, kMixing * rank * sizeof(Real));
  Wide torque_sum[3] = {Wide(0), Wide(0), Wide(0)};
  Real torque_rest[3] = {0, 0, 0};
  // Partial sums of the gradients of the mixing coefficients, one rank at a time.
  for (int p = 0; p < (scaled ? 1 : rank); ++p) {
    Wide place_sum[kMixing];
    if (!scaled) {
      for (int k = 0; k < kMixing; ++k) place_sum[k] = Wide(0);
    }
    for (int f = 0; f < args.shape.n_focus; ++f) {
      const Real* grad_u = args.grad_u + (static_cast<std::int64_t>(f) * count + i) * kRows * width;
      for_lanes<Real>(
          width, [&](auto tag, int lane) __attribute__((always_inline)) {
            using S = decltype(tag);
            const int c = f * width + lane;
            S local[kRows], grad_local[kRows];
            rotate_rows<kLmax>(
                wigner, [&](int d) { return S::load(x + d * hidden + c); }, local);
            if (scaled) {
              S sum[kLmax + 1];
#pragma GCC unroll 8
              for (int l = 0; l <= kLmax; ++l) sum[l] = S(0);
#pragma GCC unroll 32
              for (int r = 0; r < kRows; ++r) {
                const int l = local_degree(kLmax, r);
                const S grad = S::load(grad_u + r * width + lane);
                sum[l] += grad * local[r];
                grad_local[r] = grad * S::load(radial + l * hidden + c);
              }
#pragma GCC unroll 8
              for (int l = 0; l <= kLmax; ++l) sum[l].store(grad_radial + l * hidden + c);
            } else {
              const S basis = S::load(args.channel_basis + p * hidden + c);
#pragma GCC unroll 32
              for (int r = 0; r < kRows; ++r) grad_local[r] = S(0);
              S grad_mixed[kRows];
#pragma GCC unroll 32
              for (int r = 0; r < kRows; ++r) {
                grad_mixed[r] = basis * S::load(grad_u + r * width + lane);
              }
              visit_mixing<kLmax>([&](int in, int out, int place) __attribute__((always_inline)) {
                grad_local[in] += S(radial[place * rank + p]) * grad_mixed[out];
                if constexpr (S::kSize == Wide::kSize) {
                  place_sum[place] += local[in] * grad_mixed[out];
                } else {
                  grad_radial[place * rank + p] += (local[in] * grad_mixed[out]).lane(0);
                }
              });
            }
            S global[kFull];
            rotate_rows_back<kLmax>(wigner, grad_local, [&](int d, S value) {
              global[d] = value;
              (S::load(grad_x + d * hidden + c) + value).store(grad_x + d * hidden + c);
            });
            S torque[3] = {S(0), S(0), S(0)};
            math::static_for<kLmax>([&](auto degree) __attribute__((always_inline)) {
              constexpr int l = decltype(degree)::value + 1;
              S right[2 * l + 1];
#pragma GCC unroll 16
              for (int k = 0; k <= 2 * l; ++k) right[k] = S::load(x + (l * l + k) * hidden + c);
              math::add_torque<l>(global + l * l, right, torque);
            });
            for (int a = 0; a < 3; ++a) {
              if constexpr (S::kSize == Wide::kSize) {
                torque_sum[a] += torque[a];
              } else {
                torque_rest[a] += torque[a].lane(0);
              }
            }
          });
    }
    if (!scaled) {
      for (int k = 0; k < kMixing; ++k) grad_radial[k * rank + p] += place_sum[k].sum();
    }
  }
  for (int a = 0; a < 3; ++a) args.torque[3 * i + a] += torque_sum[a].sum() + torque_rest[a];
}

template <class Real>
void rotate_mix(const kernels::RotateMixArgs<Real>& args, kernels::Stream) {
  with_degree(args.shape.lmax,
              [&](auto degree) { rotate_mix_of_degree<decltype(degree)::value>(args); });
}

template <class Real>
void rotate_mix_backward(const kernels::RotateMixBackwardArgs<Real>& args, kernels::Stream) {
  with_degree(args.shape.lmax, [&](auto degree) {
    for (int i = 0; i < args.edges.count; ++i) {
      rotate_mix_backward_edge<decltype(degree)::value>(args, i);
    }
  });
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
