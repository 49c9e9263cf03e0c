// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/graph/edge_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace dpa4::graph {
namespace {

constexpr double kCutoff = 3.0;
constexpr int kMask = 0x1FFFFFFF;                  // as LAMMPS' NEIGHMASK
constexpr int kSpecialBits = ~kMask & 0x7FFFFFFF;  // bits LAMMPS may set above an atom number

/// A neighbor list with everything LAMMPS may hand over: entries in any order, atoms without a row,
/// images that fold on owned rows, copies of remote atoms, flag bits in neighbor numbers.
struct Problem {
  int n_owned = 0;
  int n_nodes = 0;
  std::vector<double> x;
  std::vector<int> row_of_atom, type_of_row;
  std::vector<int> ilist, numneigh;
  std::vector<std::vector<int>> lists;
  std::vector<const int*> firstneigh;

  NodeMap nodes() const {
    return {n_owned,
            n_nodes,
            {row_of_atom.data(), row_of_atom.size()},
            {type_of_row.data(), type_of_row.size()}};
  }
  PagedNeighborList list() const {
    return {static_cast<int>(ilist.size()), ilist.data(), numneigh.data(), firstneigh.data(),
            kMask};
  }
  TensorView<const double, 2> positions() const { return {x.data(), x.size() / 3, 3}; }
};

/// Each list names atoms at random, so that its length is free; 60 % of them are within the cutoff.
Problem random_problem(int n_local, int n_ghost, int n_listed, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  Problem problem;
  const int n_atoms = n_local + n_ghost;

  std::vector<int> local_row(n_local, -1);
  for (int i = 0; i < n_local; ++i) {
    if (i % 6 != 5) local_row[i] = problem.n_owned++;  // every sixth atom is of NULL type
  }
  problem.n_nodes = problem.n_owned;
  problem.row_of_atom = local_row;
  for (int i = 0; i < n_ghost; ++i) {
    const bool remote = i % 3 == 0 || n_local == 0;
    problem.row_of_atom.push_back(remote ? problem.n_nodes++ : local_row[engine() % n_local]);
  }
  for (int row = 0; row < problem.n_nodes; ++row) problem.type_of_row.push_back(engine() % 3);
  for (int k = 0; k < 3 * n_atoms; ++k) problem.x.push_back(2.9 * uniform(engine));

  problem.ilist.resize(n_local);
  std::iota(problem.ilist.begin(), problem.ilist.end(), 0);
  std::shuffle(problem.ilist.begin(), problem.ilist.end(), engine);
  problem.lists.resize(n_local);
  for (int k = 0; k < n_listed && n_local > 0; ++k) {
    const int flags = k % 4 == 0 ? kSpecialBits : 0;
    problem.lists[engine() % n_local].push_back(static_cast<int>(engine() % n_atoms) | flags);
  }
  for (const auto& list : problem.lists) {
    problem.numneigh.push_back(static_cast<int>(list.size()));
    problem.firstneigh.push_back(list.data());
  }
  return problem;
}

struct Edges {
  std::vector<int> src, dst, dst_begin, by_src, src_begin;
  std::vector<double> vec;

  bool operator==(const Edges& other) const {
    return src == other.src && dst == other.dst && dst_begin == other.dst_begin &&
           by_src == other.by_src && src_begin == other.src_begin &&
           vec.size() == other.vec.size() &&
           (vec.empty() ||
            std::memcmp(vec.data(), other.vec.data(), vec.size() * sizeof(double)) == 0);
  }
};

template <class T, int kRank>
std::vector<std::remove_const_t<T>> copy(TensorView<T, kRank> view) {
  return {view.data(), view.data() + view.size()};
}

Edges copy(const EdgeList& list) {
  return {copy(list.src),    copy(list.dst),       copy(list.dst_begin),
          copy(list.by_src), copy(list.src_begin), copy(list.vec)};
}

/// The definition of EdgeList, word by word.
Edges brute_force(const Problem& problem, const std::vector<std::pair<int, int>>& exclude_types) {
  Edges edges;
  for (int row = 0; row < problem.n_owned; ++row) {
    edges.dst_begin.push_back(static_cast<int>(edges.src.size()));
    const auto at = std::find(problem.row_of_atom.begin(), problem.row_of_atom.end(), row);
    const int i = static_cast<int>(at - problem.row_of_atom.begin());
    for (const int flagged : problem.lists[i]) {
      const int j = flagged & kMask;
      const int src = problem.row_of_atom[j];
      if (src < 0) continue;
      const int a = problem.type_of_row[row];
      const int b = problem.type_of_row[src];
      bool excluded = false;
      for (const auto& [p, q] : exclude_types) {
        if ((a == p && b == q) || (a == q && b == p)) excluded = true;
      }
      if (excluded) continue;
      double v[3];
      double squared = 0;
      for (int d = 0; d < 3; ++d) {
        v[d] = problem.x[3 * j + d] - problem.x[3 * i + d];
        squared += v[d] * v[d];
      }
      if (squared <= 1e-10 || squared > kCutoff * kCutoff) continue;
      edges.src.push_back(src);
      edges.dst.push_back(row);
      edges.vec.insert(edges.vec.end(), v, v + 3);
    }
  }
  const int n_edges = static_cast<int>(edges.src.size());
  edges.dst_begin.push_back(n_edges);
  for (int row = 0; row <= problem.n_nodes; ++row) {
    edges.src_begin.push_back(static_cast<int>(edges.by_src.size()));
    for (int e = 0; e < n_edges; ++e) {
      if (edges.src[e] == row) edges.by_src.push_back(e);
    }
  }
  return edges;
}

EdgeBuilder<base::Threads> make_builder(
    const std::vector<std::pair<int, int>>& exclude_types = {}) {
  return EdgeBuilder<base::Threads>({}, kCutoff, 3, exclude_types);
}

TEST(EdgeBuilder, MatchesBruteForceAtAnySizeInOneProcess) {
  EdgeBuilder<base::Threads> builder = make_builder({{0, 2}});
  // Sizes go up and down: nothing of an earlier call may survive.
  int n_edges_seen = 0;
  for (const int n_listed : {0, 1, 40, 9000, 33, 0, 3000, 20000, 5}) {
    const Problem problem = random_problem(20, 37, n_listed, n_listed);
    builder.rebuild(problem.list(), problem.nodes());
    const EdgeList list = builder.update(problem.positions());
    EXPECT_EQ(copy(list), brute_force(problem, {{0, 2}})) << n_listed << " listed pairs";
    EXPECT_EQ(list.n_owned, problem.n_owned);
    EXPECT_EQ(list.n_nodes, problem.n_nodes);
    n_edges_seen += list.n_edges();
  }
  EXPECT_GT(n_edges_seen, 5000) << "the problems must hold edges";
}

/// Exactly `n_edges` pairs are within the cutoff, more are listed.
class EdgeCount : public testing::TestWithParam<int> {};

TEST_P(EdgeCount, IsExact) {
  const int n_edges = GetParam();
  Problem problem;
  problem.n_owned = problem.n_nodes = 7;
  // Atoms 0-6 near the origin; 7-9 are their images, one inside and two outside the cutoff.
  for (int i = 0; i < 10; ++i) {
    const double along = i < 7 ? 0.1 * i : (i == 7 ? 2.0 : 50.0 * i);
    problem.x.insert(problem.x.end(), {along, 0.0, 0.0});
    problem.row_of_atom.push_back(i < 7 ? i : i - 7);
    if (i < 7) problem.ilist.push_back(i);
  }
  problem.type_of_row.assign(7, 0);
  problem.lists.resize(7);
  for (int k = 0; k < n_edges; ++k) {
    problem.lists[k % 7].push_back(7);
    problem.lists[(3 * k) % 7].push_back(8 + k % 2);
  }
  for (const auto& list : problem.lists) {
    problem.numneigh.push_back(static_cast<int>(list.size()));
    problem.firstneigh.push_back(list.data());
  }
  EdgeBuilder<base::Threads> builder = make_builder();
  builder.rebuild(problem.list(), problem.nodes());
  const EdgeList list = builder.update(problem.positions());
  EXPECT_EQ(list.n_edges(), n_edges);
  EXPECT_EQ(builder.n_candidates(), 2 * n_edges);
  EXPECT_EQ(copy(list), brute_force(problem, {}));
}

INSTANTIATE_TEST_SUITE_P(, EdgeCount, testing::Values(0, 1, 31, 32, 33, 4097),
                         [](const auto& info) { return std::to_string(info.param) + "_edges"; });

TEST(EdgeBuilder, RefiltersEveryStepWithoutAllocating) {
  Problem problem = random_problem(50, 80, 8000, 3);
  EdgeBuilder<base::Threads> builder = make_builder();
  builder.rebuild(problem.list(), problem.nodes());
  builder.update(problem.positions());

  std::mt19937 engine(5);
  std::normal_distribution<double> kick(0, 0.2);
  const std::int64_t bytes = builder.bytes();
  int n_changes = 0;
  int n_edges = 0;
  for (int step = 0; step < 10; ++step) {
    std::vector<double> start = problem.x;
    for (double& value : problem.x) value += kick(engine);
    const EdgeList list = builder.update(problem.positions());
    EXPECT_EQ(copy(list), brute_force(problem, {})) << "step " << step;
    EXPECT_EQ(builder.bytes(), bytes) << "step " << step;
    n_changes += list.n_edges() != n_edges;
    n_edges = list.n_edges();
    problem.x = start;
  }
  EXPECT_GT(n_changes, 5) << "the kicks must move pairs across the cutoff";
}

/// The edges of a padded list; what follows them must belong to no row and stand for itself.
Edges without_padding(const EdgeList& padded, int n_edges) {
  EXPECT_EQ(padded.dst_begin(padded.n_owned), n_edges);
  EXPECT_EQ(padded.src_begin(padded.n_nodes), n_edges);
  for (int e = n_edges; e < padded.n_edges(); ++e) {
    EXPECT_EQ(padded.src(e), 0);
    EXPECT_EQ(padded.dst(e), 0);
    EXPECT_EQ(padded.by_src(e), e);
    EXPECT_EQ(padded.vec(e, 0), kCutoff);
    EXPECT_EQ(padded.vec(e, 1), 0);
    EXPECT_EQ(padded.vec(e, 2), 0);
  }
  EdgeList edges = padded;
  edges.src = {padded.src.data(), n_edges};
  edges.dst = {padded.dst.data(), n_edges};
  edges.vec = {padded.vec.data(), n_edges, 3};
  edges.by_src = {padded.by_src.data(), n_edges};
  return copy(edges);
}

/// No index may lead out of a list that had too little room: the model works on it before anybody
/// knows.
void expect_safe(const EdgeList& list) {
  const int size = list.n_edges();
  std::vector<int> seen(size, 0);
  for (int e = 0; e < size; ++e) {
    ASSERT_TRUE(list.src(e) >= 0 && list.src(e) < list.n_nodes);
    ASSERT_TRUE(list.dst(e) >= 0 && list.dst(e) < list.n_owned);
    ASSERT_TRUE(list.by_src(e) >= 0 && list.by_src(e) < size);
    EXPECT_EQ(seen[list.by_src(e)]++, 0) << "by_src is a permutation";
  }
  const auto expect_begins = [size](const TensorView<const int, 1>& begin, int n) {
    EXPECT_EQ(begin(0), 0);
    for (int row = 0; row < n; ++row) EXPECT_LE(begin(row), begin(row + 1));
    EXPECT_LE(begin(n), size);
  };
  expect_begins(list.dst_begin, list.n_owned);
  expect_begins(list.src_begin, list.n_nodes);
}

TEST(EdgeBuilder, PaddedListsHoldTheSameEdgesWhileTheirNumberComesAndGoes) {
  Problem problem = random_problem(50, 80, 8000, 3);
  EdgeBuilder<base::Threads> builder = make_builder();
  builder.rebuild(problem.list(), problem.nodes());
  const std::vector<double> start = problem.x;
  int n_repeats = 0, n_empty = 0;
  // Scaled by a large number no pair is left.
  for (const double scale : {1e3, 1.0, 1.02, 1.3, 1e3, 1e3, 1.3, 0.5, 1.0, 1.001, 1e3, 1.0}) {
    for (std::size_t k = 0; k < start.size(); ++k) problem.x[k] = scale * start[k];
    const Edges expected = brute_force(problem, {});
    const int n_expected = static_cast<int>(expected.src.size());
    n_empty += n_expected == 0;
    EdgeList list = builder.update_padded(problem.positions());
    EXPECT_EQ(*builder.n_edges(), n_expected);
    const bool has_room = n_expected <= list.n_edges();
    if (!has_room) expect_safe(list);
    if (!builder.fits(*builder.n_edges())) {
      EXPECT_FALSE(has_room);
      ++n_repeats;
      list = builder.update_padded(problem.positions());
      ASSERT_TRUE(builder.fits(*builder.n_edges()));
    }
    EXPECT_EQ(without_padding(list, n_expected), expected) << "scale " << scale;
    EXPECT_LE(list.n_edges(), 8000 + 2 * 64 + 8000 / 16);
  }
  EXPECT_EQ(n_empty, 4);
  EXPECT_GE(n_repeats, 2) << "the number of edges must outgrow the room";
}

TEST(EdgeBuilder, PaddedListsKeepTheirSizeAndPlaceWhileTheNumberOfEdgesVaries) {
  Problem problem = random_problem(50, 80, 8000, 3);
  EdgeBuilder<base::Threads> builder = make_builder();
  builder.rebuild(problem.list(), problem.nodes());
  const std::vector<double> start = problem.x;
  const auto update = [&](double scale) {
    for (std::size_t k = 0; k < start.size(); ++k) problem.x[k] = scale * start[k];
    const EdgeList list = builder.update_padded(problem.positions());
    EXPECT_TRUE(builder.fits(*builder.n_edges()));
    return list;
  };
  const EdgeList first = update(1.0);
  const int n_first = *builder.n_edges();
  int n_changes = 0;
  for (const double scale : {1.003, 0.997, 1.0, 1.0015}) {
    const EdgeList list = update(scale);
    n_changes += *builder.n_edges() != n_first;
    EXPECT_EQ(list.n_edges(), first.n_edges());
    EXPECT_EQ(list.vec.data(), first.vec.data());
    EXPECT_EQ(list.by_src.data(), first.by_src.data());
  }
  EXPECT_GE(n_changes, 2) << "pairs must cross the cutoff";
  // A system that has lost most of its edges does not carry their room along.
  update(2.0);
  const EdgeList small = update(2.0);
  EXPECT_LE(small.n_edges(), *builder.n_edges() + 2 * 64 + *builder.n_edges() / 16);
  EXPECT_LT(small.n_edges(), first.n_edges() / 2);
}

TEST(EdgeBuilder, GivesTheSameBitsForAnyNumberOfThreads) {
  const Problem problem = random_problem(300, 500, 60000, 11);
  const int threads = omp_get_max_threads();
  std::vector<Edges> results;
  for (const int n : {1, 2, 3}) {
    omp_set_num_threads(n);
    EdgeBuilder<base::Threads> builder = make_builder({{1, 1}});
    builder.rebuild(problem.list(), problem.nodes());
    results.push_back(copy(builder.update(problem.positions())));
  }
  omp_set_num_threads(threads);
  EXPECT_GT(results[0].src.size(), 10000u);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(EdgeBuilder, ByPositionDoesNotDependOnTheOrderOfTheLists) {
  Problem problem = random_problem(40, 70, 6000, 12);
  const std::vector<std::pair<int, int>> excluded{{0, 2}};
  const auto by_position = [&] {
    EdgeBuilder<base::Threads> builder = make_builder(excluded);
    builder.rebuild(problem.list(), problem.nodes(), problem.positions());
    return copy(builder.update(problem.positions()));
  };
  const auto as_listed = [&] {
    EdgeBuilder<base::Threads> builder = make_builder(excluded);
    builder.rebuild(problem.list(), problem.nodes());
    return copy(builder.update(problem.positions()));
  };
  const Edges sorted = by_position();
  const Edges listed = as_listed();
  std::mt19937 engine(13);
  for (auto& list : problem.lists) std::shuffle(list.begin(), list.end(), engine);
  EXPECT_EQ(by_position(), sorted);
  EXPECT_FALSE(as_listed() == listed);
  // What sorted lists give as they are.
  const auto place = [&](int listed_atom) {
    const double* const x = problem.x.data() + 3 * (listed_atom & kMask);
    return std::array<double, 3>{x[0], x[1], x[2]};
  };
  for (auto& list : problem.lists) {
    std::sort(list.begin(), list.end(), [&](int a, int b) { return place(a) < place(b); });
  }
  EXPECT_EQ(sorted, brute_force(problem, excluded));
}

/// Two owned atoms at a given separation along x, listed as each other's neighbor.
int n_edges_at(double distance) {
  Problem problem;
  problem.n_owned = problem.n_nodes = 2;
  problem.x = {0, 0, 0, distance, 0, 0};
  problem.row_of_atom = {0, 1};
  problem.type_of_row = {0, 0};
  problem.ilist = {0, 1};
  problem.lists = {{1}, {0}};
  problem.numneigh = {1, 1};
  problem.firstneigh = {problem.lists[0].data(), problem.lists[1].data()};
  EdgeBuilder<base::Threads> builder = make_builder();
  builder.rebuild(problem.list(), problem.nodes());
  return builder.update(problem.positions()).n_edges();
}

TEST(EdgeBuilder, KeepsAPairAtExactlyTheCutoff) {
  EXPECT_EQ(n_edges_at(kCutoff), 2);
  EXPECT_EQ(n_edges_at(kCutoff - 1e-12), 2);
  EXPECT_EQ(n_edges_at(kCutoff + 1e-12), 0);
}

TEST(EdgeBuilder, DropsCoincidentAtoms) {
  EXPECT_EQ(n_edges_at(0), 0);
  EXPECT_EQ(n_edges_at(0.999e-5), 0);
  EXPECT_EQ(n_edges_at(1.001e-5), 2);
}

TEST(EdgeBuilder, DropsPairsWithoutAFinitePosition) {
  EXPECT_EQ(n_edges_at(std::nan("")), 0);
  EXPECT_EQ(n_edges_at(INFINITY), 0);
}

TEST(EdgeBuilder, VectorsPointFromCenterToNeighborAndUseTheImage) {
  // Atom 0 is owned; atom 1 is its own image, 2 Angstrom away along y.
  Problem problem;
  problem.n_owned = problem.n_nodes = 1;
  problem.x = {1, 1, 1, 1, 3, 1};
  problem.row_of_atom = {0, 0};
  problem.type_of_row = {0};
  problem.ilist = {0};
  problem.lists = {{1}};
  problem.numneigh = {1};
  problem.firstneigh = {problem.lists[0].data()};
  EdgeBuilder<base::Threads> builder = make_builder();
  builder.rebuild(problem.list(), problem.nodes());
  const EdgeList list = builder.update(problem.positions());
  ASSERT_EQ(list.n_edges(), 1);
  EXPECT_EQ(list.src(0), 0);
  EXPECT_EQ(list.dst(0), 0);
  EXPECT_EQ(copy(list.vec), (std::vector<double>{0, 2, 0}));
}

TEST(EdgeBuilder, RefusesMorePairsThanAnIntCounts) {
  // A list type that claims huge counts; the builder must refuse before it allocates.
  struct HugeList {
    int size() const { return 2; }
    int center(int entry) const { return entry; }
    int count(int) const { return 1 << 30; }
    int neighbor(int, int) const { return 1; }
  };
  Problem problem;
  problem.row_of_atom = {0, 1, 2};
  problem.type_of_row = {0, 0, 0};
  problem.n_owned = problem.n_nodes = 3;
  EdgeBuilder<base::Threads> builder = make_builder();
  try {
    builder.rebuild(HugeList{}, problem.nodes());
    FAIL() << "2^31 pairs do not fit an int";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("2147483648 neighbor pairs"), std::string::npos)
        << error.what();
  }
  const std::vector<double> x(9, 0.0);
  EXPECT_THROW(builder.update(TensorView<const double, 2>(x.data(), 3, 3)), InternalError)
      << "after a failed rebuild there is no list to update";
}

}  // namespace
}  // namespace dpa4::graph
