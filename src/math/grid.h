// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

namespace dpa4::math {

/// The two matrices of a grid net, float64: coefficients -> grid values and back.
/// Coefficient index (row, frame) = row * n_frames + frame.
struct GridMatrices {
  int n_points = 0;          // G
  int n_rows = 0;            // (lmax+1)^2 packed rows, or the m-major reduced rows
  int n_frames = 1;          // K
  std::vector<double> to;    // (G, n_rows * K)
  std::vector<double> from;  // (n_rows * K, G)
};

/// Which rows of the coefficients a grid net sees.
enum class RowLayout { kPacked, kMMajor };

/// How the points of an S2 grid are chosen.
enum class S2Points {
  kLebedev,        // the smallest rule of precision >= 3 lmax
  kProduct,        // (2 mmax + 4) azimuths x even(3 lmax + 2) polar midpoints
  kProductSquare,  // both counts raised to the larger of the two
};

/// Grid on the sphere. `mmax` < lmax rescales the degrees l > mmax by sqrt((2l+1)/(2mmax+1)) in
/// both matrices. Lebedev matrices are exact to double; those of product grids hold the reference's
/// float32 values (src/math/product_grid.h). Source: spec part 2, section 6.1.
GridMatrices s2_grid(int lmax, int mmax, RowLayout layout, S2Points points);

/// Grid on SO(3): Lebedev points x (3 kmax + 1) rotations about the local axis; frames in the order
/// 0, -1, +1, -2, +2, ... up to kmax. Columns with |k| > l are zero.
GridMatrices so3_grid(int lmax, int mmax, int kmax, RowLayout layout);

}  // namespace dpa4::math
