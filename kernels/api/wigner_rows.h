// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Rows m = 0, -1, +1 of the rotation matrices that bring an edge onto +z, degrees 1..L.
///
///   wigner[i, 3 (l*l - 1) + row (2l+1) + l + k] = D^l[m, k],  row = 0, 1, 2 for m = 0, -1, +1
///
/// The frame is right-handed with third axis `unit`; its roll is the backend's choice, the same for
/// the same unit vector (the energy does not depend on it). Row m = 0 is Z_l(unit). Degree 0 is 1
/// and not stored. Formulas: src/math/wigner.h.
template <class Real>
struct WignerRowsArgs {
  int count = 0;
  int lmax = 0;
  const Real* unit = nullptr;  // (count, 3)
  Real* wigner = nullptr;      // (count, 3 L (L + 2))  out
};

}  // namespace dpa4::kernels
