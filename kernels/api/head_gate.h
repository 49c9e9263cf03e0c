// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Output gate of the aggregated messages. H >= 1: out = sum * sigmoid(logit[n, f, h]) on all rows;
/// H = 0: out = sum * kappa[n].
template <class Real>
struct HeadGateArgs {
  int n_nodes = 0;
  MessageShape shape;
  const Real* sum = nullptr;    // (n_nodes, D, Cw)
  const Real* logit = nullptr;  // (n_nodes, F H); null for H = 0
  const Real* kappa = nullptr;  // (n_nodes); null for H >= 1
  Real* out = nullptr;          // (n_nodes, D, Cw)  out
};

/// H >= 1, with s = sigmoid(logit): grad_sum = grad_out s,  row_sum = <grad_sum, sum> per (f, h),
/// grad_logit = s (1 - s) <grad_out, sum>. H = 0: grad_sum = grad_out kappa and
/// kappa_times_grad[n] += <grad_out, out>.
template <class Real>
struct HeadGateBackwardArgs {
  int n_nodes = 0;
  MessageShape shape;
  const Real* sum = nullptr;         // (n_nodes, D, Cw)
  const Real* logit = nullptr;       // (n_nodes, F H); null for H = 0
  const Real* kappa = nullptr;       // (n_nodes); null for H >= 1
  const Real* grad_out = nullptr;    // (n_nodes, D, Cw)
  Real* grad_sum = nullptr;          // (n_nodes, D, Cw)  out; may be grad_out
  Real* row_sum = nullptr;           // (n_nodes, F H)  out; null for H = 0
  Real* grad_logit = nullptr;        // (n_nodes, F H)  out; null for H = 0
  Real* kappa_times_grad = nullptr;  // (n_nodes)  +=; null for H >= 1
};

}  // namespace dpa4::kernels
