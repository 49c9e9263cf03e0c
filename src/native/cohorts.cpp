// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/cohorts.h"

#include <algorithm>

#include "src/base/error.h"

namespace dpa4::native {

void Cohorts::build(const int* begin, int n_nodes, int limit) {
  DPA4_EXPECTS(limit >= 1);
  cohorts_.clear();
  groups_.clear();
  int node_first = 0;
  for (int n = 0; n < n_nodes; ++n) {
    // A group also ends after `limit` nodes, so that nodes without edges are spread as well.
    const bool full =
        n > node_first && (begin[n + 1] - begin[node_first] > limit || n - node_first >= limit);
    if (full) {
      close_group(begin, node_first, n, limit);
      node_first = n;
    }
  }
  if (n_nodes > node_first) close_group(begin, node_first, n_nodes, limit);
}

void Cohorts::pad(int count) {
  DPA4_EXPECTS(cohorts_.size() == 1 && count >= cohorts_[0].count);
  cohorts_[0].count = count;
}

void Cohorts::close_group(const int* begin, int node_first, int node_end, int limit) {
  const int first = begin[node_first], last = begin[node_end];
  Group group;
  group.cohort_first = static_cast<int>(cohorts_.size());
  group.node_first = node_first;
  group.node_count = node_end - node_first;
  int at = first;
  do {
    const int count = std::min(limit, last - at);
    cohorts_.push_back({at, count, node_first, node_end - node_first});
    at += count;
  } while (at < last);
  group.cohort_count = static_cast<int>(cohorts_.size()) - group.cohort_first;
  groups_.push_back(group);
}

}  // namespace dpa4::native
