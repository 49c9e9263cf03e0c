// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/base/tensor_view.h"

namespace dpa4::graph {

/// The directed edges of one rank: views only, the storage belongs to whoever built it.
///
/// An edge runs from a neighbor (`src`, any node) to a center (`dst`, an owned node); both
/// directions of a pair of owned atoms are present, and an atom may be its own neighbor through a
/// periodic image.
///
///   vec[e] = x[src[e]] - x[dst[e]]     [Angstrom], 1e-10 < |vec|^2 <= rcut^2
///
/// Nodes [0, n_owned) are the rank's own atoms, [n_owned, n_nodes) copies of atoms of other ranks.
/// Edges are sorted by dst; `by_src` lists the same edges sorted by src, ties in edge order.
///
/// Padding: where its reader allows it, more edges follow behind those of the last row, so that the
/// size of a list need not change with the number of its edges. They belong to no row, run from
/// node 0 to itself, are as long as the cutoff and in `by_src` stand for themselves.
struct EdgeList {
  int n_owned = 0;
  int n_nodes = 0;
  TensorView<const int, 1> src;     // (E)            in [0, n_nodes)
  TensorView<const int, 1> dst;     // (E)            in [0, n_owned), ascending
  TensorView<const double, 2> vec;  // (E, 3)         [Angstrom]
  TensorView<const int, 1>
      dst_begin;  // (n_owned + 1)  edges of center i: [dst_begin(i), dst_begin(i + 1))
  TensorView<const int, 1> by_src;     // (E)            edge numbers, ascending in src
  TensorView<const int, 1> src_begin;  // (n_nodes + 1)  into by_src

  int n_edges() const { return src.extent(0); }
};

}  // namespace dpa4::graph
