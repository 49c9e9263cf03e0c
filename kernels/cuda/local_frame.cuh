// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/math/static_for.h"
#include "src/math/wigner.h"

/// Rows of an edge's frame in the registers of a thread that holds one channel.
namespace dpa4::cuda {

constexpr int full_rows(int lmax) { return (lmax + 1) * (lmax + 1); }
constexpr int local_rows(int lmax) { return 3 * lmax + 1; }

/// Place of (l, m) among the rows of the edge frame; row = 0, 1, 2 for m = 0, -1, +1.
constexpr int local_row(int lmax, int l, int row) { return row == 0 ? l : row * lmax + l; }

/// Degree of a row of the edge frame.
constexpr int local_degree(int lmax, int r) { return r <= lmax ? r : (r - 1) % lmax + 1; }

/// Coefficients of the radial mixing of an edge and rank: (L+1)^2 for m = 0, L^2 for m = -1 and +1.
constexpr int mixing_size(int lmax) { return (lmax + 1) * (lmax + 1) + lmax * lmax; }

/// Rows |m| <= 1 of degree kL of D x, from x[l + k].
template <int kLmax, int kL, class Real>
__device__ __forceinline__ void rotate_degree(const Real* __restrict__ wigner, const Real* x,
                                              Real* local) {
  Real sum[3] = {0, 0, 0};
#pragma unroll
  for (int k = -kL; k <= kL; ++k) {
#pragma unroll
    for (int row = 0; row < 3; ++row) {
      sum[row] += wigner[math::wigner_index(kL, row, k)] * x[kL + k];
    }
  }
#pragma unroll
  for (int row = 0; row < 3; ++row) local[local_row(kLmax, kL, row)] = sum[row];
}

/// local = rows |m| <= 1 of D x.
template <int kLmax, class Real>
__device__ __forceinline__ void rotate_rows(const Real* __restrict__ wigner, const Real* x,
                                            Real* local) {
  local[0] = x[0];
  math::static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    rotate_degree<kLmax, l>(wigner, x + l * l, local);
  });
}

/// out[l + k] = rows of degree kL of D^T local.
template <int kLmax, int kL, class Real>
__device__ __forceinline__ void rotate_degree_back(const Real* __restrict__ wigner,
                                                   const Real* local, Real* out) {
#pragma unroll
  for (int k = -kL; k <= kL; ++k) {
    Real sum = 0;
#pragma unroll
    for (int row = 0; row < 3; ++row) {
      sum += wigner[math::wigner_index(kL, row, k)] * local[local_row(kLmax, kL, row)];
    }
    out[kL + k] = sum;
  }
}

/// visit(input row, output row, place of the coefficient) for every pair of rows that the radial
/// mixing couples.
template <int kLmax, class Visit>
__device__ __forceinline__ void visit_mixing(Visit&& visit) {
#pragma unroll
  for (int i = 0; i <= kLmax; ++i) {
#pragma unroll
    for (int o = 0; o <= kLmax; ++o) visit(i, o, i * (kLmax + 1) + o);
  }
#pragma unroll
  for (int i = 1; i <= kLmax; ++i) {
#pragma unroll
    for (int o = 1; o <= kLmax; ++o) {
      const int place = (kLmax + 1) * (kLmax + 1) + (i - 1) * kLmax + (o - 1);
      visit(local_row(kLmax, i, 1), local_row(kLmax, o, 1), place);
      visit(local_row(kLmax, i, 2), local_row(kLmax, o, 2), place);
    }
  }
}

}  // namespace dpa4::cuda
