// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/edge_geometry.h"

namespace dpa4::kernels {

/// A hidden layer of the radial network: y = silu(norm(x w)), see rms_norm_silu.h.
template <class Real>
struct RadialLayer {
  int in = 0;
  int out = 0;
  const Real* w = nullptr;             // (in, out)
  const Real* w_transposed = nullptr;  // (out, in)
  const Real* scale = nullptr;         // (out) or null: no norm
};

/// From the length of an edge and the types of its ends to what is needed to know of it.
template <class Real>
struct EdgeConditionNet {
  RadialShape shape;
  const Real* frequencies = nullptr;  // (n_radial)
  int n_layers = 0;
  const RadialLayer<Real>* layers = nullptr;  // (n_layers), in host memory
  double eps = 0;                             // of the norms
  int width = 0;
  const Real* w = nullptr;             // (hidden, width)
  const Real* w_transposed = nullptr;  // (width, hidden)
  const Real* src_table = nullptr;     // (types, width), or null for both if not enveloped
  const Real* dst_table = nullptr;     // (types, width)
  bool enveloped = true;

  int hidden() const { return n_layers > 0 ? layers[n_layers - 1].out : shape.n_radial; }
};

/// Conditioning of the edges of a call, with the geometry that it starts from:
///
///   y[i, :] = factor[i] hidden(basis[i, :]) w + src_table[type[src]] + dst_table[type[dst]]
///
/// factor = envelope, or 1 if not enveloped; hidden: the layers one after another. Geometry as in
/// edge_geometry.h. An edge beyond the cutoff must have the envelope 0 in factor.
template <class Real>
struct EdgeConditionArgs {
  EdgeSlice edges;
  EdgeConditionNet<Real> net;
  const double* vec = nullptr;  // (E, 3) by edge [Angstrom]
  const int* type = nullptr;    // (N)
  Real* length = nullptr;       // (count)         out, or null
  Real* unit = nullptr;         // (count, 3)      out
  Real* envelope = nullptr;     // (count)         out
  Real* y = nullptr;            // (count, width)  out
  Real* work = nullptr;         // edge_condition_work(net, count, ...) elements
};

/// Adds to dE/dvec what comes from y and from the geometry itself: the composition of pair_bias.h,
/// rms_norm_silu.h and edge_geometry.h, backward. `work` is that of the forward call for the same
/// edges, untouched since.
template <class Real>
struct EdgeConditionBackwardArgs {
  EdgeSlice edges;
  EdgeConditionNet<Real> net;
  const double* vec = nullptr;        // (E, 3) by edge
  const int* type = nullptr;          // (N)
  const Real* envelope = nullptr;     // (count)
  Real* grad_y = nullptr;             // (count, width)  in, destroyed
  Real* grad_envelope = nullptr;      // (count)         in: the part that does not go through y;
                                      // destroyed; or null if not enveloped
  const Real* grad_length = nullptr;  // (count) or null
  const Real* grad_unit = nullptr;    // (count, 3) or null
  const Real* torque = nullptr;       // (count, 3), see rotate_mix.h, or null
  Real* grad_vec = nullptr;           // (E, 3) by edge  +=
  Real* work = nullptr;
};

}  // namespace dpa4::kernels
