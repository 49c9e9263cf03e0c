// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/edge_geometry.h"
#include "src/math/radial.h"

namespace dpa4::cuda {

/// The vector of an edge and the lengths that follow from it, in double whatever the features are:
/// near the cutoff, where a weight is a high power of a small difference, single precision is not
/// enough.
struct EdgeLength {
  double x, y, z;
  double norm;    // |vec|
  double length;  // clamped

  __device__ EdgeLength(const kernels::RadialShape& shape, const double* vec, int edge) {
    const double* v = vec + 3 * static_cast<std::int64_t>(edge);
    x = v[0];
    y = v[1];
    z = v[2];
    norm = math::sqrt_of(x * x + y * y + z * z + shape.eps * shape.eps);
    length = shape.bridging ? math::clamped_length(norm, shape.r_inner, shape.r_outer) : norm;
  }
};

}  // namespace dpa4::cuda
