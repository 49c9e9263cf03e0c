// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/graph/periodic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "src/base/error.h"

namespace dpa4::graph {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

double norm(const Vector& a) { return std::sqrt(dot(a, a)); }

Vector scaled(const Vector& a, double factor) {
  return {a[0] * factor, a[1] * factor, a[2] * factor};
}

/// A unit vector normal to v, built from the axis that is least parallel to it.
Vector any_normal(const Vector& v) {
  Vector axis{0, 0, 0};
  int least = 0;
  for (int d = 1; d < 3; ++d) {
    if (std::abs(v[d]) < std::abs(v[least])) least = d;
  }
  axis[least] = 1;
  const Vector normal = cross(v, axis);
  return scaled(normal, 1 / norm(normal));
}

/// The periodic vectors, with unit normals in place of the others: then the fractional coordinate
/// along a periodic direction depends on nothing but the periodic vectors.
Matrix complete_cell(const Cell& cell) {
  for (int d = 0; d < 3; ++d) {
    for (int axis = 0; axis < 3; ++axis) {
      if (cell.periodic[d] && !std::isfinite(cell.vectors[d][axis])) {
        throw InputError("a cell vector is not a finite number");
      }
    }
    if (cell.periodic[d] && !(norm(cell.vectors[d]) > 0)) {
      throw InputError("a periodic cell vector has no length");
    }
  }
  const int n_periodic = cell.periodic[0] + cell.periodic[1] + cell.periodic[2];
  if (n_periodic == 0) return {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

  Matrix vectors = cell.vectors;
  if (n_periodic == 1) {
    const int d = cell.periodic[0] ? 0 : (cell.periodic[1] ? 1 : 2);
    const Vector normal = any_normal(vectors[d]);
    const Vector other = cross(vectors[d], normal);
    vectors[(d + 1) % 3] = normal;
    vectors[(d + 2) % 3] = scaled(other, 1 / norm(other));
  } else if (n_periodic == 2) {
    const int open = !cell.periodic[0] ? 0 : (!cell.periodic[1] ? 1 : 2);
    const Vector normal = cross(vectors[(open + 1) % 3], vectors[(open + 2) % 3]);
    vectors[open] = norm(normal) > 0 ? scaled(normal, 1 / norm(normal)) : Vector{0, 0, 0};
  }
  return vectors;
}

/// Rows r_d with r_d . x = fractional coordinate d; 1 / |r_d| is the distance of the cell's planes.
Matrix reciprocal_rows(const Matrix& vectors) {
  const double volume = dot(vectors[0], cross(vectors[1], vectors[2]));
  const double product = norm(vectors[0]) * norm(vectors[1]) * norm(vectors[2]);
  if (!(std::abs(volume) > 1e-8 * product)) {
    throw InputError("the cell has no volume: its vectors are linearly dependent");
  }
  return {scaled(cross(vectors[1], vectors[2]), 1 / volume),
          scaled(cross(vectors[2], vectors[0]), 1 / volume),
          scaled(cross(vectors[0], vectors[1]), 1 / volume)};
}

/// Rounding of a fractional coordinate must not lose an image at exactly the cutoff.
constexpr double kFractionMargin = 1e-9;

/// The images n of a coordinate that reach within `reach` of [lowest, highest].
struct ImageRange {
  int first;
  int last;
};

ImageRange image_range(double fraction, double lowest, double highest, double reach) {
  const double margin = reach + kFractionMargin;
  return {static_cast<int>(std::ceil(lowest - margin - fraction)),
          static_cast<int>(std::floor(highest + margin - fraction))};
}

/// Bins over a box that holds all positions, at least `width` wide and not many more than
/// positions.
struct Bins {
  Vector origin{};
  Vector inverse_width{};
  std::array<int, 3> n{1, 1, 1};

  Bins(const std::vector<double>& position, double width) {
    Vector highest{};
    const std::size_t n_positions = position.size() / 3;
    for (int d = 0; d < 3; ++d) {
      double low = 0;
      double high = 0;
      for (std::size_t i = 0; i < n_positions; ++i) {
        const double value = position[3 * i + d];
        low = i == 0 ? value : std::min(low, value);
        high = i == 0 ? value : std::max(high, value);
      }
      origin[d] = low;
      highest[d] = high;
    }
    // Two atoms far apart must not cost a bin for every cube between them.
    const double limit = 4.0 * static_cast<double>(n_positions) + 8;
    for (double wide = width;; wide *= 2) {
      double product = 1;
      for (int d = 0; d < 3; ++d)
        product *= std::max(1.0, std::floor((highest[d] - origin[d]) / wide));
      if (product > limit) continue;
      for (int d = 0; d < 3; ++d) {
        const double extent = highest[d] - origin[d];
        n[d] = static_cast<int>(std::max(1.0, std::floor(extent / wide)));
        inverse_width[d] = n[d] > 1 ? n[d] / extent : 0;
      }
      break;
    }
  }

  int count() const { return n[0] * n[1] * n[2]; }

  int along(int d, double value) const {
    return std::clamp(static_cast<int>((value - origin[d]) * inverse_width[d]), 0, n[d] - 1);
  }

  int of(const double* x) const {
    return (along(0, x[0]) * n[1] + along(1, x[1])) * n[2] + along(2, x[2]);
  }
};

struct AssignBins {
  const Bins& bins;
  const double* position;
  int* bin_of;
  void operator()(std::int64_t i) const { bin_of[i] = bins.of(position + 3 * i); }
};

/// Visits every atom or image within the cutoff of atom i, bins in order, atoms ascending in a bin.
struct NeighborSearch {
  const Bins& bins;
  TensorView<const double, 2> x;
  const int* bin_begin;
  const int* bin_atoms;
  double squared_cutoff;

  template <class Visitor>
  void visit(int i, const Visitor& visitor) const {
    int first[3];
    int last[3];
    for (int d = 0; d < 3; ++d) {
      const int bin = bins.along(d, x(i, d));
      first[d] = std::max(bin - 1, 0);
      last[d] = std::min(bin + 1, bins.n[d] - 1);
    }
    for (int a = first[0]; a <= last[0]; ++a) {
      for (int b = first[1]; b <= last[1]; ++b) {
        const int row = (a * bins.n[1] + b) * bins.n[2];
        for (int k = bin_begin[row + first[2]]; k < bin_begin[row + last[2] + 1]; ++k) {
          const int j = bin_atoms[k];
          if (is_edge_length(displacement(x, j, i).squared_length(), squared_cutoff)) visitor(j);
        }
      }
    }
  }
};

struct CountNeighbors {
  const NeighborSearch& search;
  std::int64_t* counts;
  void operator()(std::int64_t i) const {
    std::int64_t count = 0;
    search.visit(static_cast<int>(i), [&count](int) { ++count; });
    counts[i] = count;
  }
};

struct WriteNeighbors {
  const NeighborSearch& search;
  const std::int64_t* begin;
  int* neighbors;
  void operator()(std::int64_t i) const {
    int* to = neighbors + begin[i];
    search.visit(static_cast<int>(i), [&to](int j) { *to++ = j; });
  }
};

/// Far beyond this, a double no longer resolves distances.
constexpr double kLargestCoordinate = 1e10;  // [Angstrom]

void check_position(const Vector& place, int atom) {
  for (int axis = 0; axis < 3; ++axis) {
    if (!(std::abs(place[axis]) < kLargestCoordinate)) {  // also when it is not a number
      throw InputError("the position of atom " + std::to_string(atom + 1) +
                       " is not a finite number below 1e10 Angstrom");
    }
  }
}

void check_types(TensorView<const int, 1> type, int n_types) {
  for (int i = 0; i < type.extent(0); ++i) DPA4_EXPECTS(type(i) >= 0 && type(i) < n_types);
}

}  // namespace

double Cell::volume() const { return std::abs(dot(vectors[0], cross(vectors[1], vectors[2]))); }

PeriodicGraph::PeriodicGraph(double rcut, int n_types,
                             const std::vector<std::pair<int, int>>& exclude_types)
    : rcut_(rcut), n_types_(n_types), builder_(base::Threads{}, rcut, n_types, exclude_types) {}

EdgeList PeriodicGraph::build(TensorView<const double, 2> x, TensorView<const int, 1> type,
                              const Cell& cell) {
  const int n_atoms = type.extent(0);
  DPA4_EXPECTS(x.extent(0) == n_atoms && (n_atoms == 0 || x.extent(1) == 3));
  check_types(type, n_types_);

  make_images(x, cell);
  list_neighbors(n_atoms);

  NodeMap nodes;
  nodes.n_owned = n_atoms;
  nodes.n_nodes = n_atoms;
  nodes.row_of_atom = {owner_.data(), owner_.size()};
  nodes.type_of_row = type;
  PackedNeighborList list;
  list.begin = {neighbor_begin_.data(), n_atoms + 1};
  list.atoms = neighbors_.data();
  builder_.rebuild(list, nodes);
  return builder_.update(TensorView<const double, 2>(position_.data(), owner_.size(), 3));
}

void PeriodicGraph::make_images(TensorView<const double, 2> x, const Cell& cell) {
  const int n_atoms = x.extent(0);
  const Matrix vectors = complete_cell(cell);
  const Matrix reciprocal = reciprocal_rows(vectors);

  // Into the cell along the periodic directions, by whole vectors; an atom inside keeps its bits.
  position_.resize(std::size_t{3} * n_atoms);
  owner_.resize(n_atoms);
  std::vector<Vector> fraction(n_atoms);
  Vector lowest{0, 0, 0};
  Vector highest{0, 0, 0};
  for (int i = 0; i < n_atoms; ++i) {
    Vector place{x(i, 0), x(i, 1), x(i, 2)};
    check_position(place, i);
    Vector s{};
    for (int d = 0; d < 3; ++d) s[d] = dot(reciprocal[d], place);
    Vector shift{0, 0, 0};
    for (int d = 0; d < 3; ++d) shift[d] = cell.periodic[d] ? std::floor(s[d]) : 0;
    for (int axis = 0; axis < 3; ++axis) {
      for (int d = 0; d < 3; ++d) place[axis] -= shift[d] * vectors[d][axis];
      position_[3 * std::size_t(i) + axis] = place[axis];
    }
    for (int d = 0; d < 3; ++d) {
      s[d] -= shift[d];
      lowest[d] = i == 0 ? s[d] : std::min(lowest[d], s[d]);
      highest[d] = i == 0 ? s[d] : std::max(highest[d], s[d]);
    }
    fraction[i] = s;
    owner_[i] = i;
  }

  for (int i = 0; i < n_atoms; ++i) {
    ImageRange range[3] = {{0, 0}, {0, 0}, {0, 0}};
    double n_images = 1;
    for (int d = 0; d < 3; ++d) {
      if (!cell.periodic[d]) continue;
      const double reach = rcut_ * norm(reciprocal[d]);
      n_images *= 2 * reach + 2;
      if (n_images + static_cast<double>(owner_.size()) > std::numeric_limits<int>::max()) {
        throw InputError(
            "the cell is too small for the cutoff: more periodic images than an int counts");
      }
      range[d] = image_range(fraction[i][d], lowest[d], highest[d], reach);
    }
    for (int a = range[0].first; a <= range[0].last; ++a) {
      for (int b = range[1].first; b <= range[1].last; ++b) {
        for (int c = range[2].first; c <= range[2].last; ++c) {
          if (a == 0 && b == 0 && c == 0) continue;
          for (int axis = 0; axis < 3; ++axis) {
            const double moved = a * vectors[0][axis] + b * vectors[1][axis] + c * vectors[2][axis];
            position_.push_back(position_[3 * std::size_t(i) + axis] + moved);
          }
          owner_.push_back(i);
        }
      }
    }
  }
}

void PeriodicGraph::list_neighbors(int n_owned) {
  const base::Threads space;
  const int n = static_cast<int>(owner_.size());
  // A little wider than the cutoff: rounding must not put a neighbor two bins away.
  const Bins bins(position_, rcut_ * (1 + 1e-6));
  bin_of_.resize(n);
  bin_begin_.resize(std::size_t(bins.count()) + 1);
  bin_atoms_.resize(n);
  bin_cursor_.resize(bins.count());
  base::parallel_for(space, "bin_assign", n, AssignBins{bins, position_.data(), bin_of_.data()});
  base::group_by_key(space, "bin_group", n, bin_of_.data(), bins.count(), bin_begin_.data(),
                     bin_atoms_.data(), bin_cursor_.data());

  const NeighborSearch search{
      bins, {position_.data(), n, 3}, bin_begin_.data(), bin_atoms_.data(), rcut_ * rcut_};
  neighbor_begin_.resize(std::size_t(n_owned) + 1);
  base::parallel_for(space, "neighbors_count", n_owned,
                     CountNeighbors{search, neighbor_begin_.data()});
  base::exclusive_scan(space, "neighbors_scan", n_owned, neighbor_begin_.data());
  neighbors_.resize(static_cast<std::size_t>(neighbor_begin_.back()));
  base::parallel_for(space, "neighbors_write", n_owned,
                     WriteNeighbors{search, neighbor_begin_.data(), neighbors_.data()});
}

}  // namespace dpa4::graph
