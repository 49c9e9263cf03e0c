// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Everything that turns an edge's length into radial functions.
struct RadialShape {
  double rcut = 0;           // of the basis' envelope [Angstrom]
  double envelope_rcut = 0;  // of the edge weight: the same, or its float32 rounding
  int basis_exponent = 7;    // of the envelope in the basis; 0: none
  int envelope_exponent = 5;
  bool gaussian = false;  // false: Bessel
  int n_radial = 0;
  double gaussian_kappa = 0;  // -1 / (2 w^2) [1/Angstrom^2]
  double eps = 1e-7;          // length = sqrt(vec . vec + eps^2)
  bool bridging = false;      // clamp lengths between r_inner and r_outer
  double r_inner = 0;         // [Angstrom]
  double r_outer = 0;         // [Angstrom]
};

/// Scalars of the edges of a call (formulas: src/math/radial.h), computed in double and rounded.
///
///   length = clamp(|vec|), unit = vec / |vec|, envelope = E_b(length),
///   basis[n] = phi_n(length) E_a(length)
template <class Real>
struct EdgeGeometryArgs {
  EdgeSlice edges;
  RadialShape shape;
  const double* vec = nullptr;        // (E, 3) by edge [Angstrom]
  const Real* frequencies = nullptr;  // (n_radial)
  Real* length = nullptr;             // (count)            out
  Real* unit = nullptr;               // (count, 3)         out
  Real* envelope = nullptr;           // (count)            out
  Real* basis = nullptr;              // (count, n_radial)  out
};

/// Adds the gradient of everything that was made of an edge to dE/dvec (in double, added in Real):
///
///   grad_vec[edge] += dlength/dvec (grad_length + grad_envelope E_b' + sum_n grad_basis[n]
///   basis_n')
///                     + [ (1 - u u^T) grad_unit + u x torque ] / |vec|
template <class Real>
struct EdgeGeometryBackwardArgs {
  EdgeSlice edges;
  RadialShape shape;
  const double* vec = nullptr;          // (E, 3) by edge
  const Real* frequencies = nullptr;    // (n_radial)
  const Real* grad_length = nullptr;    // (count) or null
  const Real* grad_envelope = nullptr;  // (count) or null
  const Real* grad_basis = nullptr;     // (count, n_radial) or null
  const Real* grad_unit = nullptr;      // (count, 3) or null
  const Real* torque = nullptr;         // (count, 3), see rotate_mix.h, or null
  Real* grad_vec = nullptr;             // (E, 3) by edge    +=
};

}  // namespace dpa4::kernels
