// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Hidden layer of a radial network, row by row: y = silu(scale * x / sqrt(mean(x^2) + eps)), or
/// y = silu(x) where scale is null.
template <class Real>
struct RmsNormSiluArgs {
  int rows = 0;
  int width = 0;
  const Real* x = nullptr;      // (rows, width)
  const Real* scale = nullptr;  // (width) or null
  double eps = 0;
  Real* y = nullptr;  // (rows, width)  out; may be x
};

template <class Real>
struct RmsNormSiluBackwardArgs {
  int rows = 0;
  int width = 0;
  const Real* x = nullptr;      // (rows, width)
  const Real* scale = nullptr;  // (width) or null
  double eps = 0;
  const Real* grad_y = nullptr;  // (rows, width)
  Real* grad_x = nullptr;        // (rows, width)  out; may be grad_y
};

}  // namespace dpa4::kernels
