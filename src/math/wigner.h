// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/math/generators.h"

namespace dpa4::math {

/// Numbers in the rows m = 0, -1, +1 of D^l for l = 1..lmax, see wigner_rows.
constexpr int wigner_size(int lmax) { return 3 * lmax * (lmax + 2); }

/// Place of D^l[m, k] among them; row = 0, 1, 2 for m = 0, -1, +1, k = -l..l.
constexpr int wigner_index(int l, int row, int k) {
  return 3 * (l * l - 1) + row * (2 * l + 1) + l + k;
}

/// Factor of degree l when a message that kept |m| <= 1 is turned back.
constexpr double rotate_back_scale(int l) {
  return l <= 1 ? 1.0 : constant_sqrt((2 * l + 1) / 3.0);
}

/// Harmonics Z_lk of a unit vector for l = 0..kLmax, packed, Z_lk(x, y, z) = S_lk(-x, y, z) with S
/// the real harmonics of src/math/harmonics.h. Upward recursion in l at fixed order:
///
///   S_mm = sqrt((2m-1) / (2m)) (x S_{m-1,m-1} - y S_{m-1,-(m-1)})          (m = 1: factor 1)
///   sqrt(l^2 - m^2) S_lm = (2l-1) z S_{l-1,m} - sqrt((l-1)^2 - m^2) S_{l-2,m}
template <int kLmax, class T>
DPA4_HD inline void harmonics_of_unit(T x, T y, T z, T* out) {
  out[0] = T(1);
  static_for<kLmax + 1>([&](auto order) {
    constexpr int m = decltype(order)::value;
    if constexpr (m > 0) {
      constexpr double factor = m == 1 ? 1.0 : constant_sqrt((2 * m - 1) / (2.0 * m));
      const T cosine = out[(m - 1) * (m - 1) + 2 * (m - 1)];
      if constexpr (m == 1) {
        out[3] = -x;
        out[1] = y;
      } else {
        const T sine = out[(m - 1) * (m - 1)];
        out[m * m + 2 * m] = T(factor) * (-x * cosine - y * sine);
        out[m * m] = T(factor) * (-x * sine + y * cosine);
      }
    }
    static_for<kLmax - m>([&](auto step) {
      constexpr int l = m + 1 + decltype(step)::value;
      constexpr double inverse = 1 / constant_sqrt(l * l - m * m);
      constexpr double a = (2 * l - 1) * inverse;
      const auto raise = [&](int signed_m) {
        T value = T(a) * z * out[(l - 1) * (l - 1) + (l - 1) + signed_m];
        if constexpr (l - 2 >= m) {
          constexpr double b = constant_sqrt((l - 1) * (l - 1) - m * m) * inverse;
          value = value - T(b) * out[(l - 2) * (l - 2) + (l - 2) + signed_m];
        }
        out[l * l + l + signed_m] = value;
      };
      raise(m);
      if constexpr (m > 0) raise(-m);
    });
  });
}

/// Two unit vectors e1, e2 that form a right-handed frame with the unit vector (x, y, z).
/// Source: T. Duff et al., Journal of Computer Graphics Techniques 6, 1 (2017).
template <class T>
DPA4_HD inline void edge_frame(T x, T y, T z, T* e1, T* e2) {
  const T sign = select_of(z >= T(0), T(1), T(-1));
  const T a = T(-1) / (sign + z);
  const T b = x * y * a;
  e1[0] = T(1) + sign * x * x * a;
  e1[1] = sign * b;
  e1[2] = -sign * x;
  e2[0] = b;
  e2[1] = sign + y * y * a;
  e2[2] = -y;
}

/// Rows m = 0, -1, +1 of D^l(R), l = 1..kLmax, for the rotation R with rows e1, e2 and u = (x, y,
/// z) (edge_frame): the edge goes onto +z. Row 0 is Z_l(u); turning the frame about e1 and e2 mixes
/// it with the others, which gives them as derivatives:
///
///   D^l[-1, :] = -(e1 . J Z_l(u)) / c_0,    D^l[+1, :] = -(e2 . J Z_l(u)) / c_0
template <int kLmax, class T>
DPA4_HD inline void wigner_rows(T x, T y, T z, T* out) {
  T harmonics[(kLmax + 1) * (kLmax + 1)];
  harmonics_of_unit<kLmax>(x, y, z, harmonics);
  T e1[3], e2[3];
  edge_frame(x, y, z, e1, e2);
  static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    constexpr double scale = -1 / generator_coefficient(l, 0);
    static_for<2 * l + 1>([&](auto index) {
      constexpr int k = decltype(index)::value - l;
      out[wigner_index(l, 0, k)] = harmonics[l * l + l + k];
      out[wigner_index(l, 1, k)] = T(0);
      out[wigner_index(l, 2, k)] = T(0);
    });
    visit_generators<l>([&](int axis, int row, int column, double value) {
      const T product = T(scale * value) * harmonics[l * l + l + column];
      out[wigner_index(l, 1, row)] = out[wigner_index(l, 1, row)] + e1[axis] * product;
      out[wigner_index(l, 2, row)] = out[wigner_index(l, 2, row)] + e2[axis] * product;
    });
  });
}

/// torque[a] += sum_k left[k] (J_a right)[k] over the rows of degree kL; left and right point at
/// row k = -kL.
template <int kL, class T>
DPA4_HD inline void add_torque(const T* left, const T* right, T* torque) {
  visit_generators<kL>([&](int axis, int row, int column, double value) {
    torque[axis] = torque[axis] + T(value) * left[kL + row] * right[kL + column];
  });
}

}  // namespace dpa4::math
