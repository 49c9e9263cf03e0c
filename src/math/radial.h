// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/math/elementary.h"

/// Functions of an edge's length. Lengths in Angstrom.
namespace dpa4::math {

/// Smooth cutoff of order p >= 1; value and first three derivatives vanish at r = rcut.
///
///   E_p(r) = u^4 sum_{k < p} binomial(k + 3, 3) x^k,   u = 1 - r / rcut,  x = 1 - u
///
/// 1 at r = 0, exactly 0 for r >= rcut.
template <class T>
DPA4_HD inline T envelope(T r, double rcut, int p) {
  T u = (T(rcut) - r) * T(1 / rcut);
  u = select_of(u > T(0), u, T(0));
  const T x = T(1) - u;
  T sum = T((p + 2) * (p + 1) * p / 6);
  for (int k = p - 2; k >= 0; --k) sum = sum * x + T((k + 3) * (k + 2) * (k + 1) / 6);
  const T u2 = u * u;
  return u2 * u2 * sum;
}

/// d E_p / d r [1/Angstrom]; the series telescopes to -4 binomial(p + 3, 4) u^3 x^(p-1) / rcut.
template <class T>
DPA4_HD inline T envelope_dr(T r, double rcut, int p) {
  T u = (T(rcut) - r) * T(1 / rcut);
  u = select_of(u > T(0), u, T(0));
  const T x = T(1) - u;
  T power = T(1);
  for (int k = 1; k < p; ++k) power = power * x;
  return T(-4.0 * ((p + 3) * (p + 2) * (p + 1) * p / 24) / rcut) * power * u * u * u;
}

/// Bessel function of frequency f: sin(f r) / r, r > 0, and its derivative.
template <class T>
DPA4_HD inline T bessel_basis(T r, T f) {
  return sin_of(f * r) / r;
}
template <class T>
DPA4_HD inline T bessel_basis_dr(T r, T f, T value) {
  return (f * cos_of(f * r) - value) / r;
}

/// Gaussian centered at f: exp(kappa (r - f)^2), kappa < 0 [1/Angstrom^2], and its derivative.
template <class T>
DPA4_HD inline T gaussian_basis(T r, T f, T kappa) {
  const T d = r - f;
  return exp_of(kappa * d * d);
}
template <class T>
DPA4_HD inline T gaussian_basis_dr(T r, T f, T kappa, T value) {
  return T(2) * kappa * (r - f) * value;
}

/// Length seen by a bridged model: r beyond `outer`, frozen at `inner` below `inner`, between them
/// inner + (outer - inner) h(t), h(t) = t^4 (20 - 45 t + 36 t^2 - 10 t^3).
template <class T>
DPA4_HD inline T clamped_length(T r, double inner, double outer) {
  T t = (r - T(inner)) * T(1 / (outer - inner));
  t = select_of(t > T(0), t, T(0));
  t = select_of(t < T(1), t, T(1));
  const T t2 = t * t;
  const T h = t2 * t2 * (T(20) + t * (T(-45) + t * (T(36) - T(10) * t)));
  return select_of(r >= T(outer), r, T(inner) + T(outer - inner) * h);
}

/// d clamped_length / d r.
template <class T>
DPA4_HD inline T clamped_length_dr(T r, double inner, double outer) {
  T t = (r - T(inner)) * T(1 / (outer - inner));
  t = select_of(t > T(0), t, T(0));
  t = select_of(t < T(1), t, T(1));
  const T dh = t * t * t * (T(80) + t * (T(-225) + t * (T(216) - T(70) * t)));
  return select_of(r >= T(outer), T(1), dh);
}

/// Switch of a bridged model: 0 up to `inner`, 1 from `outer`, t^4 (35 - 84 t + 70 t^2 - 20 t^3)
/// between.
template <class T>
DPA4_HD inline T bridging_switch(T length, double inner, double outer) {
  T t = (length - T(inner)) * T(1 / (outer - inner));
  t = select_of(t > T(0), t, T(0));
  t = select_of(t < T(1), t, T(1));
  const T t2 = t * t;
  return t2 * t2 * (T(35) + t * (T(-84) + t * (T(70) - T(20) * t)));
}

/// d switch / d length = 140 t^3 (1 - t)^3 / (outer - inner).
template <class T>
DPA4_HD inline T bridging_switch_dr(T length, double inner, double outer) {
  T t = (length - T(inner)) * T(1 / (outer - inner));
  t = select_of(t > T(0), t, T(0));
  t = select_of(t < T(1), t, T(1));
  const T s = t * (T(1) - t);
  return T(140 / (outer - inner)) * s * s * s;
}

}  // namespace dpa4::math
