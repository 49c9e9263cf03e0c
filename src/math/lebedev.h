// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <vector>

namespace dpa4::math {

/// A quadrature rule on the unit sphere: mean over the sphere = sum_i weight[i] f(point[i]).
struct LebedevRule {
  int precision = 0;                          // exact for polynomials up to this degree
  std::vector<std::array<double, 3>> points;  // unit vectors
  std::vector<double> weights;                // sum to 1
};

/// The smallest tabulated rule whose precision is at least `precision`.
/// Throws InputError above 65 (degree 21 of a grid net).
/// Source: V. I. Lebedev and D. N. Laikov, Doklady Mathematics 59, 477 (1999).
LebedevRule lebedev_rule(int precision);

}  // namespace dpa4::math
