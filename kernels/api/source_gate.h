// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"
#include "kernels/api/edge_geometry.h"

namespace dpa4::kernels {

/// Freezing of sources with a very close neighbor (bridging only; formulas: src/math/radial.h),
/// summed in double. w = switch(clamped length) of every edge; partial[n] = (sum of log w over the
/// edges with src = n and w > 0, number of edges with src = n and w <= 0). Partial sums of several
/// ranks add up.
template <class Real>
struct SourceGatePartialArgs {
  int node_first = 0;
  int node_count = 0;
  const int* src_begin = nullptr;  // (N + 1)
  const int* by_src = nullptr;     // (E)
  RadialShape shape;
  const double* vec = nullptr;  // (E, 3) by edge
  Real* partial = nullptr;      // (N, 2)  out in the range
};

/// gate[n] = 0 if partial[n, 1] > 0, else exp(partial[n, 0]).
template <class Real>
struct SourceGateArgs {
  int node_count = 0;
  const Real* partial = nullptr;  // (node_count, 2)
  Real* gate = nullptr;           // (node_count)  out
};

/// Sums edge gradients of the gate by source: grad_gate[src] += sum_i grad[i]. `edges` lists by
/// source.
template <class Real>
struct SourceGateSumArgs {
  EdgeSlice edges;
  const Real* grad = nullptr;  // (count)
  Real* grad_gate = nullptr;   // (N)  +=
};

/// grad_length[i] += grad_gate[src] gate[src] (dw/dlength) / w, 0 where gate[src] = 0.
template <class Real>
struct SourceGateBackwardArgs {
  EdgeSlice edges;
  RadialShape shape;
  const Real* length = nullptr;     // (count), clamped
  const Real* gate = nullptr;       // (N)
  const Real* grad_gate = nullptr;  // (N)
  Real* grad_length = nullptr;      // (count)  +=
};

}  // namespace dpa4::kernels
