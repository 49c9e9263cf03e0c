// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/matrix.cuh"

namespace dpa4::cuda {

/// Brings slices of a weight matrix, kDepth rows and kColumns columns at a time, to shared memory
/// without waiting. Zeros stand where the matrix has ended.
template <int kDepth, int kColumns, int kThreads, class Real>
class WeightSlices {
  static constexpr int kWide = 16 / static_cast<int>(sizeof(Real));  // numbers of 16 bytes
  static constexpr int kCount = kDepth * kColumns;
  static_assert(kCount % (kWide * kThreads) == 0);

 public:
  __device__ WeightSlices(const GemmShape& shape, const WeightMatrix<Real>& weights, int batch,
                          int column)
      : from_(weights.data + shape.weight_of(batch) * weights.stride),
        ld_(weights.ld),
        rows_(shape.k),
        columns_(shape.n - column) {
    from_ += column;
    wide_ = ld_ % kWide == 0 && reinterpret_cast<std::uintptr_t>(from_) % 16 == 0;
  }

  /// Rows k to k + kDepth; row i becomes to[place(i)].
  template <int kStride, class Place>
  __device__ __forceinline__ void fetch(int k, Real (*to)[kStride], const Place& place) const {
    if (wide_) {
#pragma unroll
      for (int t = 0; t < kCount / (kWide * kThreads); ++t) {
        const int at = static_cast<int>(threadIdx.x) + t * kThreads;
        const int row = at / (kColumns / kWide), column = at % (kColumns / kWide) * kWide;
        const int valid = k + row < rows_ ? min(max(columns_ - column, 0), kWide) : 0;
        copy_async_padded<kWide>(&to[place(row)][column], address(k + row, column), valid);
      }
    } else {
#pragma unroll 1
      for (int at = static_cast<int>(threadIdx.x); at < kCount; at += kThreads) {
        const int row = at / kColumns, column = at % kColumns;
        const int valid = k + row < rows_ && column < columns_ ? 1 : 0;
        copy_async_padded<1>(&to[place(row)][column], address(k + row, column), valid);
      }
    }
  }

 private:
  __device__ const Real* address(int row, int column) const {
    return from_ + static_cast<std::int64_t>(row) * ld_ + column;
  }

  const Real* from_;
  int ld_, rows_, columns_;
  bool wide_;
};

}  // namespace dpa4::cuda
