// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"

namespace dpa4::cuda {

/// Work of a block: kRows x kColumns elements of C, a thread computes kThreadRows x kThreadColumns.
template <int kRows_, int kColumns_, int kThreadRows_, int kThreadColumns_>
struct SimtTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kThreadRows = kThreadRows_, kThreadColumns = kThreadColumns_;
  static constexpr int kDepth = kThreadRows * kThreadColumns > 16 ? 8 : 16;  // of k at a time
  static constexpr int kAcross = kColumns / kThreadColumns;
  static constexpr int kDown = kRows / kThreadRows;
  static constexpr int kThreads = kAcross * kDown;
  static constexpr int kBlocks =
      kThreadRows * kThreadColumns > 16 ? 512 / kThreads : 2;  // resident
  static_assert(kThreadRows % 4 == 0 && kThreadColumns % 4 == 0);
  static_assert(kRows * kDepth % (4 * kThreads) == 0 && kColumns * kDepth % (4 * kThreads) == 0);
};

/// One tile of a product. Each number of C is a chain of fused multiply-adds in the order of k. The
/// next slice of A and B is on its way to registers while the current one is used.
template <class Tile, bool kVector, class Real, class Load, class Store>
class SimtGemm {
  static constexpr int kDepth = Tile::kDepth, kThreads = Tile::kThreads;
  static constexpr int kLoadsA = Tile::kRows * kDepth / (4 * kThreads);
  static constexpr int kLoadsB = Tile::kColumns * kDepth / (4 * kThreads);
  static constexpr int kStrideA = Tile::kRows + 4;  // fewer bank conflicts of the transposed writes
  static constexpr int kCount = kVector ? 4 : 1;

 public:
  struct Shared {
    Real a[2][kDepth][kStrideA];
    Real b[2][kDepth][Tile::kColumns];
  };

  __device__ SimtGemm(const GemmShape& shape, const WeightMatrix<Real>& weights, const Load& load,
                      Shared& shared)
      : shape_(shape), load_(load), shared_(shared) {
    const unsigned n_tiles = (shape.n + Tile::kColumns - 1) / Tile::kColumns;
    const unsigned m_tiles = (shape.m + Tile::kRows - 1) / Tile::kRows;
    const unsigned rest = blockIdx.x / n_tiles;
    column_ = static_cast<int>(blockIdx.x % n_tiles) * Tile::kColumns;
    row_ = static_cast<int>(rest % m_tiles) * Tile::kRows;
    batch_ = static_cast<int>(rest / m_tiles);
    b_ = weights.data + shape.weight_of(batch_) * weights.stride;
    ldb_ = weights.ld;
    step_ = weights.step;
#pragma unroll
    for (int i = 0; i < Tile::kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kThreadColumns; ++j) sum_[i][j] = 0;
    }
  }

  __device__ void run() {
    fetch(0);
    place(0);
    __syncthreads();
    int buffer = 0;
    for (int k = 0; k < shape_.k; k += kDepth) {
      const bool more = k + kDepth < shape_.k;
      if (more) fetch(k + kDepth);
      multiply(buffer);
      if (more) place(buffer ^ 1);
      __syncthreads();
      buffer ^= 1;
    }
  }

  __device__ void finish(const Store& store) const {
#pragma unroll
    for (int i = 0; i < Tile::kThreadRows; ++i) {
      const int row = row_ + thread_row(i);
      if (row >= shape_.m) continue;
#pragma unroll
      for (int j = 0; j < Tile::kThreadColumns; j += 4) {
        const int column = column_ + thread_column(j);
        if constexpr (kVector) {
          if (column < shape_.n) store.template put<4>(batch_, row, column, &sum_[i][j]);
        } else {
#pragma unroll
          for (int t = 0; t < 4; ++t) {
            if (column + t < shape_.n) {
              store.template put<1>(batch_, row, column + t, &sum_[i][j + t]);
            }
          }
        }
      }
    }
  }

 private:
  /// Rows and columns of a thread come in groups of four, so that shared memory is read in 16
  /// bytes.
  __device__ static int thread_row(int i) {
    const int down = static_cast<int>(threadIdx.x) / Tile::kAcross;
    return (i / 4) * (4 * Tile::kDown) + 4 * down + i % 4;
  }
  __device__ static int thread_column(int j) {
    const int across = static_cast<int>(threadIdx.x) % Tile::kAcross;
    return (j / 4) * (4 * Tile::kAcross) + 4 * across + j % 4;
  }

  /// Slice [k, k + kDepth) into registers, zeros beyond the ends.
  __device__ void fetch(int k) {
#pragma unroll
    for (int t = 0; t < kLoadsA; ++t) {
      const int at = static_cast<int>(threadIdx.x) + t * kThreads;
      const int row = row_ + at / (kDepth / 4), from = k + at % (kDepth / 4) * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) next_a_[t][i] = 0;
#pragma unroll
      for (int i = 0; i < 4; i += kCount) {
        if (row < shape_.m && from + i < shape_.k) {
          load_.template get<kCount>(batch_, row, from + i, &next_a_[t][i]);
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kLoadsB; ++t) {
      const int at = static_cast<int>(threadIdx.x) + t * kThreads;
      const int from = k + at / (Tile::kColumns / 4);
      const int column = column_ + at % (Tile::kColumns / 4) * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) next_b_[t][i] = 0;
      if (from >= shape_.k) continue;
      const Real* row = b_ + static_cast<std::int64_t>(from) * ldb_;
      if (kVector && step_ == 1) {
        if (column < shape_.n) load_numbers<4>(row + column, next_b_[t]);
        continue;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column + i < shape_.n) {
          next_b_[t][i] = row[static_cast<std::int64_t>(column + i) * step_];
        }
      }
    }
  }

  __device__ void place(int buffer) {
#pragma unroll
    for (int t = 0; t < kLoadsA; ++t) {
      const int at = static_cast<int>(threadIdx.x) + t * kThreads;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared_.a[buffer][at % (kDepth / 4) * 4 + i][at / (kDepth / 4)] = next_a_[t][i];
      }
    }
#pragma unroll
    for (int t = 0; t < kLoadsB; ++t) {
      const int at = static_cast<int>(threadIdx.x) + t * kThreads;
      store_numbers<4>(&shared_.b[buffer][at / (Tile::kColumns / 4)][at % (Tile::kColumns / 4) * 4],
                       next_b_[t]);
    }
  }

  __device__ void multiply(int buffer) {
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
  const Real* b_;
  int ldb_, step_;
  int row_, column_, batch_;
  Real sum_[Tile::kThreadRows][Tile::kThreadColumns];
  Real next_a_[kLoadsA][4], next_b_[kLoadsB][4];
};

template <class Tile, bool kVector, class Real, class Load, class Store>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    simt_gemm_kernel(GemmShape shape, WeightMatrix<Real> weights, Load load, Store store) {
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

/// C = A B. kVector: all addresses that `load`, `store` and the weights name are multiples of 16
/// bytes where the column or k is a multiple of 4, and n and k are multiples of 4. Large tiles
/// where they fill the device, small ones elsewhere.
template <bool kVector, class Real, class Load, class Store>
void simt_gemm(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
               const Load& load, const Store& store, kernels::Stream stream) {
  constexpr std::int64_t kEnough = 264;  // tiles: two for each multiprocessor of a large device
  const auto tiles = [&](int rows, int columns) {
    return divide_up(shape.m, rows) * divide_up(shape.n, columns) * shape.batch;
  };
  if constexpr (sizeof(Real) == 4 && kVector) {
    if (shape.n > 64 && tiles(128, 128) >= kEnough) {
      return simt_gemm_tiles<SimtTile<128, 128, 8, 8>, kVector>(name, shape, weights, load, store,
                                                                stream);
    }
    if (shape.n > 32 && tiles(128, 64) >= kEnough) {
      return simt_gemm_tiles<SimtTile<128, 64, 8, 8>, kVector>(name, shape, weights, load, store,
                                                               stream);
    }
  }
  if (shape.n > 32 && tiles(64, 64) >= kEnough) {
    return simt_gemm_tiles<SimtTile<64, 64, 4, 4>, kVector>(name, shape, weights, load, store,
                                                            stream);
  }
  simt_gemm_tiles<SimtTile<32, 32, 4, 4>, kVector>(name, shape, weights, load, store, stream);
}

}  // namespace dpa4::cuda
