// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/assembly.h"

#include "src/base/error.h"

namespace dpa4::model {
namespace {

/// rows[node] = sum over the node's edges as destination plus sum over its edges as source, each in
/// order.
template <int kWidth, class ToDst, class ToSrc>
std::vector<double> sum_over_edges(const graph::EdgeList& edges, ToDst to_dst, ToSrc to_src) {
  std::vector<double> rows(static_cast<std::size_t>(edges.n_nodes) * kWidth, 0.0);
#pragma omp parallel for schedule(static)
  for (int node = 0; node < edges.n_nodes; ++node) {
    double* row = rows.data() + static_cast<std::size_t>(node) * kWidth;
    if (node < edges.n_owned) {
      for (int e = edges.dst_begin(node); e < edges.dst_begin(node + 1); ++e) to_dst(e, row);
    }
    for (int k = edges.src_begin(node); k < edges.src_begin(node + 1); ++k)
      to_src(edges.by_src(k), row);
  }
  return rows;
}

void send_home(HaloExchange& halo, const graph::EdgeList& edges, int width,
               std::vector<double>& rows) {
  if (halo.active()) {
    halo.reverse({rows.data(), edges.n_nodes, width, NodeRows::Type::kFloat64,
                  NodeRows::Space::kHost, nullptr});
  }
  rows.resize(static_cast<std::size_t>(edges.n_owned) * static_cast<std::size_t>(width));
}

}  // namespace

void assemble_forces(const graph::EdgeList& edges, TensorView<const double, 2> grad_vec,
                     HaloExchange& halo, Request request, Evaluation& result) {
  DPA4_EXPECTS(grad_vec.extent(0) == edges.n_edges());
  result.force = sum_over_edges<3>(
      edges,
      [&](int e, double* row) {
        for (int a = 0; a < 3; ++a) row[a] += grad_vec(e, a);
      },
      [&](int e, double* row) {
        for (int a = 0; a < 3; ++a) row[a] -= grad_vec(e, a);
      });
  send_home(halo, edges, 3, result.force);

  result.virial.fill(0.0);
  for (int e = 0; e < edges.n_edges(); ++e)
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b)
        result.virial[static_cast<std::size_t>(3 * a + b)] -= grad_vec(e, a) * edges.vec(e, b);

  result.atom_virial.clear();
  if (!request.atom_virial) return;
  const auto half_virial = [&](int e, double* row) {
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) row[3 * a + b] -= 0.5 * grad_vec(e, a) * edges.vec(e, b);
  };
  result.atom_virial = sum_over_edges<9>(edges, half_virial, half_virial);
  send_home(halo, edges, 9, result.atom_virial);
}

}  // namespace dpa4::model
