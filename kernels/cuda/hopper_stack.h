// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "kernels/api/so2_stack.h"

/// The mixing stack on Hopper: all layers of one part of the rows in one kernel. The part m = 0
/// goes first in the forward pass and makes the gates of both; in the backward pass |m| = 1 goes
/// first and leaves its share of the gates' gradients. See hopper_stack.cuh.
namespace dpa4::cuda {

enum class StackPart { kScalar, kVector };  // m = 0; m = -1 and +1

inline constexpr int kHopperMostLayers = 4;

/// True if these kernels can do this stack.
bool hopper_stack_covers(const kernels::MessageShape& shape, int n_layers);

void hopper_so2_stack(const kernels::So2StackArgs<float>& args, kernels::Stream stream);
void hopper_so2_stack_backward(const kernels::So2StackBackwardArgs<float>& args,
                               kernels::Stream stream);

/// Everything a kernel needs to know. Arrays of gates are (n_layers - 1, F, count, gates).
struct StackCall {
  int count = 0;
  int n_focus = 0;
  int n_layers = 0;
  int first = 0;                           // column of the part in a row
  int row = 0;                             // R Cf
  const unsigned char* weights = nullptr;  // chunks in the order of their use, focus by focus
  std::int64_t weight_stride = 0;          // bytes of a focus
  const float* inverse_scale = nullptr;    // (n_layers, 2): of the matrix, of the gates' matrix
  float* u = nullptr;                      // (F, count, row); the gradient in the backward pass
  float* kept = nullptr;                   // (n_layers, F, kept_rows, row) or null
  std::int64_t kept_rows = 0;
  const int* kept_row = nullptr;  // of each edge, negative: not kept; null: the edge's number
  bool keep_result = false;
  float* open = nullptr;   // sigmoid of the gates
  float* along = nullptr;  // sum over m = -1, +1 of gradient times value, for each gate
};

/// How a kernel divides its work. `width` columns, those of the part, shared by `column_groups`
/// warpgroups; `row_groups` times 64 edges. A product makes `tile` columns at a
/// time, those with the gates' matrix `gate_tile`.
struct StackPlan {
  int width, column_groups, row_groups, tile, gate_tile;
  int scalars;  // channels of a focus stream that the kernel is made for

  constexpr int own() const { return width / column_groups; }
  constexpr int groups() const { return column_groups * row_groups; }
};

/// The column in memory of a slot, see hopper_stack.cuh.
constexpr int stack_column(int slot) {
  return slot / 16 * 16 + slot % 8 / 2 * 4 + slot % 16 / 8 * 2 + slot % 2;
}

/// Bytes of 32 rows of `columns` columns of a weight matrix, hi and lo.
constexpr int stack_chunk_bytes(int columns) { return 32 * columns * 2 * 2; }

/// A kernel and what its launch needs.
struct StackKernel {
  StackPlan plan;
  void (*run)(const StackCall& call, kernels::Stream stream);
};

}  // namespace dpa4::cuda
