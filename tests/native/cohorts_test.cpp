// SPDX-License-Identifier: GPL-2.0-or-later
// How nodes are cut into groups and groups into cohorts.
#include "src/native/cohorts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace dpa4::native {
namespace {

/// CSR array of nodes with 0 to `most` edges; every tenth node has none, the last `bare` neither.
std::vector<int> random_begins(int n_nodes, int most, int bare, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> begin{0};
  for (int n = 0; n < n_nodes; ++n) {
    const bool none = n % 10 == 9 || n >= n_nodes - bare;
    const int count = none ? 0 : static_cast<int>(random() % static_cast<unsigned>(most + 1));
    begin.push_back(begin.back() + count);
  }
  return begin;
}

/// All rules that hold whatever the edges are.
void expect_whole(const Cohorts& cohorts, const std::vector<int>& begin, int limit) {
  const auto& parts = cohorts.cohorts();
  const auto& groups = cohorts.groups();
  int node = 0, edge = 0, cohort = 0;
  for (const Group& group : groups) {
    ASSERT_EQ(group.node_first, node);
    ASSERT_EQ(group.cohort_first, cohort);
    ASSERT_GE(group.node_count, 1);
    ASSERT_LE(group.node_count, limit);
    ASSERT_TRUE(group.cohort_count == 1 || group.node_count == 1);
    for (int i = 0; i < group.cohort_count; ++i, ++cohort) {
      const Cohort& part = parts[static_cast<std::size_t>(cohort)];
      ASSERT_EQ(part.first, edge);
      ASSERT_LE(part.count, limit);
      ASSERT_EQ(part.node_first, group.node_first);
      ASSERT_EQ(part.node_count, group.node_count);
      edge += part.count;
    }
    node += group.node_count;
    ASSERT_EQ(edge, begin[static_cast<std::size_t>(node)]);
  }
  ASSERT_EQ(node, static_cast<int>(begin.size()) - 1);
  ASSERT_EQ(cohort, static_cast<int>(parts.size()));
}

TEST(Cohorts, EveryNodeAndEdgeIsInOne) {
  for (const int most : {0, 1, 9, 80}) {
    for (const int bare : {0, 1, 40}) {
      const std::vector<int> begin = random_begins(300, most, bare, 1);
      for (const int limit : {1, 2, 37, 64, 1000, 100000}) {
        SCOPED_TRACE(std::to_string(most) + " edges, " + std::to_string(bare) + " bare, limit " +
                     std::to_string(limit));
        Cohorts cohorts;
        cohorts.build({begin.data(), 300, limit});
        expect_whole(cohorts, begin, limit);
      }
    }
  }
}

TEST(Cohorts, AreFewAndOfLikeSize) {
  constexpr int kNodes = 4000, kMost = 60;
  const std::vector<int> begin = random_begins(kNodes, kMost, 100, 2);
  for (const int limit : {5000, 17000, 40000, 60000, 120000}) {
    SCOPED_TRACE(limit);
    Cohorts cohorts;
    cohorts.build({begin.data(), kNodes, limit});
    const int parts = (begin.back() + limit - 1) / limit;
    // One more where whole nodes leave too much room.
    ASSERT_LE(static_cast<int>(cohorts.groups().size()), parts + 1);
    if (static_cast<int>(cohorts.groups().size()) > parts) continue;
    for (const Cohort& cohort : cohorts.cohorts()) {
      EXPECT_NEAR(cohort.count, begin.back() / parts, 2 * kMost);
    }
  }
}

TEST(Cohorts, GrowGroupByGroup) {
  const std::vector<int> begin = random_begins(100, 30, 5, 3);
  Cohorts whole, grown;
  whole.build({begin.data(), 100, 50});
  grown.clear(50);
  for (const Group& group : whole.groups()) {
    const int end = group.node_first + group.node_count;
    grown.add_group({group.node_first, begin[static_cast<std::size_t>(group.node_first)]},
                    {end, begin[static_cast<std::size_t>(end)]});
  }
  EXPECT_EQ(grown.cohorts(), whole.cohorts());
  expect_whole(grown, begin, 50);
}

TEST(Cohorts, NoNodesAreNoGroups) {
  const int begin = 0;
  Cohorts cohorts;
  cohorts.build({&begin, 0, 8});
  EXPECT_TRUE(cohorts.groups().empty());
  EXPECT_TRUE(cohorts.cohorts().empty());
}

}  // namespace
}  // namespace dpa4::native
