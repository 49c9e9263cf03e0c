// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/cohorts.h"

#include <algorithm>

#include "src/base/error.h"

namespace dpa4::native {

void Cohorts::clear(int limit) {
  DPA4_EXPECTS(limit >= 1);
  limit_ = limit;
  cohorts_.clear();
  groups_.clear();
}

void Cohorts::build(const kernels::NodeCuts& nodes) {
  clear(nodes.limit);
  for (int first = 0; first < nodes.n_nodes;) {
    const int end = kernels::next_cut(nodes, first, static_cast<int>(groups_.size()));
    add_group({first, nodes.begin[first]}, {end, nodes.begin[end]});
    first = end;
  }
}

void Cohorts::add_group(const Cut& first, const Cut& end) {
  Group group;
  group.cohort_first = static_cast<int>(cohorts_.size());
  group.node_first = first.node;
  group.node_count = end.node - first.node;
  int at = first.edge;
  do {
    const int count = std::min(limit_, end.edge - at);
    cohorts_.push_back({at, count, first.node, group.node_count});
    at += count;
  } while (at < end.edge);
  group.cohort_count = static_cast<int>(cohorts_.size()) - group.cohort_first;
  groups_.push_back(group);
}

void Cohorts::pad(int count) {
  DPA4_EXPECTS(cohorts_.size() == 1 && count >= cohorts_[0].count);
  cohorts_[0].count = count;
}

}  // namespace dpa4::native
