// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/math/elementary.h"
#include "src/math/static_for.h"

namespace dpa4::math {

/// Coefficient c_m of the generators of degree l: sqrt(l (l+1) / 2) for m = 0, else
/// sqrt((l - m) (l + m + 1)) / 2.
constexpr double generator_coefficient(int l, int m) {
  return m == 0 ? constant_sqrt(0.5 * l * (l + 1)) : 0.5 * constant_sqrt((l - m) * (l + m + 1.0));
}

/// Calls visit(axis, row, column, value) for every nonzero of the generators J_x, J_y, J_z (axis 0,
/// 1, 2) of degree kL >= 1, rows and columns m = -kL..kL:
///
///   J_a = d/dphi D^l(rotation by phi about axis a) at phi = 0,     antisymmetric
///
///   J_x[-(m+1), m] = J_x[-m, m+1] = -c_m,  J_x[-1, 0] = -c_0
///   J_y[m, m+1] = c_m,  J_y[-(m+1), -m] = -c_m,  J_y[0, 1] = c_0
///   J_z[-m, m] = -m
///
/// Two nonzeros in a row at most. Arguments are constants once `visit` is inlined.
/// Source: spec part 1, section 5.1.
template <int kL, class Visit>
DPA4_HD inline void visit_generators(Visit&& visit) {
  static_for<kL>([&](auto index) {
    constexpr int m = decltype(index)::value + 1;
    visit(2, -m, m, -1.0 * m);
    visit(2, m, -m, 1.0 * m);
  });
  constexpr double c0 = generator_coefficient(kL, 0);
  visit(0, -1, 0, -c0);
  visit(0, 0, -1, c0);
  visit(1, 0, 1, c0);
  visit(1, 1, 0, -c0);
  static_for<kL - 1>([&](auto index) {
    constexpr int m = decltype(index)::value + 1;
    constexpr double c = generator_coefficient(kL, m);
    visit(0, -(m + 1), m, -c);
    visit(0, m, -(m + 1), c);
    visit(0, -m, m + 1, -c);
    visit(0, m + 1, -m, c);
    visit(1, m, m + 1, c);
    visit(1, m + 1, m, -c);
    visit(1, -(m + 1), -m, -c);
    visit(1, -m, -(m + 1), c);
  });
}

}  // namespace dpa4::math
