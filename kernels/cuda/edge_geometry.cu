// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/edge_length.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

/// phi_n(length), without its cutoff.
template <class Real>
__device__ Real radial_function(const kernels::RadialShape& shape, Real length, Real frequency) {
  return shape.gaussian
             ? math::gaussian_basis(length, frequency, static_cast<Real>(shape.gaussian_kappa))
             : math::bessel_basis(length, frequency);
}

template <class Real>
__device__ Real radial_function_dr(const kernels::RadialShape& shape, Real length, Real frequency,
                                   Real value) {
  return shape.gaussian ? math::gaussian_basis_dr(length, frequency,
                                                  static_cast<Real>(shape.gaussian_kappa), value)
                        : math::bessel_basis_dr(length, frequency, value);
}

/// A thread for each edge and radial function, so that the basis is written in its order; the first
/// thread of an edge writes what there is one of.
template <class Real>
void edge_geometry(const kernels::EdgeGeometryArgs<Real>& args, kernels::Stream stream) {
  DPA4_EXPECTS(args.shape.n_radial >= 1);
  for_rows("edge_geometry", args.edges.count, args.shape.n_radial, stream,
           [=] __device__(int i, int n) {
             const kernels::RadialShape& shape = args.shape;
             const EdgeLength<Real> edge(shape, args.vec, edge_at(args.edges, i));
             const Real cutoff = shape.basis_exponent > 0
                                     ? math::envelope(edge.length, shape.rcut, shape.basis_exponent)
                                     : Real(1);
             args.basis[static_cast<std::int64_t>(i) * shape.n_radial + n] =
                 radial_function(shape, edge.length, args.frequencies[n]) * cutoff;
             if (n > 0) return;
             const Real inverse = Real(1) / edge.norm;
             args.length[i] = edge.length;
             args.envelope[i] = math::envelope(edge.length, shape.rcut, shape.envelope_exponent);
             Real* unit = args.unit + 3 * static_cast<std::int64_t>(i);
             unit[0] = edge.x * inverse;
             unit[1] = edge.y * inverse;
             unit[2] = edge.z * inverse;
           });
}

template <class Real>
__device__ void edge_gradient(const kernels::EdgeGeometryBackwardArgs<Real>& args, int i) {
  const kernels::RadialShape& shape = args.shape;
  const int number = edge_at(args.edges, i);
  const EdgeLength<Real> edge(shape, args.vec, number);
  const Real inverse = Real(1) / edge.norm;
  const Real u[3] = {edge.x * inverse, edge.y * inverse, edge.z * inverse};
  Real radial = (args.grad_length != nullptr ? args.grad_length[i] : Real(0)) +
                args.grad_envelope[i] *
                    math::envelope_dr(edge.length, shape.rcut, shape.envelope_exponent);
  Real cutoff = 1, cutoff_dr = 0;
  if (shape.basis_exponent > 0) {
    cutoff = math::envelope(edge.length, shape.rcut, shape.basis_exponent);
    cutoff_dr = math::envelope_dr(edge.length, shape.rcut, shape.basis_exponent);
  }
  const Real* grad_basis = args.grad_basis + static_cast<std::int64_t>(i) * shape.n_radial;
  for (int n = 0; n < shape.n_radial; ++n) {
    const Real value = radial_function(shape, edge.length, args.frequencies[n]);
    const Real value_dr = radial_function_dr(shape, edge.length, args.frequencies[n], value);
    radial += grad_basis[n] * (value_dr * cutoff + value * cutoff_dr);
  }
  if (shape.bridging) {
    radial *= math::clamped_length_dr(edge.norm, shape.r_inner, shape.r_outer);
  }
  Real g[3] = {0, 0, 0}, t[3] = {0, 0, 0};
  for (int a = 0; a < 3; ++a) {
    if (args.grad_unit != nullptr) g[a] = args.grad_unit[3 * static_cast<std::int64_t>(i) + a];
    if (args.torque != nullptr) t[a] = args.torque[3 * static_cast<std::int64_t>(i) + a];
  }
  const Real along = g[0] * u[0] + g[1] * u[1] + g[2] * u[2];
  Real* grad_vec = args.grad_vec + 3 * static_cast<std::int64_t>(number);
  for (int a = 0; a < 3; ++a) {
    const int b = (a + 1) % 3, c = (a + 2) % 3;
    grad_vec[a] +=
        radial * u[a] + (g[a] - along * u[a] + (u[b] * t[c] - u[c] * t[b])) * inverse;
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
