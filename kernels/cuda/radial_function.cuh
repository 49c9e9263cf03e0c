// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/edge_length.cuh"

namespace dpa4::cuda {

/// phi_n(length), without its cutoff.
__device__ inline double radial_function(const kernels::RadialShape& shape, double length,
                                         double frequency) {
  return shape.gaussian ? math::gaussian_basis(length, frequency, shape.gaussian_kappa)
                        : math::bessel_basis(length, frequency);
}

__device__ inline double radial_function_dr(const kernels::RadialShape& shape, double length,
                                            double frequency, double value) {
  return shape.gaussian ? math::gaussian_basis_dr(length, frequency, shape.gaussian_kappa, value)
                        : math::bessel_basis_dr(length, frequency, value);
}

/// The cutoff in the basis and its derivative.
struct BasisCutoff {
  double value = 1, derivative = 0;

  __device__ BasisCutoff(const kernels::RadialShape& shape, double length) {
    if (shape.basis_exponent <= 0) return;
    value = math::envelope(length, shape.rcut, shape.basis_exponent);
    derivative = math::envelope_dr(length, shape.rcut, shape.basis_exponent);
  }
};

/// Adds the gradient of an edge to dE/dvec, see edge_geometry.h: from that of the clamped length,
/// of the unit vector and the torque.
template <class Real>
__device__ void add_edge_gradient(const kernels::RadialShape& shape, const EdgeLength& edge,
                                  double radial, const double (&unit)[3], const double (&torque)[3],
                                  Real* grad_vec) {
  const double inverse = 1 / edge.norm;
  const double u[3] = {edge.x * inverse, edge.y * inverse, edge.z * inverse};
  if (shape.bridging) {
    radial *= math::clamped_length_dr(edge.norm, shape.r_inner, shape.r_outer);
  }
  const double along = unit[0] * u[0] + unit[1] * u[1] + unit[2] * u[2];
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int b = (a + 1) % 3, c = (a + 2) % 3;
    grad_vec[a] += static_cast<Real>(
        radial * u[a] + (unit[a] - along * u[a] + (u[b] * torque[c] - u[c] * torque[b])) * inverse);
  }
}

}  // namespace dpa4::cuda
