// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/split_weights.h"

/// Products of float32 matrices on the tensor cores, to the accuracy of float32 arithmetic.
///
/// A number is written as s (hi + lo) with two float16 and a power of two s, which keeps 22 bits
/// and more of it; hi hi + hi lo + lo hi then needs three products of float16. s belongs to a slice
/// of 32 numbers of a row of A, so that its largest number falls below 2^15, and to the whole
/// matrix B: no number overflows, and those that are small beside the largest one keep an absolute
/// error of 2^-39 of it. The tensor core adds with fewer bits than float32 has, so its sums end
/// after a slice of 32 and are added up outside, times s of the slice. A number that is not finite
/// gives NaN.
namespace dpa4::cuda {

inline constexpr int kSplitDepth = 32;  // of k at a time, the slice that shares a scale

/// s = 2^14 / 2^floor(log2 largest) and its inverse: s times the largest number is below 2^15.
__device__ __forceinline__ void split_scale(float largest, float* scale, float* inverse) {
  constexpr int kBias = 127, kTarget = 14, kMantissa = 23, kSmallest = 32;
  const int exponent = max(static_cast<int>(__float_as_uint(largest) >> kMantissa), kSmallest);
  *scale =
      __uint_as_float(static_cast<unsigned>(max(2 * kBias + kTarget - exponent, 1)) << kMantissa);
  *inverse = __uint_as_float(static_cast<unsigned>(exponent - kTarget) << kMantissa);
}

/// (a, b) = (hi.x + lo.x, hi.y + lo.y).
__device__ __forceinline__ void split_pair(float a, float b, __half2* hi, __half2* lo) {
  *hi = __floats2half2_rn(a, b);
  const float2 back = __half22float2(*hi);
  *lo = __floats2half2_rn(a - back.x, b - back.y);
}

__device__ __forceinline__ void load_fragments(unsigned (&r)[4], const __half* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(from));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_fragments_transposed(unsigned (&r)[4], const __half* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(from));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

/// c += a b for a 16 x 16 piece of A and a 16 x 8 piece of B.
__device__ __forceinline__ void multiply_fragments(float (&c)[4], const unsigned (&a)[4],
                                                   unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Work of a block: a warp computes 32 x 32 elements of C.
template <int kWarpsDown, int kWarpsAcross>
struct SplitTile {
  static constexpr int kRows = 32 * kWarpsDown, kColumns = 32 * kWarpsAcross;
  static constexpr int kAcross = kWarpsAcross;
  static constexpr int kThreads = kWarp * kWarpsDown * kWarpsAcross;
  // Resident blocks. A thread of a narrow tile fetches more of A and needs more than 128 registers.
  static constexpr int kBlocks = (kWarpsAcross == 4 ? 512 : 384) / kThreads;
};

/// One tile of a product. Two slices of A and B are in shared memory: one in use, the next being
/// made.
template <class Tile, class Load>
class SplitGemm {
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kStrideA = kSplitDepth + 8;  // rows of fragments fall into different banks
  static constexpr int kStrideB = Tile::kColumns + 8;
  static constexpr int kQuads = Tile::kRows * kSplitDepth / 4;  // of four numbers in a slice of A
  static constexpr int kLoadsA = (kQuads + kThreads - 1) / kThreads;
  static constexpr int kPieces = kSplitDepth * Tile::kColumns / 8;  // of 16 bytes in a half of B
  static constexpr int kLoadsB = (2 * kPieces + kThreads - 1) / kThreads;

 public:
  struct Stage {
    __half a[2][Tile::kRows][kStrideA];  // hi, lo
    __half b[2][kSplitDepth][kStrideB];
    float inverse[Tile::kRows];  // 1 / s of the rows
  };
  struct Shared {
    Stage stage[2];
  };

  __device__ SplitGemm(const GemmShape& shape, const SplitWeights& weights, const Load& load,
                       Shared& shared)
      : shape_(shape), load_(load), shared_(shared) {
    const unsigned n_tiles = (shape.n + Tile::kColumns - 1) / Tile::kColumns;
    const unsigned m_tiles = (shape.m + Tile::kRows - 1) / Tile::kRows;
    const unsigned rest = blockIdx.x / n_tiles;
    column_ = static_cast<int>(blockIdx.x % n_tiles) * Tile::kColumns;
    row_ = static_cast<int>(rest % m_tiles) * Tile::kRows;
    batch_ = static_cast<int>(rest / m_tiles);
    hi_ = weights.data + shape.weight_of(batch_) * weights.batch_stride + column_;
    plane_ = weights.plane_stride;
    ld_ = weights.ld;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int t = 0; t < 4; ++t) sum_[i][j][t] = 0;
      }
    }
  }

  __device__ void run() {
    fetch_b(0, shared_.stage[0]);
    fetch_a(0);
    place_a(shared_.stage[0]);
    wait_for_copies();
    __syncthreads();
    int current = 0;
    for (int k = 0; k < shape_.k; k += kSplitDepth) {
      const bool more = k + kSplitDepth < shape_.k;
      Stage& next = shared_.stage[current ^ 1];
      if (more) {
        fetch_b(k + kSplitDepth, next);
        fetch_a(k + kSplitDepth);
      }
      multiply(shared_.stage[current]);
      if (more) place_a(next);
      wait_for_copies();
      __syncthreads();
      current ^= 1;
    }
  }

  template <class Store>
  __device__ void finish(const Store& store, float weight_scale) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row_ + warp_row() + 16 * i + 8 * half + lane / 4;
        if (row >= shape_.m) continue;
        const int first = column_ + warp_column() + 2 * (lane % 4);
        typename Store::template Old<2> old[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (first + 8 * j < shape_.n) old[j] = store.template old<2>(batch_, row, first + 8 * j);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (first + 8 * j >= shape_.n) continue;
          const float values[2] = {sum_[i][j][2 * half] * weight_scale,
                                   sum_[i][j][2 * half + 1] * weight_scale};
          store.template put<2>(batch_, row, first + 8 * j, values, old[j]);
        }
      }
    }
  }

 private:
  __device__ static int warp_row() {
    return static_cast<int>(threadIdx.x) / kWarp / Tile::kAcross * 32;
  }
  __device__ static int warp_column() {
    return static_cast<int>(threadIdx.x) / kWarp % Tile::kAcross * 32;
  }

  /// Eight threads fetch the slice of a row.
  __device__ void fetch_a(int k) {
#pragma unroll
    for (int t = 0; t < kLoadsA; ++t) {
      const int at = static_cast<int>(threadIdx.x) + t * kThreads;
      const int row = row_ + at / 8, from = k + at % 8 * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) next_[t][i] = 0;
      if (at < kQuads && row < shape_.m && from < shape_.k) {
        load_.template get<4>(batch_, row, from, next_[t]);
      }
    }
  }

  __device__ void place_a(Stage& stage) {
#pragma unroll
    for (int t = 0; t < kLoadsA; ++t) {
      const int at = static_cast<int>(threadIdx.x) + t * kThreads;
      float largest = fmaxf(fmaxf(fabsf(next_[t][0]), fabsf(next_[t][1])),
                            fmaxf(fabsf(next_[t][2]), fabsf(next_[t][3])));
#pragma unroll
      for (int step = 4; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
      }
      float scale, inverse;
      split_scale(largest, &scale, &inverse);
      __half2 hi[2], lo[2];
      split_pair(next_[t][0] * scale, next_[t][1] * scale, &hi[0], &lo[0]);
      split_pair(next_[t][2] * scale, next_[t][3] * scale, &hi[1], &lo[1]);
      if (kQuads % kThreads != 0 && at >= kQuads) continue;
      *reinterpret_cast<uint2*>(&stage.a[0][at / 8][at % 8 * 4]) = *reinterpret_cast<uint2*>(hi);
      *reinterpret_cast<uint2*>(&stage.a[1][at / 8][at % 8 * 4]) = *reinterpret_cast<uint2*>(lo);
      if (at % 8 == 0) stage.inverse[at / 8] = inverse;
    }
  }

  __device__ void fetch_b(int k, Stage& stage) {
#pragma unroll
    for (int t = 0; t < kLoadsB; ++t) {
      const int at = static_cast<int>(threadIdx.x) + t * kThreads;
      if ((2 * kPieces) % kThreads != 0 && at >= 2 * kPieces) continue;
      const int plane = at / kPieces, piece = at % kPieces;
      const int row = piece / (Tile::kColumns / 8), column = piece % (Tile::kColumns / 8) * 8;
      copy_async_wide(&stage.b[plane][row][column],
                      hi_ + plane * plane_ + static_cast<std::int64_t>(k + row) * ld_ + column);
    }
  }

  __device__ void multiply(const Stage& stage) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    float inner[2][4][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int t = 0; t < 4; ++t) inner[i][j][t] = 0;
      }
    }
#pragma unroll
    for (int k = 0; k < kSplitDepth; k += 16) {
      unsigned a[2][2][4];  // plane, piece of 16 rows
      unsigned b[2][2][4];  // plane, piece of 16 columns
#pragma unroll
      for (int plane = 0; plane < 2; ++plane) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          load_fragments(a[plane][i],
                         &stage.a[plane][warp_row() + 16 * i + lane % 16][k + lane / 16 * 8]);
          load_fragments_transposed(
              b[plane][i], &stage.b[plane][k + lane % 16][warp_column() + 16 * i + lane / 16 * 8]);
        }
      }
#pragma unroll
      for (int term = 0; term < 3; ++term) {  // lo hi, hi lo, hi hi: small ones first
        const int plane_a = term == 0 ? 1 : 0, plane_b = term == 1 ? 1 : 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            multiply_fragments(inner[i][j], a[plane_a][i], b[plane_b][j / 2][j % 2 * 2],
                               b[plane_b][j / 2][j % 2 * 2 + 1]);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float inverse = stage.inverse[warp_row() + 16 * i + 8 * half + lane / 4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum_[i][j][2 * half] += inner[i][j][2 * half] * inverse;
          sum_[i][j][2 * half + 1] += inner[i][j][2 * half + 1] * inverse;
        }
      }
    }
  }

  const GemmShape& shape_;
  const Load& load_;
  Shared& shared_;
  const __half* hi_;
  std::int64_t plane_;
  int ld_;
  int row_, column_, batch_;
  float sum_[2][4][4];
  float next_[kLoadsA][4];
};

template <class Tile, class Load, class Store>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    split_gemm_kernel(GemmShape shape, SplitWeights weights, Load load, Store store) {
  begin_kernel();
  using Product = SplitGemm<Tile, Load>;
  extern __shared__ __align__(16) unsigned char split_gemm_shared[];
  Product product(shape, weights, load,
                  *reinterpret_cast<typename Product::Shared*>(split_gemm_shared));
  product.run();
  product.finish(store, *weights.inverse_scale);
}

template <class Tile, class Load, class Store>
void split_gemm_tiles(const char* name, const GemmShape& shape, const SplitWeights& weights,
                      const Load& load, const Store& store, kernels::Stream stream) {
  using Product = SplitGemm<Tile, Load>;
  const std::int64_t blocks =
      divide_up(shape.n, Tile::kColumns) * divide_up(shape.m, Tile::kRows) * shape.batch;
  launch(name, split_gemm_kernel<Tile, Load, Store>, blocks, Tile::kThreads,
         sizeof(typename Product::Shared), stream, shape, weights, load, store);
}

/// C = A B with n and k multiples of 4 and 16-byte accesses, see simt_gemm.
template <class Load, class Store>
void split_gemm(const char* name, const GemmShape& shape, const WeightMatrix<float>& matrix,
                const Load& load, const Store& store, kernels::Stream stream) {
  if (shape.m <= 0 || shape.n <= 0 || shape.batch <= 0) return;
  const SplitWeights weights = split_weights(matrix, shape.k, shape.n, shape.n_weights(), stream);
  switch (split_tile_columns(shape.n)) {
    case 128:
      return split_gemm_tiles<SplitTile<2, 4>>(name, shape, weights, load, store, stream);
    case 96:
      return split_gemm_tiles<SplitTile<2, 3>>(name, shape, weights, load, store, stream);
    case 64:
      return split_gemm_tiles<SplitTile<2, 2>>(name, shape, weights, load, store, stream);
    default:
      return split_gemm_tiles<SplitTile<2, 1>>(name, shape, weights, load, store, stream);
  }
}

}  // namespace dpa4::cuda
