// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Moves or adds rows of nodes: y[n, 0:width] = x[n, 0:width] (+ y when accumulate, or + add).
template <class Real>
struct RowsArgs {
  int rows = 0;
  int width = 0;
  const Real* x = nullptr;  // (rows, width), leading dimension ldx
  std::int64_t ldx = 0;
  Real* y = nullptr;  // (rows, width), leading dimension ldy  out or +=; may be x
  std::int64_t ldy = 0;
  bool accumulate = false;
  const Real* add = nullptr;  // (rows, width), leading dimension ld_add, or null
  std::int64_t ld_add = 0;
};

/// y[n, 0:width] = table[type[n], :].
template <class Real>
struct TypeRowsArgs {
  int rows = 0;
  int width = 0;
  const int* type = nullptr;    // (rows)
  const Real* table = nullptr;  // (types, width)
  Real* y = nullptr;            // (rows, width), leading dimension ldy  out
  std::int64_t ldy = 0;
};

}  // namespace dpa4::kernels
