// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"
#include "src/base/host_device.h"

namespace dpa4::kernels {

/// Whole nodes one after another, cut into groups of at most `limit` edges (a node with more is
/// alone) and at most `limit` nodes: hardly more groups than needed, and of like size, for a small
/// one leaves most of a device idle.
struct NodeCuts {
  const int* begin = nullptr;  // (n_nodes + 1)  first edge of each node
  int n_nodes = 0;
  int limit = 1;
};

/// Writes cuts in a row from group number `group` on, which begins with node `first`: pairs of the
/// first node of a group and its first edge; behind the last group (n_nodes, begin[n_nodes]).
template <class Real>
struct CutNodesArgs {
  NodeCuts nodes;
  int first = 0;
  int group = 0;
  int count = 0;
  int* cuts = nullptr;  // (count, 2)  out
};

// Every source file gets code of its own: what is compiled for one instruction set must not be
// shared with others.
namespace {

/// The end of group number `group`, which begins with node `first`.
DPA4_HD inline int next_cut(const NodeCuts& nodes, int first, int group) {
  const int* const begin = nodes.begin;
  const std::int64_t edges = begin[nodes.n_nodes] - begin[0];
  const std::int64_t parts = (edges + nodes.limit - 1) / nodes.limit;
  const std::int64_t number = group + std::int64_t{1};
  const std::int64_t part_end = number < parts ? edges * number / parts : edges + 1;
  // The smallest n > first for which one more node would be too many.
  int low = first + 1, high = nodes.n_nodes;
  while (low < high) {
    const int n = low + (high - low) / 2;
    const bool full = begin[n + 1] - begin[first] > nodes.limit || n - first >= nodes.limit ||
                      begin[n] - begin[0] >= part_end;
    if (full) {
      high = n;
    } else {
      low = n + 1;
    }
  }
  return low;
}

template <class Real>
DPA4_HD inline void write_cuts(const CutNodesArgs<Real>& args) {
  int first = args.first;
  for (int i = 0; i < args.count; ++i) {
    args.cuts[2 * i] = first;
    args.cuts[2 * i + 1] = args.nodes.begin[first];
    if (first < args.nodes.n_nodes) first = next_cut(args.nodes, first, args.group + i);
  }
}

}  // namespace

/// Puts edges behind the lists of a step that belong to no node: from node 0 to itself, as long as
/// the cutoff, where no sum sees them.
template <class Real>
struct PadEdgesArgs {
  int first = 0;
  int count = 0;
  double length = 0;
  int* src = nullptr;     // (first + count)
  int* dst = nullptr;     // (first + count)
  int* by_src = nullptr;  // (first + count)
  double* vec = nullptr;  // (first + count, 3)
};

/// Where the mixing stacks of edges are kept: row[by_src[p]] = p for p < n_kept, else -1.
template <class Real>
struct KeptRowsArgs {
  int count = 0;
  int n_kept = 0;
  const int* by_src = nullptr;  // (count) a permutation
  int* row = nullptr;           // (count)  out
};

}  // namespace dpa4::kernels
