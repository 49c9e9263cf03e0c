// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/edge_length.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

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

/// A thread for each edge and radial function, so that the basis is written in its order; the first
/// thread of an edge writes what there is one of.
template <class Real>
void edge_geometry(const kernels::EdgeGeometryArgs<Real>& args, kernels::Stream stream) {
  DPA4_EXPECTS(args.shape.n_radial >= 1);
  for_rows(
      "edge_geometry", args.edges.count, args.shape.n_radial, stream, [=] __device__(int i, int n) {
        const kernels::RadialShape& shape = args.shape;
        const EdgeLength edge(shape, args.vec, edge_at(args.edges, i));
        const double cutoff = shape.basis_exponent > 0
                                  ? math::envelope(edge.length, shape.rcut, shape.basis_exponent)
                                  : 1.0;
        args.basis[static_cast<std::int64_t>(i) * shape.n_radial + n] =
            static_cast<Real>(radial_function(shape, edge.length, args.frequencies[n]) * cutoff);
        if (n > 0) return;
        const double inverse = 1 / edge.norm;
        args.length[i] = static_cast<Real>(edge.length);
        args.envelope[i] = static_cast<Real>(
            math::envelope(edge.length, shape.envelope_rcut, shape.envelope_exponent));
        Real* unit = args.unit + 3 * static_cast<std::int64_t>(i);
        unit[0] = static_cast<Real>(edge.x * inverse);
        unit[1] = static_cast<Real>(edge.y * inverse);
        unit[2] = static_cast<Real>(edge.z * inverse);
      });
}

/// dE/dlength of an edge without the clamp.
template <class Real>
__device__ double length_gradient(const kernels::EdgeGeometryBackwardArgs<Real>& args, int i,
                                  double length) {
  const kernels::RadialShape& shape = args.shape;
  double radial = args.grad_length != nullptr ? args.grad_length[i] : 0.0;
  if (args.grad_envelope != nullptr) {
    radial += args.grad_envelope[i] *
              math::envelope_dr(length, shape.envelope_rcut, shape.envelope_exponent);
  }
  if (args.grad_basis == nullptr) return radial;
  double cutoff = 1, cutoff_dr = 0;
  if (shape.basis_exponent > 0) {
    cutoff = math::envelope(length, shape.rcut, shape.basis_exponent);
    cutoff_dr = math::envelope_dr(length, shape.rcut, shape.basis_exponent);
  }
  const Real* grad_basis = args.grad_basis + static_cast<std::int64_t>(i) * shape.n_radial;
  for (int n = 0; n < shape.n_radial; ++n) {
    const double value = radial_function(shape, length, args.frequencies[n]);
    const double value_dr = radial_function_dr(shape, length, args.frequencies[n], value);
    radial += grad_basis[n] * (value_dr * cutoff + value * cutoff_dr);
  }
  return radial;
}

template <class Real>
__device__ void edge_gradient(const kernels::EdgeGeometryBackwardArgs<Real>& args, int i) {
  const kernels::RadialShape& shape = args.shape;
  const int number = edge_at(args.edges, i);
  const EdgeLength edge(shape, args.vec, number);
  const double inverse = 1 / edge.norm;
  const double u[3] = {edge.x * inverse, edge.y * inverse, edge.z * inverse};
  double radial = length_gradient(args, i, edge.length);
  if (shape.bridging) {
    radial *= math::clamped_length_dr(edge.norm, shape.r_inner, shape.r_outer);
  }
  double g[3] = {0, 0, 0}, t[3] = {0, 0, 0};
  for (int a = 0; a < 3; ++a) {
    if (args.grad_unit != nullptr) g[a] = args.grad_unit[3 * static_cast<std::int64_t>(i) + a];
    if (args.torque != nullptr) t[a] = args.torque[3 * static_cast<std::int64_t>(i) + a];
  }
  const double along = g[0] * u[0] + g[1] * u[1] + g[2] * u[2];
  Real* grad_vec = args.grad_vec + 3 * static_cast<std::int64_t>(number);
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    const int b = (a + 1) % 3, c = (a + 2) % 3;
    grad_vec[a] += static_cast<Real>(radial * u[a] +
                                     (g[a] - along * u[a] + (u[b] * t[c] - u[c] * t[b])) * inverse);
  }
}

template <class Real>
void edge_geometry_backward(const kernels::EdgeGeometryBackwardArgs<Real>& args,
                            kernels::Stream stream) {
  for_items("edge_geometry_backward", args.edges.count, stream,
            [=] __device__(std::int64_t i) { edge_gradient(args, static_cast<int>(i)); });
}

DPA4_CUDA_INSTANTIATE(edge_geometry, EdgeGeometryArgs);
DPA4_CUDA_INSTANTIATE(edge_geometry_backward, EdgeGeometryBackwardArgs);

}  // namespace dpa4::cuda
