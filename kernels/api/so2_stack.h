// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Weights of one layer of the mixing stack. M0 = (L + 1) Cf and M1 = 2 L Cf are the widths of the
/// m = 0 and of the m = -1, +1 part of an edge's row; they do not mix.
template <class Real>
struct So2Layer {
  const Real* m0 = nullptr;    // (F, M0, M0)
  const Real* m1 = nullptr;    // (F, M1, M1): [[U, V], [-V, U]]
  const Real* gate = nullptr;  // (F, Cf, L Cf); null in the last layer, which has no gate
  const Real* m0_transposed = nullptr;
  const Real* m1_transposed = nullptr;
  const Real* gate_transposed = nullptr;  // (F, L Cf, Cf)
};

/// The mixing stack: for each layer, on every edge and focus,
///
///   z = [u0 m0 | u1 m1]                      with [u0 | u1] the row of the edge
///   g[l] = sigmoid( z[0, :] gate[l] )        l = 1..L, all orders of a degree share a gate
///   u += z                                   last layer
///   u[0] += silu(z[0]);  u[(l, m)] += g[l] z[(l, m)]   the others
///
/// Formulas of the gate: src/math/activation.h.
///
/// What the backward needs is kept on request: plane j < n_layers - 1 of `kept` is z of layer j
/// and, with keep_result, plane n_layers - 1 the result u. Row of edge i in a plane: kept_row[i]
/// (negative: not kept), or i where kept_row is null.
template <class Real>
struct So2StackArgs {
  int count = 0;
  MessageShape shape;
  int n_layers = 0;                        // >= 1
  const So2Layer<Real>* layers = nullptr;  // (n_layers), in host memory
  Real* u = nullptr;                       // (F, count, R, Cf)  in, out
  Real* kept = nullptr;                    // (n_layers, F, kept_rows, R, Cf) or null
  std::int64_t kept_rows = 0;
  const int* kept_row = nullptr;  // (count) or null
  bool keep_result = false;
  Real* work = nullptr;  // count * so2_stack_work(shape) elements
};

/// The transpose. grad_u: dE/du of the result on entry, of the input on return. `kept` points at
/// the row of the first edge; the edges of a call have adjacent rows in every plane.
template <class Real>
struct So2StackBackwardArgs {
  int count = 0;
  MessageShape shape;
  int n_layers = 0;
  const So2Layer<Real>* layers = nullptr;
  const Real* kept = nullptr;  // (n_layers, F, kept_rows, R, Cf)
  std::int64_t kept_rows = 0;
  Real* grad_u = nullptr;  // (F, count, R, Cf)  in, out
  Real* work = nullptr;    // count * so2_stack_work(shape) elements
};

}  // namespace dpa4::kernels
