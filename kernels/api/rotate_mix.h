// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Brings the source's features into the edge frame, keeping |m| <= 1, and mixes degrees with the
/// radial coefficients:
///
///   xl[(l, m), c] = sum_k D^l[m, k] x[src, (l, k), c]
///   u[f, i, r, c'] = y[r, f Cf + c'],   y = radial mixing of xl (RadialMixing in common.h)
template <class Real>
struct RotateMixArgs {
  EdgeSlice edges;
  MessageShape shape;
  const Real* x = nullptr;       // (N, D, Cw)
  const Real* wigner = nullptr;  // (count, 3 L (L + 2))
  const Real* radial = nullptr;  // (count, radial_size()), leading dimension ld_radial
  int ld_radial = 0;
  const Real* channel_basis = nullptr;  // (rank, Cw); null for kScale
  Real* u = nullptr;                    // (F, count, R, Cf)  out
  bool scalars_only = false;            // only row (0, 0): u is (F, count, 1, Cf)
};

/// The transpose. Rotations are differentiated as torques: with J_a the generators of rotations in
/// the basis of the features (src/math/generators.h), an edge's torque is t_a = sum <dE/dD, D J_a>,
/// and turning the edge's frame changes the energy by u x t (edge_geometry.h). Here
///
///   torque[i, a] += sum_c (D^T grad_xl)[:, c] . (J_a x[src])[:, c]
///   grad_x[src] += sum over the edges of src of D^T grad_xl
///   grad_radial = gradient of the radial coefficients
///
/// `edges` lists by source.
template <class Real>
struct RotateMixBackwardArgs {
  EdgeSlice edges;
  MessageShape shape;
  const Real* x = nullptr;       // (N, D, Cw)
  const Real* wigner = nullptr;  // (count, 3 L (L + 2))
  const Real* radial = nullptr;  // (count, radial_size()), leading dimension ld_radial
  int ld_radial = 0;
  const Real* channel_basis = nullptr;  // (rank, Cw); null for kScale
  const Real* grad_u = nullptr;         // (F, count, R, Cf)
  Real* grad_radial = nullptr;          // (count, radial_size()), leading dimension ld_radial  out
  Real* torque = nullptr;               // (count, 3)  +=
  Real* grad_x = nullptr;               // (N, D, Cw)  +=
};

}  // namespace dpa4::kernels
