// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/parallel.h"
#include "src/base/tensor_view.h"
#include "src/graph/edge_builder.h"
#include "src/graph/edge_list.h"

namespace dpa4::graph {

/// A cell with its boundary conditions. Vectors along open directions are not used and may be zero.
struct Cell {
  std::array<std::array<double, 3>, 3> vectors{};  // rows a, b, c [Angstrom]
  std::array<bool, 3> periodic{false, false, false};

  /// No periodic direction.
  static Cell open() { return {}; }

  /// Periodic in all three directions.
  static Cell periodic_3d(const std::array<std::array<double, 3>, 3>& vectors) {
    return {vectors, {true, true, true}};
  }

  /// Volume [Angstrom^3]; meaningful for a cell that is periodic in all three directions.
  double volume() const;
};

/// Edges of a whole structure without LAMMPS: for the command line, tests and benches.
///
/// All pairs within the cutoff, all periodic images included however small the cell is (an atom may
/// be its own neighbor). Atoms may lie outside the cell. Time and memory grow linearly with the
/// number of atoms at fixed density. Images are made as LAMMPS makes ghost atoms, and the edges by
/// EdgeBuilder.
class PeriodicGraph {
 public:
  /// @param rcut           cutoff [Angstrom], > 0
  /// @param n_types        length of the model's type_map, >= 1
  /// @param exclude_types  unordered pairs of types between which there are no edges
  PeriodicGraph(double rcut, int n_types,
                const std::vector<std::pair<int, int>>& exclude_types = {});

  /// Every atom is a node, in the order given. The result is valid until the next call.
  /// Throws InputError: a position that is not finite, a cell without volume, too many images or
  /// edges.
  ///
  /// @param x     (N, 3)  [Angstrom]
  /// @param type  (N)     in [0, n_types)
  EdgeList build(TensorView<const double, 2> x, TensorView<const int, 1> type, const Cell& cell);

 private:
  void make_images(TensorView<const double, 2> x, const Cell& cell);
  void list_neighbors(int n_owned);

  double rcut_;
  int n_types_;
  EdgeBuilder<base::Threads> builder_;

  // Atoms and their images: the atoms first, moved into the cell.
  std::vector<double> position_;  // (n, 3)
  std::vector<int> owner_;        // (n)

  // Bins of at least the cutoff's width, and the full list made from them.
  std::vector<int> bin_of_, bin_begin_, bin_atoms_, bin_cursor_;
  std::vector<std::int64_t> neighbor_begin_;
  std::vector<int> neighbors_;
};

}  // namespace dpa4::graph
