// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

namespace dpa4::math {

/// Sizes of a product grid on the sphere: azimuths times polar midpoints.
struct ProductGridSize {
  int n_azimuth = 0;
  int n_polar = 0;  // even
};

/// The two matrices of a product grid, point g = polar * n_azimuth + azimuth, packed rows (l, m).
struct ProductGridMatrices {
  std::vector<float> to;    // (G, (lmax+1)^2)
  std::vector<float> from;  // (G, (lmax+1)^2): the transpose of what takes grid values back
};

/// Evaluates the matrices the way the reference does for its own checkpoints: in float32 whatever
/// the model's type, and cast afterwards. No checkpoint stores them, so this rounding (1e-7
/// relative) is part of what a model computes, and a comparison in float64 sees it.
///
/// Up to lmax = 8 the elements are bit for bit those of the reference on x86-64, where its sine and
/// cosine are not always the nearest float; beyond, a few of them differ in the last bit.
///
/// `mmax` < lmax rescales the degrees l > mmax by sqrt((2l+1)/(2mmax+1)) in both matrices.
ProductGridMatrices product_grid_float32(int lmax, int mmax, ProductGridSize size);

}  // namespace dpa4::math
