// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/edge_condition.h"
#include "src/base/host_device.h"

namespace dpa4::cuda {

inline constexpr int kTableIntervals = 128;  // of equal length, from 0 to the cutoff
inline constexpr int kTableTerms = 8;        // of the polynomial of an interval
inline constexpr int kTableColumns = 32;     // of a part of a table
inline constexpr int kTableEdges = 896;      // that a block has at a time beside a part

/// hidden(basis(r)) w of an EdgeConditionNet as a function of the length r of an edge, which is all
/// that it depends on: in each interval a polynomial in t = -1..1 that interpolates it, computed in
/// double. Against the network itself the error is below 1e-8 of a column's largest value (what
/// float32 rounds is ten times that), or there is no table. The slope of such a polynomial is off
/// by some ten to a hundred times as much, relative to the largest slope.
struct RadialTable {
  /// (parts, kTableIntervals, kTableTerms, kTableColumns), columns beyond the last are 0; or null.
  /// A narrow part has its columns twice, side by side.
  const float* data = nullptr;
  int parts = 0;
};

/// Columns of a part of the table of a net: the last one may be narrow.
DPA4_HD constexpr int part_columns(int width, int part) {
  return width - part * kTableColumns <= kTableColumns / 2 ? kTableColumns / 2 : kTableColumns;
}

/// Numbers of a part of a table.
constexpr int table_part() { return kTableIntervals * kTableTerms * kTableColumns; }

/// What a block needs of one edge to look it up.
struct TableEdge {
  int terms;     // first number of the interval in the table
  float t;       // place in the interval
  float factor;  // of the net
  int types;     // 2^16 type of the source + type of the destination
};

/// Bytes of shared memory of a block that looks edges up: a part of the table and its edges.
/// Devices with less have no tables.
inline constexpr std::size_t kTableShared =
    sizeof(float) * static_cast<std::size_t>(table_part()) + sizeof(TableEdge) * kTableEdges;

/// The table of a net with weights in device memory. It is made at the first call, which waits for
/// the device, and remembered until the weights are forgotten (weight_memory.h).
RadialTable radial_table(const kernels::EdgeConditionNet<float>& net);

/// As forget_weights and derived_weight_bytes, for tables.
void forget_radial_tables(const float* begin, const float* end);
std::int64_t radial_table_bytes();

}  // namespace dpa4::cuda
