// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/weight_slices.cuh"

/// Products of float64 matrices on the tensor cores, which round as fused multiply-adds do.
namespace dpa4::cuda {

inline constexpr int kDoubleDepth = 16;  // of k at a time

/// c += a b for a 16 x 16 piece of A and a 16 x 8 piece of B. A lane, with g = lane / 4 and
/// t = lane % 4, has A(g + 8 i, 4 t + j) in a[i][j], B(4 t + j, g) in b[j] and C(g + 8 i, 2 t + j)
/// in c[i][j]. The instruction itself numbers k as t + 4 j, for A and B alike.
__device__ __forceinline__ void multiply_fragments(double (&c)[2][2], const double (&a)[2][4],
                                                   const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(c[0][0]), "+d"(c[0][1]), "+d"(c[1][0]), "+d"(c[1][1])
      : "d"(a[0][0]), "d"(a[1][0]), "d"(a[0][1]), "d"(a[1][1]), "d"(a[0][2]), "d"(a[1][2]),
        "d"(a[0][3]), "d"(a[1][3]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                   : "+d"(c[i][0]), "+d"(c[i][1])
                   : "d"(a[i][j]), "d"(b[j]));
    }
  }
#endif
}

/// Work of a block: a warp computes 32 x 32 elements of C.
template <int kWarpsDown, int kWarpsAcross>
struct DoubleTile {
  static constexpr int kRows = 32 * kWarpsDown, kColumns = 32 * kWarpsAcross;
  static constexpr int kAcross = kWarpsAcross;
  static constexpr int kThreads = kWarp * kWarpsDown * kWarpsAcross;
  static constexpr int kBlocks = 384 / kThreads;  // resident
};

/// One tile of a product. Two slices of A and B are in shared memory: one in use, the next on its
/// way, A through registers.
template <class Tile, class Load, class Store>
class DoubleGemm {
  static constexpr int kDepth = kDoubleDepth, kThreads = Tile::kThreads;
  static constexpr int kLoads = Tile::kRows * kDepth / (4 * kThreads);  // fours of A of a thread
  // Such that the fragments of a warp fall into different banks.
  static constexpr int kStrideA = kDepth + 2, kStrideB = Tile::kColumns + 4;

 public:
  struct Shared {
    double a[2][Tile::kRows][kStrideA];
    double b[2][kDepth][kStrideB];  // row k of a slice is at 4 (k % 4) + k / 4
  };

  __device__ DoubleGemm(const GemmShape& shape, const WeightMatrix<double>& weights,
                        const Load& load, Shared& shared)
      : shape_(shape),
        load_(load),
        shared_(shared),
        column_(static_cast<int>(blockIdx.x % across(shape)) * Tile::kColumns),
        row_(static_cast<int>(blockIdx.x / across(shape) % down(shape)) * Tile::kRows),
        batch_(static_cast<int>(blockIdx.x / across(shape) / down(shape))),
        weights_(shape, weights, batch_, column_) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int t = 0; t < 4; ++t) sum_[i][j][t / 2][t % 2] = 0;
      }
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

  /// The lanes 2 i and 2 i + 1 trade, so that each has four neighboring columns of one row of two.
  __device__ void finish(const Store& store) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int odd = lane % 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = row_ + warp_row() + 16 * i + 8 * odd + lane / 4;
      const int first = column_ + warp_column() + lane % 4 / 2 * 4;
      typename Store::template Old<4> old[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (row < shape_.m && first + 8 * j < shape_.n) {
          old[j] = store.template old<4>(batch_, row, first + 8 * j);
        }
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        double values[4];
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const double kept = odd == 0 ? sum_[i][j][0][t] : sum_[i][j][1][t];
          const double given = odd == 0 ? sum_[i][j][1][t] : sum_[i][j][0][t];
          const double got = __shfl_xor_sync(kAllLanes, given, 1);
          values[t] = odd == 0 ? kept : got;
          values[2 + t] = odd == 0 ? got : kept;
        }
        if (row < shape_.m && first + 8 * j < shape_.n) {
          store.template put<4>(batch_, row, first + 8 * j, values, old[j]);
        }
      }
    }
  }

 private:
  __device__ static unsigned across(const GemmShape& shape) {
    return (shape.n + Tile::kColumns - 1) / Tile::kColumns;
  }
  __device__ static unsigned down(const GemmShape& shape) {
    return (shape.m + Tile::kRows - 1) / Tile::kRows;
  }
  __device__ static int warp_row() {
    return static_cast<int>(threadIdx.x) / kWarp / Tile::kAcross * 32;
  }
  __device__ static int warp_column() {
    return static_cast<int>(threadIdx.x) / kWarp % Tile::kAcross * 32;
  }
  __device__ static int four_row(int t) {
    return (static_cast<int>(threadIdx.x) + t * kThreads) / (kDepth / 4);
  }
  __device__ static int four_k() { return static_cast<int>(threadIdx.x) % (kDepth / 4) * 4; }

  /// Slice [k, k + kDepth), zeros beyond the ends.
  __device__ __forceinline__ void fetch(int k, int buffer) {
    weights_.fetch(k, shared_.b[buffer], [](int row) { return row % 4 * 4 + row / 4; });
    const int from = k + four_k();
#pragma unroll
    for (int t = 0; t < kLoads; ++t) {
      const int row = row_ + four_row(t);
#pragma unroll
      for (int i = 0; i < 4; ++i) next_[t][i] = 0;
      if (row < shape_.m && from < shape_.k) load_.template get<4>(batch_, row, from, next_[t]);
    }
  }

  __device__ __forceinline__ void place(int buffer) {
#pragma unroll
    for (int t = 0; t < kLoads; ++t) {
      store_numbers<4>(&shared_.a[buffer][four_row(t)][four_k()], next_[t]);
    }
  }

  __device__ __forceinline__ void multiply(int buffer) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    double a[2][2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_numbers<4>(&shared_.a[buffer][warp_row() + 16 * i + 8 * half + lane / 4][lane % 4 * 4],
                        a[i][half]);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      double b[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        b[t] = shared_.b[buffer][lane % 4 + 4 * t][warp_column() + 8 * j + lane / 4];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) multiply_fragments(sum_[i][j], a[i], b);
    }
  }

  const GemmShape& shape_;
  const Load& load_;
  Shared& shared_;
  int column_, row_, batch_;
  WeightSlices<kDepth, Tile::kColumns, kThreads, double> weights_;
  double sum_[2][4][2][2];
  double next_[kLoads][4];
};

template <class Tile, class Load, class Store>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    double_gemm_kernel(GemmShape shape, WeightMatrix<double> weights, Load load, Store store) {
  begin_kernel();
  using Product = DoubleGemm<Tile, Load, Store>;
  extern __shared__ __align__(16) unsigned char double_gemm_shared[];
  Product product(shape, weights, load,
                  *reinterpret_cast<typename Product::Shared*>(double_gemm_shared));
  product.run();
  product.finish(store);
}

template <class Tile, class Load, class Store>
void double_gemm_tiles(const char* name, const GemmShape& shape,
                       const WeightMatrix<double>& weights, const Load& load, const Store& store,
                       kernels::Stream stream) {
  using Product = DoubleGemm<Tile, Load, Store>;
  const std::int64_t blocks =
      divide_up(shape.n, Tile::kColumns) * divide_up(shape.m, Tile::kRows) * shape.batch;
  launch(name, double_gemm_kernel<Tile, Load, Store>, blocks, Tile::kThreads,
         sizeof(typename Product::Shared), stream, shape, weights, load, store);
}

/// C = A B with a Load and a Store that take four numbers at a time, see simt_gemm.
template <class Load, class Store>
void double_gemm(const char* name, const GemmShape& shape, const WeightMatrix<double>& weights,
                 const Load& load, const Store& store, kernels::Stream stream) {
  constexpr std::int64_t kEnough = 264;  // tiles: two for each multiprocessor of a large device
  const bool pairs = round_up(shape.n, 32) % 64 == 0;  // of warps side by side
  if (divide_up(shape.m, 64) * divide_up(shape.n, 64) * shape.batch < kEnough) {
    double_gemm_tiles<DoubleTile<1, 1>>(name, shape, weights, load, store, stream);
  } else if (pairs) {
    double_gemm_tiles<DoubleTile<2, 2>>(name, shape, weights, load, store, stream);
  } else {
    double_gemm_tiles<DoubleTile<2, 1>>(name, shape, weights, load, store, stream);
  }
}

}  // namespace dpa4::cuda
