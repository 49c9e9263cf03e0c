// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/api/common.h"
#include "kernels/cuda/matrix.cuh"

namespace dpa4::cuda {

/// Columns of the tile for a product with n columns: the widest that computes the fewest in vain.
constexpr int split_tile_columns(int n) {
  int best = 32;
  for (int columns = 64; columns <= 128; columns += 32) {
    if ((n + columns - 1) / columns * columns <= (n + best - 1) / best * best) best = columns;
  }
  return best;
}

/// A weight matrix as s (hi + lo), see split_gemm.cuh: row-major, k padded to whole slices and n to
/// whole tiles with zeros.
struct SplitWeights {
  const __half* data = nullptr;          // (batch, 2, k, n): hi, then lo
  const float* inverse_scale = nullptr;  // 1 / s, one for all batches
  int ld = 0;
  std::int64_t plane_stride = 0;
  std::int64_t batch_stride = 0;
};

/// Raises *largest, bits of a number >= 0, to the largest |number| of the matrices.
void find_largest_weight(const WeightMatrix<float>& matrix, int k, int n, int batch,
                         unsigned* largest, kernels::Stream stream);

/// The split form of weights in device memory. It is made at the first use of the matrix (on
/// `stream`, into memory of its own) and remembered by the matrix' address and sizes until
/// forget_weights (weight_memory.h).
SplitWeights split_weights(const WeightMatrix<float>& matrix, int k, int n, int batch,
                           kernels::Stream stream);

/// As forget_weights and derived_weight_bytes, for split_weights and hopper_weights.
void forget_split_weights(const float* begin, const float* end);
std::int64_t split_weight_bytes();

}  // namespace dpa4::cuda
