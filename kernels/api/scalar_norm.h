// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// RMS norm of the scalar rows, focus by focus: y[n, f, :] = scale[f, :] x / sqrt(mean(x^2) + eps).
template <class Real>
struct ScalarNormArgs {
  int n_nodes = 0;
  int n_focus = 1;
  int width = 0;  // Cf
  double eps = 0;
  const Real* x = nullptr;  // (n_nodes, F, Cf), leading dimension ldx
  std::int64_t ldx = 0;
  const Real* scale = nullptr;  // (F, Cf)
  Real* y = nullptr;            // (n_nodes, F, Cf)  out
};

template <class Real>
struct ScalarNormBackwardArgs {
  int n_nodes = 0;
  int n_focus = 1;
  int width = 0;
  double eps = 0;
  const Real* x = nullptr;  // (n_nodes, F, Cf), leading dimension ldx
  std::int64_t ldx = 0;
  const Real* scale = nullptr;   // (F, Cf)
  const Real* grad_y = nullptr;  // (n_nodes, F, Cf)
  Real* grad_x = nullptr;        // (n_nodes, F, Cf), leading dimension ld_grad  +=
  std::int64_t ld_grad = 0;
};

}  // namespace dpa4::kernels
