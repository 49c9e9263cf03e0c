// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/graph/periodic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/error.h"

namespace dpa4::graph {
namespace {

struct Structure {
  std::string name;
  Cell cell;
  std::vector<double> x;
  std::vector<int> type;

  TensorView<const double, 2> positions() const { return {x.data(), type.size(), 3}; }
  TensorView<const int, 1> types() const { return {type.data(), type.size()}; }
};

/// An edge without its place in the list, for comparison by content.
struct Edge {
  int src, dst;
  std::array<double, 3> vec;
};

std::vector<Edge> sorted(std::vector<Edge> edges) {
  // Rounding may change the last bits of a vector but not, to 1e-6, its place in this order.
  const auto key = [](const Edge& e) {
    return std::make_tuple(e.dst, e.src, std::llround(e.vec[0] * 1e6), std::llround(e.vec[1] * 1e6),
                           std::llround(e.vec[2] * 1e6));
  };
  std::sort(edges.begin(), edges.end(),
            [&key](const Edge& a, const Edge& b) { return key(a) < key(b); });
  return edges;
}

std::vector<Edge> edges_of(const EdgeList& list) {
  std::vector<Edge> edges;
  for (int e = 0; e < list.n_edges(); ++e) {
    edges.push_back({list.src(e), list.dst(e), {list.vec(e, 0), list.vec(e, 1), list.vec(e, 2)}});
  }
  return edges;
}

/// Every image up to a fixed number of cells away, by six nested loops.
std::vector<Edge> brute_force(const Structure& s, double rcut, int n_images) {
  std::vector<Edge> edges;
  const int n = static_cast<int>(s.type.size());
  int reach[3];
  for (int d = 0; d < 3; ++d) reach[d] = s.cell.periodic[d] ? n_images : 0;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int a = -reach[0]; a <= reach[0]; ++a) {
        for (int b = -reach[1]; b <= reach[1]; ++b) {
          for (int c = -reach[2]; c <= reach[2]; ++c) {
            std::array<double, 3> v{};
            double squared = 0;
            for (int d = 0; d < 3; ++d) {
              v[d] = s.x[3 * j + d] - s.x[3 * i + d] + a * s.cell.vectors[0][d] +
                     b * s.cell.vectors[1][d] + c * s.cell.vectors[2][d];
              squared += v[d] * v[d];
            }
            if (squared > 1e-10 && squared <= rcut * rcut) edges.push_back({j, i, v});
          }
        }
      }
    }
  }
  return edges;
}

std::array<std::array<double, 3>, 3> triclinic(double length) {
  return {{{length, 0.02 * length, 0},
           {0.31 * length, 1.1 * length, -0.05 * length},
           {-0.27 * length, 0.35 * length, 0.9 * length}}};
}

/// Atoms inside the cell and up to `spread` cells beside it.
Structure random_structure(const std::string& name, const Cell& cell, int n, double spread,
                           unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-spread, 1 + spread);
  Structure s{name, cell, {}, {}};
  for (int i = 0; i < n; ++i) {
    const double f[3] = {uniform(engine), uniform(engine), uniform(engine)};
    for (int d = 0; d < 3; ++d) {
      double value = 0;
      for (int k = 0; k < 3; ++k) value += f[k] * cell.vectors[k][d];
      s.x.push_back(value);
    }
    s.type.push_back(i % 2);
  }
  return s;
}

/// Atoms on faces, edges and corners of the cell, where rounding decides on which side they are.
Structure structure_on_faces(const Cell& cell) {
  Structure s{"on_the_faces", cell, {}, {}};
  const double fractions[][3] = {
      {0, 0, 0}, {1, 0.5, 0.5}, {0.5, -1e-17, 0.25}, {0.3, 0.3, 1 - 1e-16}};
  for (const auto& f : fractions) {
    for (int d = 0; d < 3; ++d) {
      s.x.push_back(f[0] * cell.vectors[0][d] + f[1] * cell.vectors[1][d] +
                    f[2] * cell.vectors[2][d]);
    }
    s.type.push_back(0);
  }
  return s;
}

Cell cell_of(const std::array<std::array<double, 3>, 3>& vectors, bool a, bool b, bool c) {
  return {vectors, {a, b, c}};
}

class AgainstBruteForce : public testing::TestWithParam<Structure> {};

TEST_P(AgainstBruteForce, FindsEveryEdgeOnce) {
  const Structure& s = GetParam();
  const double rcut = 4.5;
  PeriodicGraph graph(rcut, 2);
  const EdgeList list = graph.build(s.positions(), s.types(), s.cell);
  const std::vector<Edge> found = sorted(edges_of(list));
  const std::vector<Edge> expected = sorted(brute_force(s, rcut, 8));

  ASSERT_GT(expected.size(), 0u);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t e = 0; e < found.size(); ++e) {
    EXPECT_EQ(found[e].src, expected[e].src);
    EXPECT_EQ(found[e].dst, expected[e].dst);
    // Moving an atom into the cell rounds coordinates of up to 50 Angstrom.
    for (int d = 0; d < 3; ++d) EXPECT_NEAR(found[e].vec[d], expected[e].vec[d], 5e-14);
  }
  EXPECT_EQ(list.n_nodes, list.n_owned);
  EXPECT_EQ(list.n_owned, static_cast<int>(s.type.size()));
}

TEST_P(AgainstBruteForce, BothOrdersAreConsistent) {
  const Structure& s = GetParam();
  PeriodicGraph graph(4.5, 2);
  const EdgeList list = graph.build(s.positions(), s.types(), s.cell);
  std::vector<int> seen(list.n_edges(), 0);
  for (int row = 0; row < list.n_owned; ++row) {
    for (int e = list.dst_begin(row); e < list.dst_begin(row + 1); ++e) EXPECT_EQ(list.dst(e), row);
    for (int k = list.src_begin(row); k < list.src_begin(row + 1); ++k) {
      EXPECT_EQ(list.src(list.by_src(k)), row);
      if (k > list.src_begin(row)) {
        EXPECT_GT(list.by_src(k), list.by_src(k - 1));
      }
      ++seen[list.by_src(k)];
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), list.n_edges());
}

INSTANTIATE_TEST_SUITE_P(
    , AgainstBruteForce,
    testing::Values(
        random_structure("bulk", cell_of(triclinic(11), true, true, true), 60, 0, 1),
        random_structure("below_twice_the_cutoff", cell_of(triclinic(6), true, true, true), 12, 0,
                         2),
        random_structure("below_the_cutoff", cell_of(triclinic(3), true, true, true), 3, 0, 3),
        random_structure("two_angstrom", cell_of(triclinic(2), true, true, true), 1, 0, 4),
        random_structure("atoms_outside", cell_of(triclinic(6), true, true, true), 12, 2.5, 5),
        random_structure("slab_ab", cell_of(triclinic(5), true, true, false), 10, 0.5, 6),
        random_structure("slab_bc", cell_of(triclinic(5), false, true, true), 10, 0.5, 7),
        random_structure("slab_ac", cell_of(triclinic(5), true, false, true), 10, 0.5, 8),
        random_structure("wire_a", cell_of(triclinic(5), true, false, false), 10, 0.5, 9),
        random_structure("wire_b", cell_of(triclinic(5), false, true, false), 10, 0.5, 10),
        random_structure("wire_c", cell_of(triclinic(5), false, false, true), 10, 0.5, 11),
        random_structure("open", cell_of(triclinic(7), false, false, false), 30, 0.5, 12),
        structure_on_faces(cell_of(triclinic(6), true, true, true)),
        random_structure("left_handed",
                         cell_of({{{0, 6, 0}, {6.5, 0, 0}, {0, 0, 7}}}, true, true, true), 12, 0,
                         13)),
    [](const auto& info) { return info.param.name; });

TEST(PeriodicGraph, SelfImagesOfOneAtomInACube) {
  const Cell cell = Cell::periodic_3d({{{2, 0, 0}, {0, 2, 0}, {0, 0, 2}}});
  const Structure s{"", cell, {0.3, 0.4, 0.5}, {0}};
  // Distances 2 (6 neighbors), 2 sqrt 2 (12), 2 sqrt 3 (8), 4 (6).
  EXPECT_EQ(PeriodicGraph(1.99, 1).build(s.positions(), s.types(), cell).n_edges(), 0);
  EXPECT_EQ(PeriodicGraph(2.01, 1).build(s.positions(), s.types(), cell).n_edges(), 6);
  EXPECT_EQ(PeriodicGraph(3.0, 1).build(s.positions(), s.types(), cell).n_edges(), 18);
  EXPECT_EQ(PeriodicGraph(3.9, 1).build(s.positions(), s.types(), cell).n_edges(), 26);
  EXPECT_EQ(PeriodicGraph(4.1, 1).build(s.positions(), s.types(), cell).n_edges(), 32);
}

TEST(PeriodicGraph, OpenDirectionsMayHaveNoVector) {
  Cell cell;
  cell.vectors = {{{3, 0, 0}, {0, 3, 0}, {0, 0, 0}}};
  cell.periodic = {true, true, false};
  const Structure s{"", cell, {0, 0, 100, 0, 0, 102.5}, {0, 0}};
  PeriodicGraph graph(3.1, 1);
  EXPECT_EQ(graph.build(s.positions(), s.types(), cell).n_edges(), 2 * 4 + 2);
}

TEST(PeriodicGraph, SizesMayComeInAnyOrder) {
  PeriodicGraph graph(4.5, 2);
  for (const int n : {40, 0, 1, 90, 2, 0, 40}) {
    const Structure s = random_structure("", cell_of(triclinic(9), true, true, true), n, 0, n);
    const EdgeList list = graph.build(s.positions(), s.types(), s.cell);
    EXPECT_EQ(list.n_owned, n);
    EXPECT_EQ(list.n_edges(), static_cast<int>(brute_force(s, 4.5, 2).size())) << n << " atoms";
    EXPECT_EQ(list.dst_begin.extent(0), n + 1);
    EXPECT_EQ(list.dst_begin(n), list.n_edges());
  }
}

TEST(PeriodicGraph, LeavesOutExcludedTypePairs) {
  const Structure s = random_structure("", cell_of(triclinic(6), true, true, true), 12, 0, 2);
  PeriodicGraph all(4.5, 2);
  PeriodicGraph without(4.5, 2, {{1, 0}});
  const std::vector<Edge> edges = edges_of(all.build(s.positions(), s.types(), s.cell));
  const auto n_same = std::count_if(edges.begin(), edges.end(),
                                    [&s](const Edge& e) { return s.type[e.src] == s.type[e.dst]; });
  const EdgeList kept = without.build(s.positions(), s.types(), s.cell);
  EXPECT_EQ(kept.n_edges(), n_same);
  EXPECT_LT(kept.n_edges(), static_cast<int>(edges.size()));
  for (const Edge& e : edges_of(kept)) EXPECT_EQ(s.type[e.src], s.type[e.dst]);
}

TEST(PeriodicGraph, APairAtTheCutoffIsAnEdge) {
  const Cell cell = Cell::open();
  PeriodicGraph graph(3.0, 1);
  for (const auto& [distance, n_edges] : {std::pair{3.0, 2}, std::pair{3.0 - 1e-12, 2},
                                          std::pair{3.0 + 1e-12, 0}, std::pair{0.0, 0}}) {
    const Structure s{"", cell, {0, 0, 0, 0, distance, 0}, {0, 0}};
    EXPECT_EQ(graph.build(s.positions(), s.types(), cell).n_edges(), n_edges) << distance;
  }
}

TEST(PeriodicGraph, FarApartAtomsCostNoMemory) {
  const Structure s{"", Cell::open(), {-1e9, 0, 0, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9 + 2}, {0, 0, 0}};
  PeriodicGraph graph(3.0, 1);
  EXPECT_EQ(graph.build(s.positions(), s.types(), s.cell).n_edges(), 2);
}

TEST(PeriodicGraph, GivesTheSameBitsForAnyNumberOfThreads) {
  const Structure s = random_structure("", cell_of(triclinic(25), true, true, false), 900, 0.1, 21);
  const int threads = omp_get_max_threads();
  std::vector<std::vector<double>> vectors;
  std::vector<std::vector<int>> orders;
  for (const int n : {1, 2, 3}) {
    omp_set_num_threads(n);
    PeriodicGraph graph(5.0, 2);
    const EdgeList list = graph.build(s.positions(), s.types(), s.cell);
    vectors.emplace_back(list.vec.data(), list.vec.data() + list.vec.size());
    orders.emplace_back(list.by_src.data(), list.by_src.data() + list.n_edges());
  }
  omp_set_num_threads(threads);
  ASSERT_GT(vectors[0].size(), 10000u);
  for (int k = 1; k < 3; ++k) {
    ASSERT_EQ(vectors[k].size(), vectors[0].size());
    EXPECT_EQ(std::memcmp(vectors[k].data(), vectors[0].data(), 8 * vectors[0].size()), 0);
    EXPECT_EQ(orders[k], orders[0]);
  }
}

TEST(PeriodicGraph, RefusesWhatIsNoStructure) {
  PeriodicGraph graph(3.0, 1);
  const std::vector<int> type{0};
  const std::vector<double> inside{0, 0, 0};
  const std::vector<double> nowhere{0, std::nan(""), 0};
  const TensorView<const int, 1> types(type.data(), 1);
  const TensorView<const double, 2> x(inside.data(), 1, 3);
  const auto message = [&](TensorView<const double, 2> positions, const Cell& cell) {
    try {
      graph.build(positions, types, cell);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({nowhere.data(), 1, 3}, Cell::open()),
            "the position of atom 1 is not a finite number below 1e10 Angstrom");
  EXPECT_EQ(message(x, Cell::periodic_3d({{{3, 0, 0}, {0, 3, 0}, {3, 3, 0}}})),
            "the cell has no volume: its vectors are linearly dependent");
  EXPECT_EQ(message(x, Cell::periodic_3d({{{3, 0, 0}, {0, 3, 0}, {0, 0, 0}}})),
            "a periodic cell vector has no length");
  EXPECT_EQ(message(x, Cell::periodic_3d({{{INFINITY, 0, 0}, {0, 3, 0}, {0, 0, 3}}})),
            "a cell vector is not a finite number");
  EXPECT_EQ(message(x, Cell::periodic_3d({{{1e-4, 0, 0}, {0, 1e-4, 0}, {0, 0, 1e-4}}})),
            "the cell is too small for the cutoff: more periodic images than an int counts");
  EXPECT_NEAR(Cell::periodic_3d({{{0, 3, 0}, {2, 0, 0}, {1, 1, 5}}}).volume(), 30, 1e-12);
}

}  // namespace
}  // namespace dpa4::graph
