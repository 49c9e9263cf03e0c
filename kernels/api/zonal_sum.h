// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Initial features of degree 1..L of each destination, a sum over its edges:
///
///   x[n, (l, k), c] += kappa[n] gate[src] factor[i] Z_lk(unit) radial[i, l - 1, c]
///
/// Z_l is row m = 0 of `wigner` (wigner_rows.h). `edges` lists by destination; gate and factor null
/// are 1.
template <class Real>
struct ZonalSumArgs {
  EdgeSlice edges;
  int lmax = 0;
  int channels = 0;
  const Real* kappa = nullptr;   // (n_owned)
  const Real* gate = nullptr;    // (N) or null
  const Real* factor = nullptr;  // (count) or null: the envelope
  const Real* wigner = nullptr;  // (count, 3 L (L + 2))
  const Real* radial = nullptr;  // (count, L, C)
  Real* x = nullptr;             // (n_owned, D, C): rows 1..D-1  +=
};

/// torque[i] as in rotate_mix.h.
template <class Real>
struct ZonalSumBackwardArgs {
  EdgeSlice edges;
  int lmax = 0;
  int channels = 0;
  const Real* kappa = nullptr;
  const Real* gate = nullptr;
  const Real* factor = nullptr;
  const Real* wigner = nullptr;
  const Real* radial = nullptr;
  const Real* grad_x = nullptr;  // (n_owned, D, C)
  Real* grad_radial = nullptr;   // (count, L, C)  out; may be radial
  Real* grad_factor = nullptr;   // (count)     +=, or null when factor is null
  Real* grad_gate = nullptr;     // (count)     +=, or null when gate is null
  Real* torque = nullptr;        // (count, 3)  +=
};

}  // namespace dpa4::kernels
