// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Equivariant RMS norm of a node over all degrees:
///
///   z = x, except that row 0 has its channel mean removed
///   v = sum_{l, m, c} balance[l] z^2,    s = (v + eps)^(-1/2)
///   y[(l, m), c] = s scale[l, c] z[(l, m), c]   + bias[c] on row 0
template <class Real>
struct So3NormArgs {
  int n_nodes = 0;
  int lmax = 0;
  int channels = 0;
  double eps = 0;
  const Real* x = nullptr;  // (n_nodes, D, C), leading dimension ldx >= D C
  std::int64_t ldx = 0;
  const Real* balance = nullptr;  // (L + 1), about 1 / ((2l+1) (L+1) C)
  const Real* scale = nullptr;    // (L + 1, C)
  const Real* bias = nullptr;     // (C)
  Real* y = nullptr;              // (n_nodes, D, C)  out; not x
};

template <class Real>
struct So3NormBackwardArgs {
  int n_nodes = 0;
  int lmax = 0;
  int channels = 0;
  double eps = 0;
  const Real* x = nullptr;  // (n_nodes, D, C), leading dimension ldx
  std::int64_t ldx = 0;
  const Real* balance = nullptr;  // (L + 1)
  const Real* scale = nullptr;    // (L + 1, C)
  const Real* grad_y = nullptr;   // (n_nodes, D, C)
  Real* grad_x = nullptr;  // (n_nodes, D, C), leading dimension ld_grad  out, or += if accumulate
  std::int64_t ld_grad = 0;
  bool accumulate = false;
};

}  // namespace dpa4::kernels
