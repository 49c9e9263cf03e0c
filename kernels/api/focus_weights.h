// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Competition of the focus streams of an edge (F > 1), from the scalar row of its stack's input:
///
///   z[f] = sum_c v[f, c] competition[c, f],   v = u[f, i, 0, :] or its RMS norm (scale not null)
///   weight[i, f] = 0.98 softmax_f(z) + 0.02 / F
template <class Real>
struct FocusWeightsArgs {
  int count = 0;
  MessageShape shape;
  double eps = 0;
  const Real* u = nullptr;            // (F, count, R, Cf)
  const Real* scale = nullptr;        // (F, Cf) or null
  const Real* competition = nullptr;  // (Cf, F)
  Real* weight = nullptr;             // (count, F)            out
  Real* scalars = nullptr;            // (F, count, Cf)  out: copy of the scalar rows, or null
  bool scalars_only = false;          // u is (F, count, 1, Cf)
};

/// grad_u[f, i, 0, :] += gradient through the weights.
template <class Real>
struct FocusWeightsBackwardArgs {
  int count = 0;
  MessageShape shape;
  double eps = 0;
  const Real* scalars = nullptr;      // (F, count, Cf)
  const Real* scale = nullptr;        // (F, Cf) or null
  const Real* competition = nullptr;  // (Cf, F)
  const Real* weight = nullptr;       // (count, F)
  const Real* grad_weight = nullptr;  // (count, F)
  Real* grad_u = nullptr;             // (F, count, R, Cf)  +=
};

}  // namespace dpa4::kernels
