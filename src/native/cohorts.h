// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "kernels/api/edge_lists.h"

namespace dpa4::native {

/// Edges that are worked on at once: positions [first, first + count) of an order of the edges,
/// which belong to the nodes [node_first, node_first + node_count).
struct Cohort {
  int first = 0;
  int count = 0;
  int node_first = 0;
  int node_count = 0;

  bool operator==(const Cohort&) const = default;
};

/// Whole nodes: one cohort, or several in a row where a single node has more edges than a cohort
/// may have. Nodes of different groups are different, so groups may run at the same time.
struct Group {
  int cohort_first = 0;
  int cohort_count = 0;
  int node_first = 0;
  int node_count = 0;
};

/// A place between two nodes: the first node and the first edge behind it.
struct Cut {
  int node = 0;
  int edge = 0;
};

/// The edges of all nodes in groups and cohorts of at most `limit` edges. Every node is in exactly
/// one group, also without edges.
class Cohorts {
 public:
  /// All groups, from a CSR array that the host can read.
  void build(const kernels::NodeCuts& nodes);

  /// The same group by group, where only the cuts are known.
  void clear(int limit);
  void add_group(const Cut& first, const Cut& end);

  /// Where all edges are one cohort: makes it one of `count` edges. The edges that come on top
  /// belong to no node.
  void pad(int count);

  const std::vector<Cohort>& cohorts() const { return cohorts_; }
  const std::vector<Group>& groups() const { return groups_; }

 private:
  int limit_ = 1;
  std::vector<Cohort> cohorts_;
  std::vector<Group> groups_;
};

}  // namespace dpa4::native
