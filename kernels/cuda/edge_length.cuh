// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/edge_geometry.h"
#include "src/math/radial.h"

namespace dpa4::cuda {

/// The vector of an edge and the lengths that follow from it.
template <class Real>
struct EdgeLength {
  Real x, y, z;
  Real norm;    // |vec|
  Real length;  // clamped

  __device__ EdgeLength(const kernels::RadialShape& shape, const double* vec, int edge) {
    const double* v = vec + 3 * static_cast<std::int64_t>(edge);
    x = static_cast<Real>(v[0]);
    y = static_cast<Real>(v[1]);
    z = static_cast<Real>(v[2]);
    norm = math::sqrt_of(x * x + y * y + z * z + static_cast<Real>(shape.eps * shape.eps));
    length = shape.bridging ? math::clamped_length(norm, shape.r_inner, shape.r_outer) : norm;
  }
};

}  // namespace dpa4::cuda
