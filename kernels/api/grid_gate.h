// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Gate and scalar path of a grid net:
///
///   y[i, c] = coefficient[i, c] sigmoid(logit[c])   + silu(a[c]) b[c] on i = 0
///
/// (a, b) = scalars[n, 0:Cg], scalars[n, Cg:2Cg].
template <class Real>
struct GridGateArgs {
  int count = 0;
  int n_coefficients = 0;             // K
  int width = 0;                      // Cg
  const Real* coefficient = nullptr;  // (count, K, Cg)
  const Real* logit = nullptr;        // (count, Cg)
  const Real* scalars = nullptr;      // (count, 2 Cg)
  Real* y = nullptr;                  // (count, K, Cg)  out; may be coefficient
};

template <class Real>
struct GridGateBackwardArgs {
  int count = 0;
  int n_coefficients = 0;
  int width = 0;
  const Real* coefficient = nullptr;  // (count, K, Cg)
  const Real* logit = nullptr;
  const Real* scalars = nullptr;
  const Real* grad_y = nullptr;      // (count, K, Cg)
  Real* grad_coefficient = nullptr;  // (count, K, Cg)  out; may be grad_y
  Real* grad_logit = nullptr;        // (count, Cg)     out
  Real* grad_scalars = nullptr;      // (count, 2 Cg)   out
};

}  // namespace dpa4::kernels
