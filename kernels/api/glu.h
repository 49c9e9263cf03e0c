// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Gated linear unit: y[n, c] = v silu(g) with (v, g) = x[n, 0:W] + bias[0:W], x[n, W:2W] +
/// bias[W:2W]. plain = true: y[n, c] = silu(x[n, c] + bias[c]), x of width W.
template <class Real>
struct GluArgs {
  int rows = 0;
  int width = 0;  // W
  bool plain = false;
  const Real* x = nullptr;     // (rows, 2 W), or (rows, W) when plain
  const Real* bias = nullptr;  // (2 W) or (W), or null
  Real* y = nullptr;           // (rows, W)  out
};

template <class Real>
struct GluBackwardArgs {
  int rows = 0;
  int width = 0;
  bool plain = false;
  const Real* x = nullptr;
  const Real* bias = nullptr;
  const Real* grad_y = nullptr;  // (rows, W)
  Real* grad_x = nullptr;        // shape of x  out; may be x
};

}  // namespace dpa4::kernels
