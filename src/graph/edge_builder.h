// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/host_device.h"
#include "src/base/parallel.h"
#include "src/base/tensor_view.h"
#include "src/graph/edge_list.h"

namespace dpa4::graph {

/// Closer than this the direction of an edge is noise: such a pair is no edge (coincident atoms).
inline constexpr double kMinDistanceSquared = 1e-10;  // [Angstrom^2], exclusive

/// A vector from a center to a neighbor [Angstrom].
struct Displacement {
  double x, y, z;

  DPA4_HD double squared_length() const { return x * x + y * y + z * z; }
};

/// x[neighbor] - x[center]: the only place where positions are subtracted.
/// `Positions` is anything with x(atom, axis): a TensorView, a view of LAMMPS' Kokkos package.
template <class Positions>
DPA4_HD Displacement displacement(const Positions& x, int neighbor, int center) {
  return {static_cast<double>(x(neighbor, 0)) - static_cast<double>(x(center, 0)),
          static_cast<double>(x(neighbor, 1)) - static_cast<double>(x(center, 1)),
          static_cast<double>(x(neighbor, 2)) - static_cast<double>(x(center, 2))};
}

/// The rule for an edge; a distance of exactly the cutoff is one.
DPA4_HD inline bool is_edge_length(double squared_length, double squared_cutoff) {
  return squared_length > kMinDistanceSquared && squared_length <= squared_cutoff;
}

/// How the atoms of a rank (its own ones, then its ghosts, numbered by the caller) are rows of the
/// model. Several atoms may share a row: the periodic images of an owned atom fold onto its row,
/// while each edge vector uses the position of the image itself.
struct NodeMap {
  int n_owned = 0;                       // rows of the rank's own atoms
  int n_nodes = 0;                       // n_owned, plus rows of copies of other ranks' atoms
  TensorView<const int, 1> row_of_atom;  // (n_atoms)  in [0, n_nodes); -1: not seen by the model
  TensorView<const int, 1> type_of_row;  // (n_nodes)  index into the model's type_map
};

/// A full neighbor list in LAMMPS' layout. Any type with these four members works in its place.
struct PagedNeighborList {
  int n_entries = 0;
  const int* center_atom = nullptr;       // (n_entries)  ilist
  const int* n_neighbors = nullptr;       // by atom       numneigh
  const int* const* neighbors = nullptr;  // by atom      firstneigh
  int mask = ~0;  // NEIGHMASK: the bits of a neighbor that are its atom number

  DPA4_HD int size() const { return n_entries; }
  DPA4_HD int center(int entry) const { return center_atom[entry]; }
  DPA4_HD int count(int entry) const { return n_neighbors[center_atom[entry]]; }
  DPA4_HD int neighbor(int entry, int k) const { return neighbors[center_atom[entry]][k] & mask; }
};

/// A full neighbor list in one array; entry i belongs to atom i.
struct PackedNeighborList {
  TensorView<const std::int64_t, 1> begin;  // (n_entries + 1)
  const int* atoms = nullptr;               // (begin(n_entries))

  DPA4_HD int size() const { return begin.extent(0) - 1; }
  DPA4_HD int center(int entry) const { return entry; }
  DPA4_HD int count(int entry) const { return static_cast<int>(begin(entry + 1) - begin(entry)); }
  DPA4_HD int neighbor(int entry, int k) const { return atoms[begin(entry) + k]; }
};

namespace detail {

/// Which entry of the neighbor list lists the neighbors of a row: the list may come in any order.
template <class List>
struct FindEntryOfRow {
  List list;
  TensorView<const int, 1> row_of_atom;
  int n_owned;
  int* entry_of_row;
  DPA4_HD void operator()(std::int64_t entry) const {
    const int row = row_of_atom(list.center(static_cast<int>(entry)));
    if (row >= 0 && row < n_owned) entry_of_row[row] = static_cast<int>(entry);
  }
};

/// Which pairs of a row the model sees at all, whatever their distance.
template <class List>
struct CandidateRule {
  List list;
  NodeMap nodes;
  const unsigned char* excluded;  // (n_types, n_types)
  int n_types;

  /// The row of a neighbor, or -1.
  DPA4_HD int source_row(int center_row, int neighbor_atom) const {
    const int row = nodes.row_of_atom(neighbor_atom);
    if (row < 0) return -1;
    const int pair = nodes.type_of_row(center_row) * n_types + nodes.type_of_row(row);
    return excluded[pair] != 0 ? -1 : row;
  }
};

template <class List>
struct CountCandidates {
  CandidateRule<List> rule;
  const int* entry_of_row;
  std::int64_t* counts;
  DPA4_HD void operator()(std::int64_t row) const {
    const int entry = entry_of_row[row];
    const int n_listed = entry < 0 ? 0 : rule.list.count(entry);
    std::int64_t count = 0;
    for (int k = 0; k < n_listed; ++k) {
      if (rule.source_row(static_cast<int>(row), rule.list.neighbor(entry, k)) >= 0) ++count;
    }
    counts[row] = count;
  }
};

struct Candidates {
  int* atom;                // neighbor, an atom number: its position is that of the image
  int* src;                 // its row
  int* dst;                 // row of the center, ascending
  int* by_src;              // candidate numbers, ascending in src
  int* src_begin;           // (n_nodes + 1)
  std::int64_t* dst_begin;  // (n_owned + 1)
  int* center_atom;         // (n_owned)
};

template <class List>
struct WriteCandidates {
  CandidateRule<List> rule;
  const int* entry_of_row;
  Candidates out;
  DPA4_HD void operator()(std::int64_t row) const {
    const int entry = entry_of_row[row];
    out.center_atom[row] = entry < 0 ? -1 : rule.list.center(entry);
    const int n_listed = entry < 0 ? 0 : rule.list.count(entry);
    std::int64_t to = out.dst_begin[row];
    for (int k = 0; k < n_listed; ++k) {
      const int atom = rule.list.neighbor(entry, k);
      const int src = rule.source_row(static_cast<int>(row), atom);
      if (src < 0) continue;
      out.atom[to] = atom;
      out.src[to] = src;
      out.dst[to] = static_cast<int>(row);
      ++to;
    }
  }
};

/// By position, and by number where atoms coincide. What is no number comes last: sorting needs an
/// order of everything.
template <class Positions>
struct PositionOrder {
  Positions x;
  DPA4_HD bool operator()(int a, int b) const {
    for (int axis = 0; axis < 3; ++axis) {
      const double at_a = x(a, axis), at_b = x(b, axis);
      if (at_a < at_b) return true;
      if (at_b < at_a) return false;
      const bool number_a = at_a == at_a, number_b = at_b == at_b;
      if (number_a != number_b) return number_a;
    }
    return a < b;
  }
};

/// The candidates of a row in the order of their positions.
template <class Positions>
struct SortCandidates {
  PositionOrder<Positions> order;
  TensorView<const int, 1> row_of_atom;
  Candidates out;
  DPA4_HD void operator()(std::int64_t row) const {
    const std::int64_t begin = out.dst_begin[row];
    const std::int64_t end = out.dst_begin[row + 1];
    base::detail::sort_in_place(out.atom + begin, static_cast<int>(end - begin), order);
    for (std::int64_t k = begin; k < end; ++k) out.src[k] = row_of_atom(out.atom[k]);
  }
};

template <class Positions>
struct MarkEdges {
  Positions x;
  Candidates candidates;
  double squared_cutoff;
  unsigned char* is_edge;
  DPA4_HD void operator()(std::int64_t k) const {
    const int center = candidates.center_atom[candidates.dst[k]];
    const double length = displacement(x, candidates.atom[k], center).squared_length();
    is_edge[k] = is_edge_length(length, squared_cutoff) ? 1 : 0;
  }
};

/// Where the edges go, of which there is room for `room`.
struct EdgeArrays {
  int room;
  int* src;        // (room)
  int* dst;        // (room)
  double* vec;     // (room, 3)
  int* dst_begin;  // (n_owned + 1)
  int* by_src;     // (room)
  int* src_begin;  // (n_nodes + 1)
};

/// Numbers the edges in both orders at once, and writes those that have room. A count has the
/// edges in dst order in its lower half and those in src order in its upper half.
template <class Positions>
struct NumberEdges {
  using Count = std::int64_t;
  Positions x;
  Candidates candidates;
  int n_candidates;
  const unsigned char* is_edge;
  int* edge_of;      // (n_candidates + 1)  the edges before candidate k
  int* position_of;  // (n_candidates + 1)  the edges before by_src[p] in src order
  EdgeArrays out;
  DPA4_HD Count count(std::int64_t k) const {
    return is_edge[k] + (static_cast<Count>(is_edge[candidates.by_src[k]]) << 32);
  }
  DPA4_HD void place(std::int64_t k, Count before) const {
    const std::int64_t e = before & 0x7fffffff;
    edge_of[k] = static_cast<int>(e);
    position_of[k] = static_cast<int>(before >> 32);
    if (k == n_candidates || is_edge[k] == 0 || e >= out.room) return;
    const Displacement v =
        displacement(x, candidates.atom[k], candidates.center_atom[candidates.dst[k]]);
    out.src[e] = candidates.src[k];
    out.dst[e] = candidates.dst[k];
    out.vec[3 * e] = v.x;
    out.vec[3 * e + 1] = v.y;
    out.vec[3 * e + 2] = v.z;
  }
};

/// What is left when the edges have numbers: the src order, where rows begin (where a row's
/// candidates began, its edges begin at the number of the first of them), and padding in the room
/// that is left. Where there is too little room the lists are wrong, but no index leaves them.
struct FinishEdges {
  Candidates candidates;
  int n_candidates, n_owned, n_nodes;
  double cutoff;
  const unsigned char* is_edge;
  const int* edge_of;
  const int* position_of;
  EdgeArrays out;

  DPA4_HD int within(int edge) const { return edge < out.room ? edge : out.room; }
  DPA4_HD void operator()(std::int64_t i) const {
    const int n_edges = edge_of[n_candidates];
    const bool fits = n_edges <= out.room;
    if (fits && i < n_candidates) {
      const int k = candidates.by_src[i];
      if (is_edge[k] != 0) out.by_src[position_of[i]] = edge_of[k];
    }
    if (i <= n_owned) out.dst_begin[i] = within(edge_of[candidates.dst_begin[i]]);
    if (i <= n_nodes) out.src_begin[i] = within(position_of[candidates.src_begin[i]]);
    if (i >= out.room || (fits && i < n_edges)) return;
    out.by_src[i] = static_cast<int>(i);
    if (i >= n_edges) write_padding(i);
  }
  DPA4_HD void write_padding(std::int64_t e) const {
    out.src[e] = out.dst[e] = 0;
    out.vec[3 * e] = cutoff;
    out.vec[3 * e + 1] = out.vec[3 * e + 2] = 0;
  }
};

}  // namespace detail

/// Turns LAMMPS' neighbor list into the model's edges.
///
/// `rebuild` when the neighbor list was rebuilt: keeps the pairs that may become edges, in dst
/// order and in src order. `update` every step: keeps those within the cutoff, in both orders, by
/// a scan alone; it allocates nothing once it has seen its largest size. The same input gives the
/// same edges in the same order, bit for bit, for any number of threads.
///
/// How many edges a step has is known where the space computes; a host that wants to know has to
/// wait for it. `update_padded` does without: it takes the room that the steps before needed and a
/// little more, and whoever learns the number later says so with `fits`.
///
/// All views are in memory of the space. The lists behind `rebuild`'s arguments may be gone
/// afterwards.
template <class Space>
class EdgeBuilder {
 public:
  /// @param rcut           cutoff [Angstrom], > 0
  /// @param n_types        length of the model's type_map, >= 1
  /// @param exclude_types  unordered pairs of types between which there are no edges
  EdgeBuilder(Space space, double rcut, int n_types,
              const std::vector<std::pair<int, int>>& exclude_types);

  /// The candidates of a full list: every pair that can come within the cutoff before the next
  /// rebuild, seen from both sides. Centers without an owned row are skipped, as are neighbors
  /// without a row. Throws InputError if there are more pairs than an int counts.
  template <class List>
  void rebuild(const List& list, const NodeMap& nodes);

  /// The same with the edges of a center in the order of the neighbors' positions, for lists whose
  /// order, or whose numbers of atoms, depend on the timing of threads.
  template <class List, class Positions>
  void rebuild(const List& list, const NodeMap& nodes, const Positions& x);

  /// The edges at positions x, indexed by the atom numbers of the last rebuild. The result is valid
  /// until the next call of `update`, `update_padded` or `rebuild`.
  template <class Positions>
  EdgeList update(const Positions& x);

  /// The same without waiting for the number of edges, with padding behind the edges (edge_list.h).
  /// What comes of the list counts only if fits(*n_edges()) then says so; else it has to be made
  /// again. The list keeps its size and place in memory as long as it can.
  template <class Positions>
  EdgeList update_padded(const Positions& x);

  /// Where the number of edges of the last update is, in memory of the space.
  const int* n_edges() const { return edge_of_.data() + n_candidates_; }

  /// Whether the last update had room for `n_edges` edges; adapts the room of the next.
  bool fits(int n_edges);

  int n_candidates() const { return n_candidates_; }

  /// What all buffers take now.
  std::int64_t bytes() const;

 private:
  detail::Candidates candidates();
  template <class List>
  void list_candidates(const List& list, const NodeMap& nodes);
  void group_by_source();
  template <class Positions>
  void issue(const Positions& x);
  void make_room(int n_edges);
  EdgeList edges(int size) const;

  template <class T>
  using Buffer = base::Buffer<T, Space>;

  /// The padding is about this part of the edges, and these many where there are few.
  static constexpr int kPaddingPart = 32, kFewestPadding = 64;

  Space space_;
  double cutoff_;
  int n_types_;
  int n_owned_ = 0;
  int n_nodes_ = 0;
  int n_candidates_ = 0;
  int room_ = 0;        // for edges, in the lists of `update`
  bool ready_ = false;  // false until the first rebuild, and after one that threw

  Buffer<unsigned char> excluded_;        // (n_types, n_types)
  Buffer<int> entry_of_row_;              // (n_owned)
  Buffer<int> center_atom_;               // (n_owned)
  Buffer<std::int64_t> candidate_begin_;  // (n_owned + 1)
  Buffer<int> candidate_atom_, candidate_src_, candidate_dst_, candidate_by_src_;  // (n_candidates)
  Buffer<int> candidate_src_begin_;                                                // (n_nodes + 1)
  Buffer<unsigned char> is_edge_;                                                  // (n_candidates)
  Buffer<int> edge_of_, position_of_;  // (n_candidates + 1)
  Buffer<int> src_, dst_, by_src_;     // (room)
  Buffer<double> vec_;                 // (room, 3)
  Buffer<int> dst_begin_, src_begin_;  // (n_owned + 1), (n_nodes + 1)
};

template <class Space>
EdgeBuilder<Space>::EdgeBuilder(Space space, double rcut, int n_types,
                                const std::vector<std::pair<int, int>>& exclude_types)
    : space_(space),
      cutoff_(rcut),
      n_types_(n_types),
      excluded_(space),
      entry_of_row_(space),
      center_atom_(space),
      candidate_begin_(space),
      candidate_atom_(space),
      candidate_src_(space),
      candidate_dst_(space),
      candidate_by_src_(space),
      candidate_src_begin_(space),
      is_edge_(space),
      edge_of_(space),
      position_of_(space),
      src_(space),
      dst_(space),
      by_src_(space),
      vec_(space),
      dst_begin_(space),
      src_begin_(space) {
  DPA4_EXPECTS(rcut > 0);
  DPA4_EXPECTS(n_types >= 1);
  std::vector<unsigned char> table(static_cast<std::size_t>(n_types) * n_types, 0);
  for (const auto& [a, b] : exclude_types) {
    DPA4_EXPECTS(a >= 0 && a < n_types && b >= 0 && b < n_types);
    table[static_cast<std::size_t>(a) * n_types + b] = 1;
    table[static_cast<std::size_t>(b) * n_types + a] = 1;
  }
  space_.copy_in(excluded_.reserve(static_cast<std::int64_t>(table.size())), table.data(),
                 table.size());
}

template <class Space>
detail::Candidates EdgeBuilder<Space>::candidates() {
  return {candidate_atom_.data(),   candidate_src_.data(),       candidate_dst_.data(),
          candidate_by_src_.data(), candidate_src_begin_.data(), candidate_begin_.data(),
          center_atom_.data()};
}

template <class Space>
template <class List>
void EdgeBuilder<Space>::rebuild(const List& list, const NodeMap& nodes) {
  list_candidates(list, nodes);
  group_by_source();
}

template <class Space>
template <class List, class Positions>
void EdgeBuilder<Space>::rebuild(const List& list, const NodeMap& nodes, const Positions& x) {
  list_candidates(list, nodes);
  base::parallel_for(space_, "edge_candidates_sort", n_owned_,
                     detail::SortCandidates<Positions>{{x}, nodes.row_of_atom, candidates()});
  group_by_source();
}

template <class Space>
template <class List>
void EdgeBuilder<Space>::list_candidates(const List& list, const NodeMap& nodes) {
  DPA4_EXPECTS(nodes.n_owned >= 0 && nodes.n_nodes >= nodes.n_owned);
  DPA4_EXPECTS(nodes.type_of_row.extent(0) == nodes.n_nodes);
  n_owned_ = nodes.n_owned;
  n_nodes_ = nodes.n_nodes;
  ready_ = false;

  int* const entry_of_row = entry_of_row_.reserve(n_owned_);
  base::fill(space_, "edge_entries_clear", n_owned_, entry_of_row, -1);
  base::parallel_for(space_, "edge_entries", list.size(),
                     detail::FindEntryOfRow<List>{list, nodes.row_of_atom, n_owned_, entry_of_row});

  const detail::CandidateRule<List> rule{list, nodes, excluded_.data(), n_types_};
  std::int64_t* const begin = candidate_begin_.reserve(n_owned_ + std::int64_t{1});
  base::parallel_for(space_, "edge_candidates_count", n_owned_,
                     detail::CountCandidates<List>{rule, entry_of_row, begin});
  base::exclusive_scan(space_, "edge_candidates_scan", n_owned_, begin);

  // One less than the largest int, so that the scans' n + 1 elements still have int numbers.
  const std::int64_t total = base::read_element(space_, begin + n_owned_);
  if (total >= std::numeric_limits<int>::max()) {
    throw InputError(
        std::to_string(total) +
        " neighbor pairs on one MPI rank are more than the 2147483646 this program can "
        "count: use more MPI ranks, or a smaller neighbor skin");
  }
  n_candidates_ = static_cast<int>(total);

  candidate_atom_.reserve(n_candidates_);
  candidate_src_.reserve(n_candidates_);
  candidate_dst_.reserve(n_candidates_);
  candidate_by_src_.reserve(n_candidates_);
  candidate_src_begin_.reserve(n_nodes_ + std::int64_t{1});
  center_atom_.reserve(n_owned_);
  is_edge_.reserve(n_candidates_);
  edge_of_.reserve(n_candidates_ + std::int64_t{1});
  // The scratch of the sort: one cursor a row.
  position_of_.reserve(n_candidates_ >= n_nodes_ ? n_candidates_ + std::int64_t{1} : n_nodes_);

  base::parallel_for(space_, "edge_candidates_write", n_owned_,
                     detail::WriteCandidates<List>{rule, entry_of_row, candidates()});
}

template <class Space>
void EdgeBuilder<Space>::group_by_source() {
  const detail::Candidates out = candidates();
  base::group_by_key(space_, "edge_candidates_by_src", n_candidates_, out.src, n_nodes_,
                     out.src_begin, out.by_src, position_of_.data());
  ready_ = true;
}

template <class Space>
template <class Positions>
void EdgeBuilder<Space>::issue(const Positions& x) {
  DPA4_EXPECTS(ready_);
  const detail::Candidates from = candidates();
  unsigned char* const is_edge = is_edge_.reserve(n_candidates_);
  int* const edge_of = edge_of_.reserve(n_candidates_ + std::int64_t{1});
  int* const position_of = position_of_.reserve(n_candidates_ + std::int64_t{1});
  const detail::EdgeArrays to{room_,
                              src_.reserve(room_),
                              dst_.reserve(room_),
                              vec_.reserve(std::int64_t{3} * room_),
                              dst_begin_.reserve(n_owned_ + std::int64_t{1}),
                              by_src_.reserve(room_),
                              src_begin_.reserve(n_nodes_ + std::int64_t{1})};

  base::parallel_for(space_, "edge_mark", n_candidates_,
                     detail::MarkEdges<Positions>{x, from, cutoff_ * cutoff_, is_edge});
  base::scan_each(
      space_, "edge_number", n_candidates_,
      detail::NumberEdges<Positions>{x, from, n_candidates_, is_edge, edge_of, position_of, to});
  const std::int64_t n = std::max({n_candidates_, n_nodes_ + 1, room_});
  base::parallel_for(space_, "edge_finish", n,
                     detail::FinishEdges{from, n_candidates_, n_owned_, n_nodes_, cutoff_, is_edge,
                                         edge_of, position_of, to});
}

/// Room for so many edges and a little more. It stays as it is while the number moves within a part
/// of the padding, so that the lists of most steps are of one size.
template <class Space>
void EdgeBuilder<Space>::make_room(int n_edges) {
  std::int64_t quantum = kFewestPadding;
  while (2 * quantum * kPaddingPart <= n_edges) quantum *= 2;
  const std::int64_t least = n_edges + quantum / 8;
  if (room_ >= least && room_ <= n_edges + 2 * quantum) return;
  const std::int64_t wanted = (n_edges + quantum / 2 + quantum - 1) / quantum * quantum;
  room_ = static_cast<int>(std::min<std::int64_t>(wanted, std::numeric_limits<int>::max()));
}

template <class Space>
bool EdgeBuilder<Space>::fits(int n_edges) {
  const bool had_room = n_edges <= room_;
  make_room(n_edges);
  return had_room;
}

template <class Space>
template <class Positions>
EdgeList EdgeBuilder<Space>::update(const Positions& x) {
  for (;;) {
    issue(x);
    const int n = base::read_element(space_, n_edges());
    if (fits(n)) return edges(n);
  }
}

template <class Space>
template <class Positions>
EdgeList EdgeBuilder<Space>::update_padded(const Positions& x) {
  if (room_ == 0) {  // nothing is known yet
    issue(x);
    make_room(base::read_element(space_, n_edges()));
  }
  issue(x);
  return edges(room_);
}

template <class Space>
EdgeList EdgeBuilder<Space>::edges(int size) const {
  EdgeList edges;
  edges.n_owned = n_owned_;
  edges.n_nodes = n_nodes_;
  edges.src = {src_.data(), size};
  edges.dst = {dst_.data(), size};
  edges.vec = {vec_.data(), size, 3};
  edges.dst_begin = {dst_begin_.data(), n_owned_ + 1};
  edges.by_src = {by_src_.data(), size};
  edges.src_begin = {src_begin_.data(), n_nodes_ + 1};
  return edges;
}

template <class Space>
std::int64_t EdgeBuilder<Space>::bytes() const {
  return excluded_.bytes() + entry_of_row_.bytes() + center_atom_.bytes() +
         candidate_begin_.bytes() + candidate_atom_.bytes() + candidate_src_.bytes() +
         candidate_dst_.bytes() + candidate_by_src_.bytes() + candidate_src_begin_.bytes() +
         is_edge_.bytes() + edge_of_.bytes() + position_of_.bytes() + src_.bytes() + dst_.bytes() +
         by_src_.bytes() + vec_.bytes() + dst_begin_.bytes() + src_begin_.bytes();
}

}  // namespace dpa4::graph
