// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>

#include "kernels/cuda/devices.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/hopper_weights.h"
#include "kernels/cuda/split_gemm.cuh"

/// The products of split_gemm.cuh with the instructions of Hopper: the same numbers, written as
/// pairs of float16 with the same scales, but A stays in registers and B comes from shared memory.
///
/// A block has three warpgroups that compute 64 rows each and one that fetches the slices of B, in
/// the order in which all three will use them, however many products follow one another: it is
/// ahead by as many slices as shared memory holds.
namespace dpa4::cuda {

inline constexpr int kHopperGroups = 3;  // warpgroups that compute
inline constexpr int kHopperRows = 64 * kHopperGroups;
inline constexpr int kHopperThreads = 128 * (kHopperGroups + 1);
inline constexpr int kHopperStages = 14;
inline constexpr int kHopperMostColumns = 96;
inline constexpr int kGroupRegisters = 160, kFetchRegisters = 32;

/// Slices of B on their way from global memory to the warpgroups.
struct HopperShared {
  alignas(128) unsigned char slice[kHopperStages][hopper_slice_bytes(kHopperMostColumns)];
  std::uint64_t full[kHopperStages];
  std::uint64_t empty[kHopperStages];

  __device__ void init() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kHopperStages; ++i) {
        barrier_init(&full[i], 1);
        barrier_init(&empty[i], 4 * kHopperGroups);  // warps
      }
      asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    }
    __syncthreads();
  }
};

/// A place in the ring of slices.
struct HopperRing {
  int stage = 0;
  unsigned parity = 0;

  __device__ void advance() {
    if (++stage == kHopperStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// The thread that fetches.
class HopperFetch {
 public:
  __device__ explicit HopperFetch(HopperShared& shared) : shared_(shared) {}

  /// The slices of a product, tile by tile from `tile_first` on.
  __device__ void product(const HopperWeights& weights, int batch, int tile_first, int tile_count) {
    const unsigned bytes = static_cast<unsigned>(hopper_slice_bytes(weights.columns));
    const unsigned char* from = weights.data + batch * weights.batch_stride +
                                static_cast<std::int64_t>(tile_first) * weights.slices * bytes;
    for (int i = 0; i < tile_count * weights.slices; ++i) {
      barrier_wait(&shared_.empty[ring_.stage], ring_.parity ^ 1);
      barrier_expect(&shared_.full[ring_.stage], bytes);
      copy_bulk(shared_.slice[ring_.stage], from, bytes, &shared_.full[ring_.stage]);
      from += bytes;
      ring_.advance();
    }
  }

 private:
  HopperShared& shared_;
  HopperRing ring_;
};

/// The slice of A of a thread: rows r and r + 8, of each two groups of four numbers.
struct HopperFragments {
  unsigned hi[2][4], lo[2][4];  // [step of 16 of k][register]
  float inverse[2];             // 1 / s of the rows

  __device__ __forceinline__ void make(const float (&raw)[2][8]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(raw[h][i]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      float scale;
      split_scale(largest, &scale, &inverse[h]);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          __half2 high, low;
          split_pair(raw[h][4 * step + 2 * j] * scale, raw[h][4 * step + 2 * j + 1] * scale, &high,
                     &low);
          hi[step][2 * j + h] = *reinterpret_cast<unsigned*>(&high);
          lo[step][2 * j + h] = *reinterpret_cast<unsigned*>(&low);
        }
      }
    }
  }
};

/// A warpgroup that computes.
class HopperGroup {
 public:
  __device__ explicit HopperGroup(HopperShared& shared)
      : shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        row_(static_cast<int>(threadIdx.x) % 128 / kWarp * 16 + lane_ / 4) {}

  /// Rows [row_first, row_first + 64) of C = A B, of which those below m exist, and the columns of
  /// the tiles from `tile_first` on.
  template <int kColumns, class Load, class Store>
  __device__ __forceinline__ void product(const GemmShape& shape, const HopperWeights& weights,
                                          int batch, int row_first, int tile_first, int tile_count,
                                          const Load& load, const Store& store) {
    if (row_first >= shape.m) return skip(tile_count * weights.slices);
    const int row = row_first + row_;
    const float weight_scale = *weights.inverse_scale;
    for (int tile = tile_first; tile < tile_first + tile_count; ++tile) {
      float sum[kColumns / 2];
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sum[i] = 0;
      // Numbers are on their way from memory for the time of so many slices, as registers allow.
      constexpr int kAhead = kColumns <= 64 ? 2 : 1;
      float raw[kAhead][2][8];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) fetch(load, shape, batch, row, i * kSplitDepth, raw[i]);
      HopperFragments fragments[2];
      fragments[0].make(raw[0]);
      for (int k = 0; k < shape.k; k += 2 * kSplitDepth) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (k + i * kSplitDepth >= shape.k) break;
          fetch(load, shape, batch, row, k + (i + kAhead) * kSplitDepth, raw[i % kAhead]);
          const bool more = k + (i + 1) * kSplitDepth < shape.k;
          slice<kColumns>(fragments[i], sum, [&] {
            if (more) fragments[1 - i].make(raw[(i + 1) % kAhead]);
          });
        }
      }
      finish<kColumns>(shape, batch, row, tile * kColumns, weight_scale, sum, store);
    }
  }

 private:
  template <class Load>
  __device__ __forceinline__ void fetch(const Load& load, const GemmShape& shape, int batch,
                                        int row, int k, float (&raw)[2][8]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const int from = k + 16 * step + 4 * (lane_ % 4);
        float* to = &raw[h][4 * step];
        to[0] = to[1] = to[2] = to[3] = 0;
        if (row + 8 * h < shape.m && from < shape.k) {
          load.template get<4>(batch, row + 8 * h, from, to);
        }
      }
    }
  }

  /// Without rows: the slices are only given free for the other groups.
  __device__ __forceinline__ void skip(int slices) {
    for (; slices > 0; --slices) {
      barrier_wait(&shared_.full[ring_.stage], ring_.parity);
      __syncwarp();
      if (lane_ == 0) barrier_arrive(&shared_.empty[ring_.stage]);
      ring_.advance();
    }
  }

  /// sum += one slice; meanwhile() runs while the tensor core works.
  template <int kColumns, class Meanwhile>
  __device__ __forceinline__ void slice(const HopperFragments& a, float (&sum)[kColumns / 2],
                                        const Meanwhile& meanwhile) {
    constexpr int kPlane = hopper_slice_bytes(kColumns) / 2, kStep = kPlane / 2;
    float inner[kColumns / 2];
    barrier_wait(&shared_.full[ring_.stage], ring_.parity);
    const unsigned char* b = shared_.slice[ring_.stage];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2; ++step) {  // lo hi, hi lo, hi hi: small ones first
      Wgmma<kColumns>::run(inner, a.lo[step], shared_matrix(b + step * kStep), step > 0);
      Wgmma<kColumns>::run(inner, a.hi[step], shared_matrix(b + kPlane + step * kStep), true);
      Wgmma<kColumns>::run(inner, a.hi[step], shared_matrix(b + step * kStep), true);
    }
    wgmma_commit();
    meanwhile();
    wgmma_wait();
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(inner[i]) : : "memory");
    if (lane_ == 0) barrier_arrive(&shared_.empty[ring_.stage]);
    ring_.advance();
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sum[i] += inner[i] * a.inverse[i / 2 % 2];
  }

  template <int kColumns, class Store>
  __device__ __forceinline__ void finish(const GemmShape& shape, int batch, int row,
                                         int column_first, float scale, float (&sum)[kColumns / 2],
                                         const Store& store) const {
    const auto for_pairs = [&](const auto& visit) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (row + 8 * h >= shape.m) continue;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          const int column = column_first + 8 * j + 2 * (lane_ % 4);
          if (column < shape.n) visit(row + 8 * h, column, &sum[4 * j + 2 * h]);
        }
      }
    };
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sum[i] *= scale;
    typename Store::template Old<2> old[kColumns / 4];
    for_pairs([&](int r, int column, const float* values) {
      old[(values - sum) / 2] = store.template old<2>(batch, r, column);
    });
    for_pairs([&](int r, int column, const float* values) {
      store.template put<2>(batch, r, column, values, old[(values - sum) / 2]);
    });
  }

  HopperShared& shared_;
  HopperRing ring_;
  int lane_, row_;
};

/// A product on a grid of blocks that go through the tiles of 192 rows x kColumns one after
/// another.
template <int kColumns, class Load, class Store>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper_gemm_kernel(GemmShape shape, HopperWeights weights, Load load, Store store) {
  begin_kernel();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char hopper_shared[];
  HopperShared& shared = *reinterpret_cast<HopperShared*>(hopper_shared);
  shared.init();
  const unsigned m_tiles = (shape.m + kHopperRows - 1) / kHopperRows;
  const unsigned tiles = m_tiles * weights.tiles * shape.batch;
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == kHopperGroups) {
    give_registers<kFetchRegisters>();
    if (threadIdx.x % 128 != 0) return;
    HopperFetch fetch(shared);
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
      fetch.product(weights, shape.weight_of(static_cast<int>(t / weights.tiles / m_tiles)),
                    static_cast<int>(t % weights.tiles), 1);
    }
  } else {
    take_registers<kGroupRegisters>();
    HopperGroup compute(shared);
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
      const int row = static_cast<int>(t / weights.tiles % m_tiles) * kHopperRows + 64 * group;
      compute.template product<kColumns>(shape, weights,
                                         static_cast<int>(t / weights.tiles / m_tiles), row,
                                         static_cast<int>(t % weights.tiles), 1, load, store);
    }
  }
#else
  static_cast<void>(shape), static_cast<void>(weights);
  static_cast<void>(load), static_cast<void>(store);
  __trap();  // the host chooses this kernel on Hopper only
#endif
}

template <int kColumns, class Load, class Store>
void hopper_gemm_tiles(const char* name, const GemmShape& shape, const HopperWeights& weights,
                       const Load& load, const Store& store, kernels::Stream stream) {
  const std::int64_t tiles =
      divide_up(shape.m, kHopperRows) * static_cast<std::int64_t>(weights.tiles) * shape.batch;
  launch(name, hopper_gemm_kernel<kColumns, Load, Store>,
         std::min<std::int64_t>(tiles, multiprocessors()), kHopperThreads, sizeof(HopperShared),
         stream, shape, weights, load, store);
}

/// C = A B with n and k multiples of 4 and 16-byte accesses, as split_gemm.
template <class Load, class Store>
void hopper_gemm(const char* name, const GemmShape& shape, const WeightMatrix<float>& matrix,
                 const Load& load, const Store& store, kernels::Stream stream) {
  if (shape.m <= 0 || shape.n <= 0 || shape.batch <= 0) return;
  const HopperWeights weights = hopper_weights(matrix, shape.k, shape.n, shape.n_weights(),
                                               hopper_tile_columns(shape.n), stream);
  switch (weights.columns) {
    case 96:
      return hopper_gemm_tiles<96>(name, shape, weights, load, store, stream);
    case 64:
      return hopper_gemm_tiles<64>(name, shape, weights, load, store, stream);
    default:
      return hopper_gemm_tiles<32>(name, shape, weights, load, store, stream);
  }
}

}  // namespace dpa4::cuda
