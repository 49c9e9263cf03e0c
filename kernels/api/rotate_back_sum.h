// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Turns messages back into the global frame and sums them over the edges of each destination:
///
///   val[i, (l, k), c] = b_l sum_{|m| <= 1} D^l[m, k] focus[i, f] u[f, i, (l, m), c'],  c = f Cf +
///   c' sum[n, :, c] += sum over the edges of n of alpha[i, f, h] val[i, :, c]
///
/// b_l = sqrt((2l+1)/3) for l >= 2, else 1. focus null is 1. `edges` lists by destination.
template <class Real>
struct RotateBackSumArgs {
  EdgeSlice edges;
  MessageShape shape;
  const Real* wigner = nullptr;  // (count, 3 L (L + 2))
  const Real* u = nullptr;       // (F, count, R, Cf), focus streams focus_stride elements apart
  std::int64_t focus_stride = 0;
  const Real* focus = nullptr;  // (count, F) or null
  const Real* alpha = nullptr;  // (count, weights())
  Real* sum = nullptr;          // (n_owned, D, Cw)  +=
};

/// With g = grad_sum[dst]:
///
///   grad_alpha[i, f, h] = sum_{d, c in h} g val
///   grad_u = alpha focus (b D g)          rows |m| <= 1
///   grad_focus[i, f] = sum alpha (b D g) u
///   torque[i, a] -= sum_c (alpha g) . (J_a val)
template <class Real>
struct RotateBackSumBackwardArgs {
  EdgeSlice edges;
  MessageShape shape;
  const Real* wigner = nullptr;
  const Real* u = nullptr;  // (F, count, R, Cf), focus streams focus_stride elements apart
  std::int64_t focus_stride = 0;
  const Real* focus = nullptr;     // (count, F) or null
  const Real* alpha = nullptr;     // (count, weights())
  const Real* grad_sum = nullptr;  // (n_owned, D, Cw)
  Real* grad_u = nullptr;      // (F, count, R, Cf)    out; may be u if focus_stride = count R Cf
  Real* grad_alpha = nullptr;  // (count, weights())   out
  Real* grad_focus = nullptr;  // (count, F)           out, or null when focus is null
  Real* torque = nullptr;      // (count, 3)           +=
};

}  // namespace dpa4::kernels
