// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/math/elementary.h"

namespace dpa4::math {

/// Energy of a pair [eV] and its derivative with respect to the distance [eV/Angstrom].
template <class T>
struct PairEnergy {
  T energy;
  T derivative;
};

/// Universal repulsion of Ziegler, Biersack and Littmark between the nuclei Z_i and Z_j at distance
/// r:
///
///   V = 14.3996 Z_i Z_j phi(r / a) / r,   a = 0.88534 * 0.5291772109 / (Z_i^0.23 + Z_j^0.23)
///   phi(x) = 0.18175 e^(-3.1998 x) + 0.50986 e^(-0.94229 x) + 0.28022 e^(-0.4029 x)
///            + 0.028171 e^(-0.20162 x)
///
/// r in Angstrom, > 0. power_i = Z_i^0.23.
template <class T>
DPA4_HD inline PairEnergy<T> zbl_pair_energy(T r, double z_i, double z_j, double power_i,
                                             double power_j) {
  constexpr double kWeight[4] = {0.18175, 0.50986, 0.28022, 0.028171};
  constexpr double kDecay[4] = {3.1998, 0.94229, 0.4029, 0.20162};
  const double inverse_a = (power_i + power_j) / (0.88534 * 0.5291772109);
  const double strength = 14.3996 * z_i * z_j;
  T phi = T(0), dphi = T(0);
  for (int k = 0; k < 4; ++k) {
    const T term = T(kWeight[k]) * exp_of(T(-kDecay[k] * inverse_a) * r);
    phi = phi + term;
    dphi = dphi - T(kDecay[k] * inverse_a) * term;
  }
  return {T(strength) * phi / r, T(strength) * (dphi - phi / r) / r};
}

}  // namespace dpa4::math
