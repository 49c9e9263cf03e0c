// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/api/common.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/devices.h"
#include "src/base/error.h"

/// How work is given to the device, and the patterns that most operations share.
namespace dpa4::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kBlock = 256;  // threads of a block where nothing else decides
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// A kernel of at most so many blocks may be started while the one before it in the stream ends.
/// More blocks keep the device busy for so long that the start is not noticed, but the waits are.
inline constexpr unsigned kOverlappedBlocks = 2048;
/// A kernel of at most so many blocks leaves multiprocessors free: those of the next one come in
/// while it runs, and wait there.
inline constexpr unsigned kSparseBlocks = 128;

/// First statement of every kernel: waits until the kernel before it has ended and what that wrote
/// is visible.
__device__ __forceinline__ void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x > kOverlappedBlocks) return;
  asm volatile("griddepcontrol.wait;" : : : "memory");
  if (gridDim.x <= kSparseBlocks) asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

/// Launches `kernel`, which starts with begin_kernel(), on `blocks` blocks; nothing for none.
/// Shared memory above the default limit is asked for first. Throws InputError if there is less.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t blocks, dim3 threads,
            std::size_t shared_bytes, kernels::Stream stream, const Arguments&... arguments) {
  constexpr std::int64_t kMostBlocks = 2147483647;
  constexpr std::size_t kDefaultShared = 48 * 1024;
  if (blocks <= 0) return;
  DPA4_EXPECTS(blocks <= kMostBlocks);
  if (shared_bytes > kDefaultShared) {
    require_shared_bytes(name, shared_bytes);
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(shared_bytes));
    if (error != cudaSuccess) fail_device(name, error);
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &overlap;
  config.numAttrs = blocks <= kOverlappedBlocks && overlaps_launches() ? 1 : 0;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
  if (error != cudaSuccess) fail_device(name, error);
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return (a + b - 1) / b * b; }

// ---- one thread an item, a matrix element, one warp an item
// --------------------------------------

template <class F>
__global__ void __launch_bounds__(kBlock) items_kernel(std::int64_t n, F f) {
  begin_kernel();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i < n) f(i);
}

/// f(i) for i = 0..n-1, a thread each.
template <class F>
void for_items(const char* name, std::int64_t n, kernels::Stream stream, const F& f) {
  launch(name, items_kernel<F>, divide_up(n, kBlock), kBlock, 0, stream, n, f);
}

template <class F>
__global__ void __launch_bounds__(kBlock) rows_kernel(int n_rows, int width, int parts, F f) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x / parts) * blockDim.y + threadIdx.y;
  const int c = static_cast<int>(blockIdx.x % parts * blockDim.x + threadIdx.x);
  if (row < n_rows && c < width) f(static_cast<int>(row), c);
}

/// f(row, c) for row = 0..n_rows-1, c = 0..width-1: neighboring threads take neighboring c.
template <class F>
void for_rows(const char* name, int n_rows, int width, kernels::Stream stream, const F& f) {
  if (n_rows <= 0 || width <= 0) return;
  int across = 1;
  while (across < width && across < kBlock) across *= 2;
  const int parts = static_cast<int>(divide_up(width, across));
  launch(name, rows_kernel<F>, divide_up(n_rows, kBlock / across) * parts,
         dim3(across, kBlock / across), 0, stream, n_rows, width, parts, f);
}

template <class F>
__global__ void __launch_bounds__(kBlock) warps_kernel(std::int64_t n, F f) {
  begin_kernel();
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (i < n) f(static_cast<int>(i), static_cast<int>(threadIdx.x % kWarp));
}

/// f(i, lane) for i = 0..n-1, a warp each: all its lanes call it.
template <class F>
void for_warps(const char* name, std::int64_t n, kernels::Stream stream, const F& f) {
  launch(name, warps_kernel<F>, divide_up(n, kBlock / kWarp), kBlock, 0, stream, n, f);
}

// ---- sums over lanes
// ------------------------------------------------------------------------------

/// Sum over the lanes of a warp, the same bits in every lane.
template <class T>
__device__ inline T warp_sum(T x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

template <class T>
__device__ inline T warp_max(T x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, x, step);
    x = other > x ? other : x;
  }
  return x;
}

template <int kHalf, int kLanesEach, int kCount, class T>
__device__ __forceinline__ void fold_over_lanes(T (&v)[kCount]) {
  if constexpr (kHalf > 0) {
    const bool upper = (threadIdx.x & (kHalf * kLanesEach)) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const T sent = upper ? v[i] : v[i + kHalf];
      const T kept = upper ? v[i + kHalf] : v[i];
      v[i] = kept + __shfl_xor_sync(kAllLanes, sent, kHalf * kLanesEach);
    }
    fold_over_lanes<kHalf / 2, kLanesEach>(v);
  }
}

/// Sums kCount values (a power of two, 32 at most) over the lanes of a warp at once: the lane j
/// returns the sum of the lanes' v[j / (32 / kCount)]. Far fewer exchanges than kCount warp_sum.
/// Destroys v.
template <int kCount, class T>
__device__ __forceinline__ T warp_sum_each(T (&v)[kCount]) {
  constexpr int kLanesEach = kWarp / kCount;
  fold_over_lanes<kCount / 2, kLanesEach>(v);
  T sum = v[0];
#pragma unroll
  for (int step = kLanesEach / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, step);
  }
  return sum;
}

// ---- edges
// ----------------------------------------------------------------------------------------

/// Number of the edge at position `first + i` of an order.
__device__ inline int edge_at(const kernels::EdgeSlice& edges, int i) {
  return edges.order != nullptr ? edges.order[edges.first + i] : edges.first + i;
}

/// Positions of the edges of a node that are in the call, as indices into its arrays.
struct Segment {
  int begin, end;

  __device__ Segment(const kernels::EdgeSlice& edges, int node) {
    begin = max(edges.begin[node] - edges.first, 0);
    end = min(edges.begin[node + 1] - edges.first, edges.count);
  }
};

/// Most channels of an edge or a node: three focus streams of 128.
inline constexpr int kMostChannels = 384;

/// Threads that share an edge or a node with `width` channels, one channel a thread, and how many
/// such groups a block has. A block has up to `block` threads, or more where one group has more.
struct ChannelGroups {
  int threads, groups, block_size;

  explicit ChannelGroups(int width, int block = kBlock)
      : threads(round_up(width, kWarp)),
        groups(block / threads > 0 ? block / threads : 1),
        block_size(block) {
    DPA4_EXPECTS(width >= 1 && width <= kMostChannels);
  }
  bool fits_block() const { return threads * groups <= block_size; }
  int warps() const { return threads * groups / kWarp; }
  dim3 block() const { return dim3(static_cast<unsigned>(threads), static_cast<unsigned>(groups)); }
};

/// Sums over the edges of each node of the call, one block a node: its groups of threads take turns
/// with the edges, each thread keeps kCount sums for its channel, and the groups' sums are added in
/// their order. body(node, i, c, sums) adds edge i of the call; finish(node, c, sums) takes the
/// result.
template <int kCount, class T, class Body, class Finish>
__global__ void __launch_bounds__(kMostChannels, 1)
    node_sum_kernel(kernels::EdgeSlice edges, int width, Body body, Finish finish) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char node_sum_shared[];
  T* shared = reinterpret_cast<T*>(node_sum_shared);
  const int node = edges.node_first + static_cast<int>(blockIdx.x);
  const Segment segment(edges, node);
  const int c = threadIdx.x;
  T sums[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) sums[k] = T(0);
  if (c < width) {
    constexpr int kAtOnce = kCount <= 4 ? 4 : 1;  // edges whose numbers are on their way
#pragma unroll kAtOnce
    for (int i = segment.begin + static_cast<int>(threadIdx.y); i < segment.end;
         i += static_cast<int>(blockDim.y)) {
      body(node, i, c, sums);
    }
  }
  for (unsigned group = 1; group < blockDim.y; ++group) {
    if (threadIdx.y == group) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) shared[k * blockDim.x + threadIdx.x] = sums[k];
    }
    __syncthreads();
    if (threadIdx.y == 0) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) sums[k] += shared[k * blockDim.x + threadIdx.x];
    }
    __syncthreads();
  }
  if (threadIdx.y == 0 && c < width) finish(node, c, sums);
}

template <int kCount, class T, class Body, class Finish>
void node_sums(const char* name, const kernels::EdgeSlice& edges, int width, kernels::Stream stream,
               const Body& body, const Finish& finish) {
  const ChannelGroups groups(width);
  const std::size_t shared = groups.groups > 1 ? sizeof(T) * kCount * groups.threads : 0;
  launch(name, node_sum_kernel<kCount, T, Body, Finish>, edges.node_count, groups.block(), shared,
         stream, edges, width, body, finish);
}

}  // namespace dpa4::cuda

/// Makes the two precisions of an operation.
#define DPA4_CUDA_INSTANTIATE(operation, Args)                                  \
  template void operation<float>(const kernels::Args<float>&, kernels::Stream); \
  template void operation<double>(const kernels::Args<double>&, kernels::Stream)
