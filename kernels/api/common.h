// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

/// What all operations share. An operation is one header of this folder: its argument struct is its
/// contract, and every backend implements it under the same name (see kernel_table.h).
///
/// Rules for every operation
/// - Arrays are row-major and contiguous unless a leading dimension ("ld", in elements) is given;
/// they
///   live in the memory of the backend. A pointer described as "or null" may be null.
/// - Counts fit `int`; offsets are computed in 64 bits. Zero counts are valid and do nothing.
/// - Inputs are never written. "out" arrays are written completely, "+=" arrays are added to.
/// - An operation enqueues its work on `stream`; it does not allocate, synchronize or read back.
/// - The result for an edge or a node has the same bits whatever else is in the call, so results do
/// not
///   depend on how edges are cut into cohorts, except for the association of sums over edges.
/// - No atomics: sums over the edges of a node run in the order of the edges.
///
/// Letters: N nodes, E edges of a model, `count` edges of a call; L degree, D = (L+1)^2 packed
/// rows, R = 3L+1 rows of the edge frame (orders |m| <= 1); C channels, F focus streams, Cf focus
/// width, Cw = F Cf, H heads of a focus, ch = Cf / H.
namespace dpa4::kernels {

/// A queue of work: a CUDA stream, or null on the host.
using Stream = void*;

/// The edges of one call: positions [first, first + count) of an order of all edges.
///
/// Edges are numbered by destination (EdgeList). With `order` null the positions are these numbers
/// and `begin` is the CSR array by destination; otherwise edge = order[position] lists the edges by
/// source and `begin` is the CSR array by source. Arrays "of the call" have `count` entries, entry
/// i for position first + i; arrays "by edge" have an entry for every edge of the model.
struct EdgeSlice {
  int first = 0;
  int count = 0;
  const int* order = nullptr;  // (E) or null
  const int* src = nullptr;    // (E) by edge
  const int* dst = nullptr;    // (E) by edge
  const int* begin = nullptr;  // (nodes + 1) positions at which a node's edges begin

  /// Nodes whose edges are in the call, [node_first, node_first + node_count): destinations or
  /// sources, as `begin`. The first and the last may have edges outside the call.
  int node_first = 0;
  int node_count = 0;
};

/// How radial features act on the rotated source features.
enum class RadialMixing {
  kScale,  // y[r, c] = k[l(r), c] x[r, c]
  kMix,    // y[o, c] = sum_i (sum_p k[i, o, p] basis[p, c]) x[i, c] within each signed order
};

/// Sizes of a block's messages.
struct MessageShape {
  int lmax = 0;     // L, 1..6
  int n_focus = 1;  // F
  int width = 0;    // Cf
  int n_heads = 1;  // H; 0: no attention, a message is weighted by its envelope
  RadialMixing mixing = RadialMixing::kMix;
  int rank = 1;  // p = 0..rank-1 of kMix

  int hidden() const { return n_focus * width; }             // Cw
  int full_rows() const { return (lmax + 1) * (lmax + 1); }  // D
  int local_rows() const { return 3 * lmax + 1; }            // R
  int row_size() const { return local_rows() * width; }      // elements of an edge in one focus
  int weights() const {
    return n_focus * (n_heads > 0 ? n_heads : 1);
  }  // message weights of an edge
  /// Radial coefficients of an edge: kScale (L+1, Cw); kMix (L+1, L+1, rank) for m = 0 followed by
  /// (L, L, rank) for m = -1 and m = +1 alike, indices (input degree, output degree, p).
  int radial_size() const {
    return mixing == RadialMixing::kScale ? (lmax + 1) * hidden()
                                          : ((lmax + 1) * (lmax + 1) + lmax * lmax) * rank;
  }
};

/// Rows of the edge frame, in this order: (l, 0) for l = 0..L, (l, -1) for l = 1..L, (l, +1) for
/// l = 1..L. Features of edges in the edge frame are stored focus by focus: (F, count, R, Cf).

/// Number of rotation coefficients of an edge, see wigner_rows.h.
constexpr int wigner_size(int lmax) { return 3 * lmax * (lmax + 2); }

}  // namespace dpa4::kernels
