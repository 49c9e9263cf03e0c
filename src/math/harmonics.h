// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <vector>

namespace dpa4::math {

/// Real spherical harmonics S_lm for l = 0..lmax, packed (l*l + l + m): polar axis z, m > 0 cosine
/// and m < 0 sine, no Condon-Shortley sign, scaled so that sum_m S_lm^2 = |v|^(2l) (a polynomial in
/// v).
std::vector<double> real_harmonics(int lmax, double x, double y, double z);

/// The basis of all DPA4 node features: Z_lm(x, y, z) = S_lm(-x, y, z); Z_1 = (y, z, -x).
/// Source: spec part 1, section 4.1.
std::vector<double> dpa4_harmonics(int lmax, const std::array<double, 3>& v);

/// Couples degree l-1 with degree 1 to degree l in the basis Z: an isometry, row-major
/// (2l+1, (2l-1) * 3), column (i, j) = i * 3 + j, such that for every rotation
///
///   D^l = C (D^(l-1) (x) D^1) C^T
///
/// and C (Z_(l-1)(u) (x) Z_1(u)) is a positive multiple of Z_l(u). l >= 1.
std::vector<double> raising_coupling(int l);

/// The multiple: Z_l(u) = raising_norm(l) * C (Z_(l-1)(u) (x) Z_1(u)) on the unit sphere.
double raising_norm(int l);

/// A rotation matrix, row-major.
using Rotation = std::array<double, 9>;

/// D^l of a rotation for l = 0..lmax, each row-major (2l+1, 2l+1): Z_l(R v) = D^l(R) Z_l(v).
std::vector<std::vector<double>> wigner_matrices(int lmax, const Rotation& rotation);

/// Rows of the m-major reduced layout: m = 0 for l = 0..lmax, then for m = 1..mmax all (l, -m), l =
/// m..lmax, followed by all (l, +m). `packed[r]` is the packed index of row r, `degree[r]` its
/// degree.
struct MMajorIndex {
  std::vector<int> packed;
  std::vector<int> degree;
};
MMajorIndex m_major_index(int lmax, int mmax);

/// Degree of each packed row, l repeated 2l+1 times.
std::vector<int> packed_degrees(int lmax);

}  // namespace dpa4::math
