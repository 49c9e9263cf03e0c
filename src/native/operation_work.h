// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/kernel_table.h"

namespace dpa4::native {

/// Arithmetic and traffic of one call of an operation by its formula: every array read and written
/// once, node rows that many edges read counted once an edge's side they belong to.
struct Work {
  double flops = 0;
  double bytes = 0;
};

/// Operations without an overload below are not counted.
template <class Args>
Work work_of(const Args&) {
  return {};
}

template <class Real>
Work work_of(const kernels::GemmArgs<Real>& a) {
  const double rows = static_cast<double>(a.m) * a.batch;
  return {2 * rows * a.n * a.k, sizeof(Real) * rows * (a.k + (a.accumulate ? 2.0 : 1.0) * a.n)};
}

/// Arithmetic of the mixing stack for one edge: products of all focus streams and their gates.
inline double stack_flops(const kernels::MessageShape& shape, int n_layers) {
  const double m0 = (shape.lmax + 1.0) * shape.width, m1 = 2.0 * shape.lmax * shape.width;
  const double gate = static_cast<double>(shape.lmax) * shape.width * shape.width;
  return 2.0 * shape.n_focus * (n_layers * (m0 * m0 + m1 * m1) + (n_layers - 1) * gate);
}
/// Elements of an edge in all focus streams.
inline double stack_row(const kernels::MessageShape& shape) {
  return static_cast<double>(shape.n_focus) * shape.row_size();
}

template <class Real>
Work work_of(const kernels::So2StackArgs<Real>& a) {
  const double planes = a.kept != nullptr ? a.n_layers - 1 + (a.keep_result ? 1 : 0) : 0;
  return {a.count * stack_flops(a.shape, a.n_layers),
          sizeof(Real) * a.count * stack_row(a.shape) * (2 + planes)};
}
template <class Real>
Work work_of(const kernels::So2StackBackwardArgs<Real>& a) {
  return {a.count * stack_flops(a.shape, a.n_layers),
          sizeof(Real) * a.count * stack_row(a.shape) * (1 + a.n_layers)};
}

template <class Real>
Work work_of(const kernels::GridProductArgs<Real>& a) {
  const kernels::GridShape& s = a.shape;
  const double fields = static_cast<double>(s.width) * s.n_branches;
  const double pair = static_cast<double>(s.n_points) * s.n_coefficients;
  return {a.count * 2.0 * pair * (2 * fields + s.width),
          sizeof(Real) * static_cast<double>(a.count) * s.n_coefficients * (2 * fields + s.width)};
}
template <class Real>
Work work_of(const kernels::GridProductBackwardArgs<Real>& a) {
  const kernels::GridShape& s = a.shape;
  const double fields = static_cast<double>(s.width) * s.n_branches;
  const double pair = static_cast<double>(s.n_points) * s.n_coefficients;
  return {a.count * 2.0 * pair * (4 * fields + s.width),
          sizeof(Real) * static_cast<double>(a.count) * s.n_coefficients * (4 * fields + s.width)};
}

/// Arithmetic of turning and mixing one edge.
inline double rotate_flops(const kernels::MessageShape& shape) {
  return 2.0 * kernels::wigner_size(shape.lmax) * shape.hidden();
}
inline double mix_flops(const kernels::MessageShape& shape) {
  if (shape.mixing == kernels::RadialMixing::kScale) return stack_row(shape);
  const double l = shape.lmax;
  return 2.0 * shape.rank * ((l + 1) * (l + 1) + 2 * l * l) * shape.hidden();
}
inline double edge_inputs(const kernels::MessageShape& shape) {
  return kernels::wigner_size(shape.lmax) + shape.radial_size();
}
/// A row of node features for each node of a slice.
inline double node_elements(const kernels::EdgeSlice& edges, const kernels::MessageShape& shape) {
  return static_cast<double>(edges.node_count) * shape.full_rows() * shape.hidden();
}

template <class Real>
Work work_of(const kernels::RotateMixArgs<Real>& a) {
  return {a.edges.count * (rotate_flops(a.shape) + mix_flops(a.shape)),
          sizeof(Real) * (a.edges.count * (stack_row(a.shape) + edge_inputs(a.shape)) +
                          node_elements(a.edges, a.shape))};
}
template <class Real>
Work work_of(const kernels::RotateMixBackwardArgs<Real>& a) {
  return {a.edges.count * 2 * (rotate_flops(a.shape) + mix_flops(a.shape)),
          sizeof(Real) * (a.edges.count * (stack_row(a.shape) + edge_inputs(a.shape) +
                                           a.shape.radial_size() + 6) +
                          3 * node_elements(a.edges, a.shape))};
}
template <class Real>
Work work_of(const kernels::RotateBackSumArgs<Real>& a) {
  return {
      a.edges.count * (rotate_flops(a.shape) + 2.0 * a.shape.full_rows() * a.shape.hidden()),
      sizeof(Real) * (a.edges.count * (stack_row(a.shape) + kernels::wigner_size(a.shape.lmax)) +
                      2 * node_elements(a.edges, a.shape))};
}
template <class Real>
Work work_of(const kernels::RotateBackSumBackwardArgs<Real>& a) {
  return {
      a.edges.count * (2 * rotate_flops(a.shape) + 8.0 * a.shape.full_rows() * a.shape.hidden()),
      sizeof(Real) *
          (a.edges.count * (2 * stack_row(a.shape) + kernels::wigner_size(a.shape.lmax) + 6) +
           node_elements(a.edges, a.shape))};
}

template <class Real>
Work work_of(const kernels::So3NormArgs<Real>& a) {
  const double elements = static_cast<double>(a.n_nodes) * (a.lmax + 1) * (a.lmax + 1) * a.channels;
  return {5 * elements, sizeof(Real) * 2 * elements};
}
template <class Real>
Work work_of(const kernels::So3NormBackwardArgs<Real>& a) {
  const double elements = static_cast<double>(a.n_nodes) * (a.lmax + 1) * (a.lmax + 1) * a.channels;
  return {9 * elements, sizeof(Real) * (a.accumulate ? 4 : 3) * elements};
}
template <class Real>
Work work_of(const kernels::RowsArgs<Real>& a) {
  return {0, sizeof(Real) * static_cast<double>(a.rows) * a.width * (a.accumulate ? 3 : 2)};
}

}  // namespace dpa4::native
