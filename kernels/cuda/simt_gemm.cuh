// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/weight_slices.cuh"

namespace dpa4::cuda {

/// Work of a block: kRows x kColumns elements of C, a thread computes kThreadRows x kThreadColumns.
/// A warp has four threads down and eight across, which reads shared memory without conflicts.
template <int kRows_, int kColumns_, int kThreadRows_, int kThreadColumns_>
struct SimtTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kThreadRows = kThreadRows_, kThreadColumns = kThreadColumns_;
  static constexpr int kDepth = 16;  // of k at a time
  static constexpr int kWarpRows = 4 * kThreadRows, kWarpColumns = 8 * kThreadColumns;
  static constexpr int kWarpsAcross = kColumns / kWarpColumns;
  static constexpr int kThreads = kWarp * kRows / kWarpRows * kWarpsAcross;
  static constexpr int kBlocks = 512 / kThreads;  // resident
  static_assert(kThreadRows % 4 == 0 && kThreadColumns % 4 == 0);
  static_assert(kRows % kWarpRows == 0 && kColumns % kWarpColumns == 0);
  static_assert(kRows * kDepth % (4 * kThreads) == 0);
};

/// One tile of a product. Each number of C is a chain of fused multiply-adds in the order of k. Two
/// slices of A and B are in shared memory: one in use, the next on its way, A through registers.
template <class Tile, bool kVector, class Real, class Load, class Store>
class SimtGemm {
  static constexpr int kDepth = Tile::kDepth, kThreads = Tile::kThreads;
  static constexpr int kLoads = Tile::kRows * kDepth / (4 * kThreads);  // fours of A of a thread
  // Fours of a row of A that neighboring threads take: two lead to no bank conflicts of the
  // transposed writes.
  static constexpr int kFours = kLoads % 2 == 0 ? 2 : kDepth / 4;
  static constexpr int kStride = Tile::kRows + 4;
  static constexpr int kCount = kVector ? 4 : 1;

 public:
  struct Shared {
    Real a[2][kDepth][kStride];
    Real b[2][kDepth][Tile::kColumns];
  };

  __device__ SimtGemm(const GemmShape& shape, const WeightMatrix<Real>& weights, const Load& load,
                      Shared& shared)
      : shape_(shape),
        load_(load),
        shared_(shared),
        column_(static_cast<int>(blockIdx.x % across(shape)) * Tile::kColumns),
        row_(static_cast<int>(blockIdx.x / across(shape) % down(shape)) * Tile::kRows),
        batch_(static_cast<int>(blockIdx.x / across(shape) / down(shape))),
        weights_(shape, weights, batch_, column_) {
#pragma unroll
    for (int i = 0; i < Tile::kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kThreadColumns; ++j) sum_[i][j] = 0;
    }
  }

  __device__ void run() {
    fetch(0, 0);
    place(0);
    wait_for_copies();
    __syncthreads();
    int buffer = 0;
#pragma unroll 1
    for (int k = 0; k < shape_.k; k += kDepth) {
      const bool more = k + kDepth < shape_.k;
      if (more) fetch(k + kDepth, buffer ^ 1);
      multiply(buffer);
      if (more) place(buffer ^ 1);
      wait_for_copies();
      __syncthreads();
      buffer ^= 1;
    }
  }

  /// What is old is asked for a row ahead.
  __device__ void finish(const Store& store) const {
    constexpr int kPieces = Tile::kThreadColumns / kCount;
    typename Store::template Old<kCount> old[2][kPieces];
    const auto for_pieces = [&](int i, const auto& visit) {
      const int row = row_ + thread_row(i);
      if (row >= shape_.m) return;
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int column = column_ + thread_column(piece * kCount);
        if (column < shape_.n) visit(row, column, piece);
      }
    };
    const auto ask = [&](int i) {
      for_pieces(i, [&](int row, int column, int piece) {
        old[i % 2][piece] = store.template old<kCount>(batch_, row, column);
      });
    };
    ask(0);
#pragma unroll
    for (int i = 0; i < Tile::kThreadRows; ++i) {
      if (i + 1 < Tile::kThreadRows) ask(i + 1);
      for_pieces(i, [&](int row, int column, int piece) {
        store.template put<kCount>(batch_, row, column, &sum_[i][piece * kCount],
                                   old[i % 2][piece]);
      });
    }
  }

 private:
  __device__ static unsigned across(const GemmShape& shape) {
    return (shape.n + Tile::kColumns - 1) / Tile::kColumns;
  }
  __device__ static unsigned down(const GemmShape& shape) {
    return (shape.m + Tile::kRows - 1) / Tile::kRows;
  }
  /// Rows and columns of a thread come in groups of four, so that shared memory is read in 16
  /// bytes.
  __device__ static int thread_row(int i) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp / Tile::kWarpsAcross;
    return warp * Tile::kWarpRows + i / 4 * 16 + static_cast<int>(threadIdx.x) % kWarp / 8 * 4 +
           i % 4;
  }
  __device__ static int thread_column(int j) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp % Tile::kWarpsAcross;
    return warp * Tile::kWarpColumns + j / 4 * 32 + static_cast<int>(threadIdx.x) % 8 * 4 + j % 4;
  }
  /// Row and first k of the t-th four of A of this thread.
  __device__ static int four_row(int t) {
    constexpr int kTimes = kDepth / 4 / kFours;
    return (static_cast<int>(threadIdx.x) + t / kTimes * kThreads) / kFours;
  }
  __device__ static int four_k(int t) {
    constexpr int kTimes = kDepth / 4 / kFours;
    return (t % kTimes * kFours + static_cast<int>(threadIdx.x) % kFours) * 4;
  }

  /// Slice [k, k + kDepth), zeros beyond the ends.
  __device__ __forceinline__ void fetch(int k, int buffer) {
    weights_.fetch(k, shared_.b[buffer], [](int row) { return row; });
#pragma unroll
    for (int t = 0; t < kLoads; ++t) {
      const int row = row_ + four_row(t), from = k + four_k(t);
#pragma unroll
      for (int i = 0; i < 4; ++i) next_[t][i] = 0;
#pragma unroll
      for (int i = 0; i < 4; i += kCount) {
        if (row < shape_.m && from + i < shape_.k) {
          load_.template get<kCount>(batch_, row, from + i, &next_[t][i]);
        }
      }
    }
  }

  __device__ __forceinline__ void place(int buffer) {
#pragma unroll
    for (int t = 0; t < kLoads; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) shared_.a[buffer][four_k(t) + i][four_row(t)] = next_[t][i];
    }
  }

  __device__ __forceinline__ void multiply(int buffer) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      Real a[Tile::kThreadRows], b[Tile::kThreadColumns];
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; i += 4) {
        load_numbers<4>(&shared_.a[buffer][k][thread_row(i)], a + i);
      }
#pragma unroll
      for (int j = 0; j < Tile::kThreadColumns; j += 4) {
        load_numbers<4>(&shared_.b[buffer][k][thread_column(j)], b + j);
      }
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kThreadColumns; ++j) sum_[i][j] += a[i] * b[j];
      }
    }
  }

  const GemmShape& shape_;
  const Load& load_;
  Shared& shared_;
  int column_, row_, batch_;
  WeightSlices<kDepth, Tile::kColumns, kThreads, Real> weights_;
  Real sum_[Tile::kThreadRows][Tile::kThreadColumns];
  Real next_[kLoads][4];
};

template <class Tile, bool kVector, class Real, class Load, class Store>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    simt_gemm_kernel(GemmShape shape, WeightMatrix<Real> weights, Load load, Store store) {
  begin_kernel();
  using Product = SimtGemm<Tile, kVector, Real, Load, Store>;
  extern __shared__ __align__(16) unsigned char simt_gemm_shared[];
  Product product(shape, weights, load,
                  *reinterpret_cast<typename Product::Shared*>(simt_gemm_shared));
  product.run();
  product.finish(store);
}

template <class Tile, bool kVector, class Real, class Load, class Store>
void simt_gemm_tiles(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
                     const Load& load, const Store& store, kernels::Stream stream) {
  using Product = SimtGemm<Tile, kVector, Real, Load, Store>;
  const std::int64_t blocks =
      divide_up(shape.n, Tile::kColumns) * divide_up(shape.m, Tile::kRows) * shape.batch;
  launch(name, simt_gemm_kernel<Tile, kVector, Real, Load, Store>, blocks, Tile::kThreads,
         sizeof(typename Product::Shared), stream, shape, weights, load, store);
}

/// C = A B. kVector: `load` and `store` take four numbers at a time (they see to the end of a row
/// themselves where n or k is not a multiple of 4). Large tiles where they fill the device, small
/// ones elsewhere.
template <bool kVector, class Real, class Load, class Store>
void simt_gemm(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
               const Load& load, const Store& store, kernels::Stream stream) {
  constexpr std::int64_t kEnough = 264;  // tiles: two for each multiprocessor of a large device
  const auto enough = [&](int rows, int columns) {
    return divide_up(shape.m, rows) * divide_up(shape.n, columns) * shape.batch >= kEnough;
  };
  const auto take = [&]<class Tile>(Tile) {
    simt_gemm_tiles<Tile, kVector>(name, shape, weights, load, store, stream);
  };
  if constexpr (sizeof(Real) == 4 && kVector) {
    // Twice as wide a tile is worth a fifth more columns.
    const int narrow = round_up(shape.n, 64), wide = round_up(shape.n, 128);
    if (4 * wide < 5 * narrow && enough(128, 128)) return take(SimtTile<128, 128, 8, 8>{});
    if (shape.n > 32 && enough(128, 64)) return take(SimtTile<128, 64, 8, 8>{});
    if (enough(128, 32)) return take(SimtTile<128, 32, 8, 4>{});
  }
  if (shape.n > 32 && enough(64, 64)) return take(SimtTile<64, 64, 4, 4>{});
  take(SimtTile<32, 32, 4, 4>{});
}

}  // namespace dpa4::cuda
