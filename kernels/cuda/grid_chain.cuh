// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/grid_chain.h"
#include "kernels/cuda/split_gemm.cuh"

/// Products of two fields on a grid without the fields in memory:
///
///   out[row, :] = ((first[row, :] A) o (second[row, :] B)) back
///
/// row = (item, channel), A and B (K, G), back (G, K). A warp takes 16 rows, whose coefficients
/// stay in registers, and goes through the grid 16 points at a time; the product of two pieces of
/// fields is the left factor of the way back as it stands in the accumulators. Numbers are split as
/// in split_gemm.cuh; the scale of a row of coefficients belongs to all of it.
namespace dpa4::cuda {

inline constexpr int kGridChainThreads = 128;  // 64 rows
inline constexpr int kGridChainRows = kGridChainThreads / kWarp * 16;
inline constexpr int kGridPoints = 16;  // points at a time

/// 16 rows of coefficients as left factors.
template <int kSteps>
struct GridFragments {
  unsigned hi[kSteps][4], lo[kSteps][4];
  float inverse[2];  // 1 / s of rows l / 4 and l / 4 + 8

  /// @param from  coefficient 0 of the rows; null: zeros
  __device__ __forceinline__ void load(const float* const (&from)[2], int size, int width) {
    const int quad = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float raw[kSteps][4];
      float largest = 0;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          const int k = 16 * step + 8 * (t / 2) + 2 * quad + t % 2;
          raw[step][t] =
              from[h] != nullptr && k < size ? from[h][static_cast<std::int64_t>(k) * width] : 0.0f;
          largest = fmaxf(largest, fabsf(raw[step][t]));
        }
      }
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      float scale;
      split_scale(largest, &scale, &inverse[h]);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          __half2 high, low;
          split_pair(raw[step][2 * j] * scale, raw[step][2 * j + 1] * scale, &high, &low);
          hi[step][2 * j + h] = *reinterpret_cast<unsigned*>(&high);
          lo[step][2 * j + h] = *reinterpret_cast<unsigned*>(&low);
        }
      }
    }
  }
};

/// Pieces of the matrices for 16 points; rows are padded so that fragments fall into different
/// banks.
template <int kSteps, int kPasses>
struct GridStage {
  __half to[kPasses][2][16 * kSteps][kGridPoints + 8];  // of first and, if it differs, of second
  __half back[2][kGridPoints][16 * kSteps + 8];
};

template <int kSteps, int kPasses>
struct GridChainShared {
  GridStage<kSteps, kPasses> stage[2];
  float first_result[kPasses - 1 + (kPasses == 1)][8 * kSteps][kGridChainThreads];
};

template <int kSteps, int kPasses>
class GridChain {
  using Stage = GridStage<kSteps, kPasses>;

 public:
  using Shared = GridChainShared<kSteps, kPasses>;

  __device__ GridChain(const GridChainArgs<kPasses>& args, Stage (&stage)[2])
      : args_(args), stage_(stage), lane_(static_cast<int>(threadIdx.x) % kWarp) {}

  /// sum[2 step + half][..] = columns 16 step + 8 half .. + 8 of the result, times the scale of
  /// back.
  __device__ __forceinline__ void run(const GridFragments<kSteps>& first,
                                      const GridFragments<kSteps>& second,
                                      float (&sum)[2 * kSteps][4]) {
    const float first_scale = *args_.first_to.inverse_scale;
    const float second_scale = *args_.second_to.inverse_scale;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
#pragma unroll
      for (int t = 0; t < 4; ++t) sum[i][t] = 0;
    }
    __syncthreads();  // an earlier pass may still read
    fetch(0, stage_[0]);
    int current = 0;
    for (int point = 0; point < args_.points; point += kGridPoints) {
      wait_for_copies();
      __syncthreads();
      if (point + kGridPoints < args_.points) fetch(point + kGridPoints, stage_[current ^ 1]);
      const Stage& stage = stage_[current];
      float product[2][4], other[2][4];
      field(first, stage.to[0], first_scale, product);
      field(second, stage.to[kPasses - 1], second_scale, other);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int t = 0; t < 4; ++t) product[j][t] *= other[j][t];
      }
      turn_back(product, stage, sum);
      current ^= 1;
    }
  }

 private:
  __device__ __forceinline__ void fetch(int point, Stage& stage) const {
    constexpr int kHalf = 16 * kSteps * 2;  // pieces of 16 bytes of a plane, in both matrices
    for (int at = static_cast<int>(threadIdx.x); at < 2 * kHalf; at += kGridChainThreads) {
      const int plane = at / kHalf, row = at % kHalf / 2, column = at % 2 * 8;
      copy_async_wide(&stage.to[0][plane][row][column],
                      args_.first_to.data + plane * args_.first_to.plane_stride +
                          static_cast<std::int64_t>(row) * args_.first_to.ld + point + column);
      if constexpr (kPasses == 2) {
        copy_async_wide(&stage.to[1][plane][row][column],
                        args_.second_to.data + plane * args_.second_to.plane_stride +
                            static_cast<std::int64_t>(row) * args_.second_to.ld + point + column);
      }
      const int place = at % kHalf, point_row = place / (2 * kSteps),
                piece = place % (2 * kSteps) * 8;
      copy_async_wide(&stage.back[plane][point_row][piece],
                      args_.back.data + plane * args_.back.plane_stride +
                          static_cast<std::int64_t>(point + point_row) * args_.back.ld + piece);
    }
  }

  /// 16 points of a field.
  __device__ __forceinline__ void field(const GridFragments<kSteps>& a,
                                        const __half (&to)[2][16 * kSteps][kGridPoints + 8],
                                        float scale, float (&value)[2][4]) const {
    float inner[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int t = 0; t < 4; ++t) value[j][t] = 0;
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step % 2 == 0) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
          for (int t = 0; t < 4; ++t) inner[j][t] = 0;
        }
      }
      unsigned b[2][4];
#pragma unroll
      for (int plane = 0; plane < 2; ++plane) {
        load_fragments_transposed(b[plane], &to[plane][16 * step + lane_ % 16][lane_ / 16 * 8]);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {  // lo hi, hi lo, hi hi: small ones first
        multiply_fragments(inner[j], a.lo[step], b[0][2 * j], b[0][2 * j + 1]);
        multiply_fragments(inner[j], a.hi[step], b[1][2 * j], b[1][2 * j + 1]);
        multiply_fragments(inner[j], a.hi[step], b[0][2 * j], b[0][2 * j + 1]);
      }
      if (step % 2 == 1 || step + 1 == kSteps) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
          for (int t = 0; t < 4; ++t) value[j][t] += inner[j][t];
        }
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int t = 0; t < 4; ++t) value[j][t] *= a.inverse[t / 2] * scale;
    }
  }

  __device__ __forceinline__ void turn_back(const float (&product)[2][4], const Stage& stage,
                                            float (&sum)[2 * kSteps][4]) const {
    unsigned hi[4], lo[4];
    float inverse[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = fmaxf(fmaxf(fabsf(product[0][2 * h]), fabsf(product[0][2 * h + 1])),
                            fmaxf(fabsf(product[1][2 * h]), fabsf(product[1][2 * h + 1])));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      float scale;
      split_scale(largest, &scale, &inverse[h]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        __half2 high, low;
        split_pair(product[j][2 * h] * scale, product[j][2 * h + 1] * scale, &high, &low);
        hi[2 * j + h] = *reinterpret_cast<unsigned*>(&high);
        lo[2 * j + h] = *reinterpret_cast<unsigned*>(&low);
      }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      unsigned b[2][4];
#pragma unroll
      for (int plane = 0; plane < 2; ++plane) {
        load_fragments_transposed(b[plane],
                                  &stage.back[plane][lane_ % 16][16 * step + lane_ / 16 * 8]);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float inner[4] = {0, 0, 0, 0};
        multiply_fragments(inner, lo, b[0][2 * j], b[0][2 * j + 1]);
        multiply_fragments(inner, hi, b[1][2 * j], b[1][2 * j + 1]);
        multiply_fragments(inner, hi, b[0][2 * j], b[0][2 * j + 1]);
#pragma unroll
        for (int t = 0; t < 4; ++t) sum[2 * step + j][t] += inner[t] * inverse[t / 2];
      }
    }
  }

  const GridChainArgs<kPasses>& args_;
  Stage (&stage_)[2];
  int lane_;
};

template <int kSteps, int kPasses>
__global__ void __launch_bounds__(kGridChainThreads, kSteps <= 3 ? 3 : 2)
    grid_chain_kernel(GridChainArgs<kPasses> args) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char grid_chain_shared[];
  using Chain = GridChain<kSteps, kPasses>;
  auto& shared = *reinterpret_cast<typename Chain::Shared*>(grid_chain_shared);
  Chain chain(args, shared.stage);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  std::int64_t row[2];
  std::int64_t place[2];  // of coefficient 0
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    row[h] = static_cast<std::int64_t>(blockIdx.x) * kGridChainRows +
             static_cast<int>(threadIdx.x) / kWarp * 16 + lane / 4 + 8 * h;
    const std::int64_t item = row[h] / args.width;
    place[h] = item * args.size * args.width + (row[h] - item * args.width);
  }
  const auto rows_of = [&](const float* data, const float*(&from)[2]) {
    for (int h = 0; h < 2; ++h) from[h] = row[h] < args.rows ? data + place[h] : nullptr;
  };
  const float back_scale = *args.back.inverse_scale;
  const float* from[2];
  GridFragments<kSteps> first, second;
  rows_of(args.first, from);
  first.load(from, args.size, args.width);
  float sum[2 * kSteps][4];
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
    rows_of(args.second[pass], from);
    second.load(from, args.size, args.width);
    chain.run(first, second, sum);
    if (pass + 1 < kPasses) {  // its place may still be needed
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
#pragma unroll
        for (int t = 0; t < 4; ++t) shared.first_result[0][4 * i + t][threadIdx.x] = sum[i][t];
      }
    }
  }
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const int k = 8 * i + 2 * (lane % 4) + t % 2;
        if (row[t / 2] >= args.rows || k >= args.size) continue;
        const float value =
            pass + 1 < kPasses ? shared.first_result[0][4 * i + t][threadIdx.x] : sum[i][t];
        args.out[pass][place[t / 2] + static_cast<std::int64_t>(k) * args.width] =
            value * back_scale;
      }
    }
  }
}

template <int kSteps, int kPasses>
void grid_chain_of_steps(const char* name, const GridChainArgs<kPasses>& args,
                         kernels::Stream stream) {
  using Shared = GridChainShared<kSteps, kPasses>;
  const std::size_t bytes = sizeof(Shared) - (kPasses == 1 ? sizeof(Shared::first_result) : 0);
  launch(name, grid_chain_kernel<kSteps, kPasses>, divide_up(args.rows, kGridChainRows),
         kGridChainThreads, bytes, stream, args);
}

}  // namespace dpa4::cuda
