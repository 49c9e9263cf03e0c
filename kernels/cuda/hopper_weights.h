// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "kernels/api/common.h"
#include "kernels/cuda/matrix.cuh"

namespace dpa4::cuda {

/// Bytes of a slice of 32 rows of k and a tile of columns: hi and lo.
constexpr int hopper_slice_bytes(int columns) { return 2 * 2 * 32 * columns; }

/// Columns of a tile for a product with n columns. Columns beyond n are computed in vain; narrow
/// tiles prepare the left factor more often.
constexpr int hopper_tile_columns(int n) {
  constexpr int kColumns[] = {96, 64, 32}, kCost[] = {100, 115, 160};  // cost of a column
  int best = 0, lowest = 0;
  for (int i = 0; i < 3; ++i) {
    const int cost = (n + kColumns[i] - 1) / kColumns[i] * kColumns[i] * kCost[i];
    if (i == 0 || cost < lowest) {
      best = kColumns[i];
      lowest = cost;
    }
  }
  return best;
}

/// A weight matrix as s (hi + lo) in the order in which hopper_product.cuh uses it: for each batch
/// and tile of columns the slices of 32 rows, each first hi, then lo, each as two steps of 16 rows.
/// A step is made of blocks of 8 rows x 8 columns (a column's 8 rows are 16 bytes in a row), two
/// blocks for 8 columns. Row 2 q + t and 8 + 2 q + t of a step are rows 4 q + t and 4 q + 2 + t of
/// the matrix, so that a thread of the left factor reads four numbers in a row.
struct HopperWeights {
  const unsigned char* data = nullptr;
  const float* inverse_scale = nullptr;  // 1 / s
  int columns = 0;                       // of a tile
  int tiles = 0;
  int slices = 0;
  std::int64_t batch_stride = 0;  // bytes
};

/// As split_weights (split_weights.h), for tiles of `columns` columns.
HopperWeights hopper_weights(const WeightMatrix<float>& matrix, int k, int n, int batch,
                             int columns, kernels::Stream stream);

}  // namespace dpa4::cuda
