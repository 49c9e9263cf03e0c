// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/edge_geometry.h"
#include "kernels/cpu/simd.h"
#include "src/math/radial.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

DPA4_CPU_INLINE int edge_at(const kernels::EdgeSlice& edges, int i) {
  return edges.order != nullptr ? edges.order[edges.first + i] : edges.first + i;
}

/// The vectors of up to a register of edges and what follows from their length, in double whatever
/// the features are: near the cutoff, where a weight is a high power of a small difference, single
/// precision is not enough.
struct EdgeLanes {
  using S = Simd<double, kLanes<double>>;
  S x, y, z;
  S norm;    // |vec|
  S length;  // clamped

  /// edge(lane) is the edge of a lane.
  template <class Edge>
  DPA4_CPU_INLINE EdgeLanes(const kernels::RadialShape& shape, const double* vec, Edge&& edge)
      : x(0), y(0), z(0) {
    for (int lane = 0; lane < S::kSize; ++lane) {
      const double* v = vec + 3 * static_cast<std::int64_t>(edge(lane));
      x.v[lane] = v[0];
      y.v[lane] = v[1];
      z.v[lane] = v[2];
    }
    norm = sqrt_of(x * x + y * y + z * z + S(shape.eps * shape.eps));
    length = shape.bridging ? math::clamped_length(norm, shape.r_inner, shape.r_outer) : norm;
  }
};

/// phi_n(length) E_a(length) for one n, and its derivative.
template <class S>
DPA4_CPU_INLINE S basis_value(const kernels::RadialShape& shape, S length, S frequency, S cutoff) {
  const S phi = shape.gaussian ? math::gaussian_basis(length, frequency, S(shape.gaussian_kappa))
                               : math::bessel_basis(length, frequency);
  return phi * cutoff;
}
template <class S>
DPA4_CPU_INLINE S basis_derivative(const kernels::RadialShape& shape, S length, S frequency,
                                   S cutoff, S cutoff_dr) {
  const S kappa(shape.gaussian_kappa);
  const S phi = shape.gaussian ? math::gaussian_basis(length, frequency, kappa)
                               : math::bessel_basis(length, frequency);
  const S phi_dr = shape.gaussian ? math::gaussian_basis_dr(length, frequency, kappa, phi)
                                  : math::bessel_basis_dr(length, frequency, phi);
  return phi_dr * cutoff + phi * cutoff_dr;
}

template <class Real>
void edge_geometry(const kernels::EdgeGeometryArgs<Real>& args, kernels::Stream) {
  using S = EdgeLanes::S;
  const kernels::RadialShape& shape = args.shape;
  const int count = args.edges.count;
  for (int i = 0; i < count; i += S::kSize) {
    const int valid = count - i < S::kSize ? count - i : S::kSize;
    // Lanes behind the last edge repeat it and are not stored.
    const EdgeLanes edge(shape, args.vec, [&](int lane) {
      return edge_at(args.edges, i + (lane < valid ? lane : valid - 1));
    });
    const S inverse = S(1) / edge.norm;
    const S ux = edge.x * inverse, uy = edge.y * inverse, uz = edge.z * inverse;
    const S envelope = math::envelope(edge.length, shape.envelope_rcut, shape.envelope_exponent);
    const S cutoff = shape.basis_exponent > 0
                         ? math::envelope(edge.length, shape.rcut, shape.basis_exponent)
                         : S(1);
    for (int lane = 0; lane < valid; ++lane) {
      args.length[i + lane] = static_cast<Real>(edge.length.lane(lane));
      args.envelope[i + lane] = static_cast<Real>(envelope.lane(lane));
      Real* unit = args.unit + 3 * (i + lane);
      unit[0] = static_cast<Real>(ux.lane(lane));
      unit[1] = static_cast<Real>(uy.lane(lane));
      unit[2] = static_cast<Real>(uz.lane(lane));
    }
    for (int n = 0; n < shape.n_radial; ++n) {
      const S value =
          basis_value(shape, edge.length, S(static_cast<double>(args.frequencies[n])), cutoff);
      for (int lane = 0; lane < valid; ++lane) {
        args.basis[static_cast<std::int64_t>(i + lane) * shape.n_radial + n] =
            static_cast<Real>(value.lane(lane));
      }
    }
  }
}

template <class Real>
void edge_geometry_backward(const kernels::EdgeGeometryBackwardArgs<Real>& args, kernels::Stream) {
  using S = EdgeLanes::S;
  const kernels::RadialShape& shape = args.shape;
  const int count = args.edges.count;
  for (int i = 0; i < count; i += S::kSize) {
    const int valid = count - i < S::kSize ? count - i : S::kSize;
    const auto gather = [&](const Real* from, int stride, int offset)
        __attribute__((always_inline)) {
      S result(0);
      if (from == nullptr) return result;
      for (int lane = 0; lane < valid; ++lane) {
        result.v[lane] = from[static_cast<std::int64_t>(i + lane) * stride + offset];
      }
      return result;
    };
    const EdgeLanes edge(shape, args.vec, [&](int lane) {
      return edge_at(args.edges, i + (lane < valid ? lane : valid - 1));
    });
    const S inverse = S(1) / edge.norm;
    const S ux = edge.x * inverse, uy = edge.y * inverse, uz = edge.z * inverse;
    S radial = gather(args.grad_length, 1, 0) +
               gather(args.grad_envelope, 1, 0) *
                   math::envelope_dr(edge.length, shape.envelope_rcut, shape.envelope_exponent);
    S cutoff(1), cutoff_dr(0);
    if (shape.basis_exponent > 0) {
      cutoff = math::envelope(edge.length, shape.rcut, shape.basis_exponent);
      cutoff_dr = math::envelope_dr(edge.length, shape.rcut, shape.basis_exponent);
    }
    for (int n = 0; n < shape.n_radial; ++n) {
      radial += gather(args.grad_basis, shape.n_radial, n) *
                basis_derivative(shape, edge.length, S(static_cast<double>(args.frequencies[n])),
                                 cutoff, cutoff_dr);
    }
    if (shape.bridging) {
      radial *= math::clamped_length_dr(edge.norm, shape.r_inner, shape.r_outer);
    }
    const S gx = gather(args.grad_unit, 3, 0), gy = gather(args.grad_unit, 3, 1),
            gz = gather(args.grad_unit, 3, 2);
    const S tx = gather(args.torque, 3, 0), ty = gather(args.torque, 3, 1),
            tz = gather(args.torque, 3, 2);
    const S along = gx * ux + gy * uy + gz * uz;
    const S dx = radial * ux + (gx - along * ux + (uy * tz - uz * ty)) * inverse;
    const S dy = radial * uy + (gy - along * uy + (uz * tx - ux * tz)) * inverse;
    const S dz = radial * uz + (gz - along * uz + (ux * ty - uy * tx)) * inverse;
    for (int lane = 0; lane < valid; ++lane) {
      Real* grad = args.grad_vec + 3 * static_cast<std::int64_t>(edge_at(args.edges, i + lane));
      grad[0] += static_cast<Real>(dx.lane(lane));
      grad[1] += static_cast<Real>(dy.lane(lane));
      grad[2] += static_cast<Real>(dz.lane(lane));
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
