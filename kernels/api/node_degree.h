// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"
#include "kernels/api/edge_geometry.h"

namespace dpa4::kernels {

/// Smooth coordination of a node, in double: kappa[n] = (sum over edges with dst = n of envelope^2
/// + floor)^(-1/2).
template <class Real>
struct NodeDegreeArgs {
  int node_first = 0;
  int node_count = 0;
  const int* dst_begin = nullptr;  // (n_owned + 1)
  RadialShape shape;
  double floor = 0.25;
  const double* vec = nullptr;  // (E, 3) by edge
  Real* kappa = nullptr;        // (n_owned)  out in the range
};

/// Gradient of the degree sum from what was multiplied by kappa. With y_j[n] = kappa[n] *
/// (anything),
///
///   grad_degree[n] = -1/2 kappa[n]^2 ( sum_j <grad_j[n], y_j[n]> + extra[n] )
template <class Real>
struct NodeDegreeBackwardArgs {
  int node_count = 0;           // nodes [0, node_count) of all arrays
  const Real* kappa = nullptr;  // (node_count)
  int width_a = 0;
  std::int64_t ld_a = 0;
  const Real* value_a = nullptr;  // (node_count, width_a) or null
  const Real* grad_a = nullptr;
  int width_b = 0;
  std::int64_t ld_b = 0;
  const Real* value_b = nullptr;  // (node_count, width_b) or null
  const Real* grad_b = nullptr;
  const Real* extra = nullptr;  // (node_count) or null
  Real* grad_degree = nullptr;  // (node_count)  out
};

/// grad_envelope[i] += 2 envelope[i] grad_degree[dst].
template <class Real>
struct EdgeDegreeBackwardArgs {
  EdgeSlice edges;
  const Real* envelope = nullptr;     // (count)
  const Real* grad_degree = nullptr;  // (n_owned)
  Real* grad_envelope = nullptr;      // (count)  +=
};

}  // namespace dpa4::kernels
