// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/gemm.h"
#include "kernels/cpu/simd.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// kRows x (kVectors * width) elements of C in registers. Every element is one chain of fused
/// multiply-adds in the order of k, so its bits do not depend on the tile it falls into.
template <class S, int kRows, int kVectors, class Real>
DPA4_CPU_INLINE void gemm_tile(int k, const Real* __restrict a, int lda, const Real* __restrict b,
                               int ldb, Real* __restrict c, int ldc, bool accumulate) {
  S sum[kRows][kVectors];
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sum[i][j] = S(0);
  for (int p = 0; p < k; ++p) {
    S row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      row[j] = S::load(b + static_cast<std::int64_t>(p) * ldb + j * S::kSize);
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
      const S factor(a[static_cast<std::int64_t>(i) * lda + p]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = multiply_add(factor, row[j], sum[i][j]);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      Real* to = c + static_cast<std::int64_t>(i) * ldc + j * S::kSize;
      if (accumulate) sum[i][j] += S::load(to);
      sum[i][j].store(to);
    }
}

/// All rows of kVectors * width columns: tiles of kRows rows, then smaller ones.
template <class S, int kRows, int kVectors, class Real>
void gemm_columns(int m, int k, const Real* a, int lda, const Real* b, int ldb, Real* c, int ldc,
                  bool accumulate) {
  int i = 0;
  const auto tile = [&](auto rows) __attribute__((always_inline)) {
    constexpr int kCount = decltype(rows)::value;
    gemm_tile<S, kCount, kVectors>(k, a + static_cast<std::int64_t>(i) * lda, lda, b, ldb,
                                   c + static_cast<std::int64_t>(i) * ldc, ldc, accumulate);
    i += kCount;
  };
  while (i + kRows <= m) tile(std::integral_constant<int, kRows>{});
  if constexpr (kRows > 4) {
    while (i + 4 <= m) tile(std::integral_constant<int, 4>{});
  }
  while (i < m) tile(std::integral_constant<int, 1>{});
}

/// C = A B, or C += A B. Columns are cut into panels of up to four registers; a panel of B
/// stays in the first-level cache while the rows of A pass by.
template <class Real>
void gemm_matrix(int m, int n, int k, const Real* a, int lda, const Real* b, int ldb, Real* c,
                 int ldc, bool accumulate) {
  using S = Simd<Real, kLanes<Real>>;
  constexpr int kWidth = kLanes<Real>;
  int j = 0;
  const auto panel = [&](auto vectors, auto rows) __attribute__((always_inline)) {
    constexpr int kVectors = decltype(vectors)::value;
    gemm_columns<S, decltype(rows)::value, kVectors>(m, k, a, lda, b + j, ldb, c + j, ldc,
                                                     accumulate);
    j += kVectors * kWidth;
  };
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  using Three = std::integral_constant<int, 3>;
  using Four = std::integral_constant<int, 4>;
  if constexpr (kRegisters == 32) {
    while (n - j >= 4 * kWidth && n - j != 6 * kWidth) {
      panel(Four{}, std::integral_constant<int, 6>{});
    }
    while (n - j >= 3 * kWidth) panel(Three{}, std::integral_constant<int, 8>{});
    if (n - j >= 2 * kWidth) panel(Two{}, std::integral_constant<int, 12>{});
    if (n - j >= kWidth) panel(One{}, std::integral_constant<int, 14>{});
  } else {
    while (n - j >= 2 * kWidth) panel(Two{}, std::integral_constant<int, 6>{});
    if (n - j >= kWidth) panel(One{}, std::integral_constant<int, 8>{});
  }
  for (; j < n; ++j) {
    gemm_columns<Simd<Real, 1>, 8, 1>(m, k, a, lda, b + j, ldb, c + j, ldc, accumulate);
  }
}

template <class Real>
void gemm(const kernels::GemmArgs<Real>& args, kernels::Stream) {
  for (int i = 0; i < args.batch; ++i) {
    gemm_matrix(args.m, args.n, args.k, args.a + i * args.stride_a, args.lda,
                args.b + args.weight_of(i) * args.stride_b, args.ldb, args.c + i * args.stride_c,
                args.ldc, args.accumulate);
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
