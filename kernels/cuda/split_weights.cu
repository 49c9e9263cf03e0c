// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/split_weights.h"

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cuda/devices.h"
#include "kernels/cuda/hopper_stack_weights.h"
#include "kernels/cuda/hopper_weights.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/radial_table.h"
#include "kernels/cuda/split_gemm.cuh"
#include "kernels/cuda/weight_memory.h"

namespace dpa4::cuda {

namespace {

/// The largest |number| of a matrix as the bits of a float: for numbers >= 0 these are ordered like
/// the numbers themselves, and a maximum does not depend on the order in which it is taken.
__global__ void largest_weight_kernel(WeightMatrix<float> matrix, int k, int n, unsigned* largest) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const std::int64_t size = static_cast<std::int64_t>(k) * n;
  const float* data = matrix.data + blockIdx.y * matrix.stride;
  if (at < size) {
    atomicMax(largest, __float_as_uint(fabsf(data[at / n * matrix.ld + at % n])));
  }
}

__global__ void split_weights_kernel(WeightMatrix<float> matrix, int k, int n, SplitWeights split,
                                     const unsigned* largest, __half* out, float* inverse_scale) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (at >= split.plane_stride) return;
  float scale, inverse;
  split_scale(__uint_as_float(*largest), &scale, &inverse);
  if (at == 0 && blockIdx.y == 0) *inverse_scale = inverse;
  const int row = static_cast<int>(at / split.ld), column = static_cast<int>(at % split.ld);
  float value = 0;
  if (row < k && column < n) {
    value = scale * matrix.data[blockIdx.y * matrix.stride +
                                static_cast<std::int64_t>(row) * matrix.ld + column];
  }
  __half2 hi, lo;
  split_pair(value, 0, &hi, &lo);
  out[blockIdx.y * split.batch_stride + at] = __low2half(hi);
  out[blockIdx.y * split.batch_stride + split.plane_stride + at] = __low2half(lo);
}

__global__ void hopper_weights_kernel(WeightMatrix<float> matrix, int k, int n,
                                      HopperWeights weights, const unsigned* largest, __half* out,
                                      float* inverse_scale) {
  const std::int64_t size = weights.batch_stride / static_cast<std::int64_t>(2 * sizeof(__half));
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (number >= size) return;
  float scale, inverse;
  split_scale(__uint_as_float(*largest), &scale, &inverse);
  if (number == 0 && blockIdx.y == 0) *inverse_scale = inverse;
  // number = (tile, slice, step, eight columns, half of the rows, column, row)
  const int plane = kSplitDepth * weights.columns;
  const int in_plane = static_cast<int>(number % plane);
  const std::int64_t block = number / plane;
  const int row_in_block = in_plane % 8, column_in_block = in_plane / 8 % 8;
  const int upper = in_plane / 64 % 2, eight = in_plane / 128 % (weights.columns / 8);
  const int step = in_plane / (16 * weights.columns);
  const int row = static_cast<int>(block % weights.slices) * kSplitDepth + 16 * step +
                  4 * (row_in_block / 2) + 2 * upper + row_in_block % 2;
  const int column =
      static_cast<int>(block / weights.slices) * weights.columns + 8 * eight + column_in_block;
  float value = 0;
  if (row < k && column < n) {
    value = scale * matrix.data[blockIdx.y * matrix.stride +
                                static_cast<std::int64_t>(row) * matrix.ld + column];
  }
  __half2 hi, lo;
  split_pair(value, 0, &hi, &lo);
  __half* to = out + blockIdx.y * 2 * size + block * 2 * plane + in_plane;
  to[0] = __low2half(hi);
  to[plane] = __low2half(lo);
}

/// All forms of all matrices, by address and sizes.
class Store {
 public:
  SplitWeights find(const WeightMatrix<float>& matrix, int k, int n, int batch,
                    kernels::Stream stream) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[key(matrix, k, n, batch, 0)];
    if (entry.memory == nullptr) make_split(matrix, k, n, batch, stream, entry);
    return entry.split;
  }

  HopperWeights find_hopper(const WeightMatrix<float>& matrix, int k, int n, int batch, int columns,
                            kernels::Stream stream) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[key(matrix, k, n, batch, columns)];
    if (entry.memory == nullptr) make_hopper(matrix, k, n, batch, columns, stream, entry);
    return entry.hopper;
  }

  void forget(const float* begin, const float* end) {
    const std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (it->second.source_begin < end && begin < it->second.source_end) {
        static_cast<void>(cudaFree(it->second.memory));
        bytes_ -= it->second.bytes;
        it = entries_.erase(it);
      } else {
        ++it;
      }
    }
  }

  std::int64_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  using Key = std::tuple<const float*, int, std::int64_t, int, int, int, int>;
  static Key key(const WeightMatrix<float>& matrix, int k, int n, int batch, int columns) {
    return {matrix.data, matrix.ld, matrix.stride, k, n, batch, columns};
  }
  struct Entry {
    SplitWeights split;
    HopperWeights hopper;
    void* memory = nullptr;
    std::int64_t bytes = 0;
    const float* source_begin = nullptr;
    const float* source_end = nullptr;
  };
  /// In front of the numbers: bits of the largest one, 1 / s.
  struct Header {
    unsigned largest;
    float inverse_scale;
  };
  static constexpr std::size_t kHeaderBytes = 256;

  static dim3 blocks(std::int64_t items, int batch) {
    return dim3(static_cast<unsigned>(divide_up(items, kBlock)), static_cast<unsigned>(batch));
  }

  /// Memory for `bytes` bytes behind a header with the largest number of the matrix.
  Header* begin(const WeightMatrix<float>& matrix, int k, int n, int batch, std::int64_t bytes,
                cudaStream_t stream, Entry& entry) {
    entry.bytes = static_cast<std::int64_t>(kHeaderBytes) + bytes;
    DPA4_CUDA_TRY(cudaMalloc(&entry.memory, static_cast<std::size_t>(entry.bytes)));
    bytes_ += entry.bytes;
    entry.source_begin = matrix.data;
    entry.source_end = matrix.data + (batch - 1) * matrix.stride +
                       static_cast<std::int64_t>(k - 1) * matrix.ld + n;
    auto* header = static_cast<Header*>(entry.memory);
    DPA4_CUDA_TRY(cudaMemsetAsync(header, 0, kHeaderBytes, stream));
    largest_weight_kernel<<<blocks(static_cast<std::int64_t>(k) * n, batch), kBlock, 0, stream>>>(
        matrix, k, n, &header->largest);
    return header;
  }

  void make_split(const WeightMatrix<float>& matrix, int k, int n, int batch,
                  kernels::Stream stream, Entry& entry) {
    SplitWeights& split = entry.split;
    split.ld = round_up(n, split_tile_columns(n));
    split.plane_stride = static_cast<std::int64_t>(round_up(k, kSplitDepth)) * split.ld;
    split.batch_stride = 2 * split.plane_stride;
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    Header* header = begin(matrix, k, n, batch,
                           batch * split.batch_stride * static_cast<std::int64_t>(sizeof(__half)),
                           cuda_stream, entry);
    auto* data = reinterpret_cast<__half*>(static_cast<char*>(entry.memory) + kHeaderBytes);
    split.data = data;
    split.inverse_scale = &header->inverse_scale;
    split_weights_kernel<<<blocks(split.plane_stride, batch), kBlock, 0, cuda_stream>>>(
        matrix, k, n, split, &header->largest, data, &header->inverse_scale);
    DPA4_CUDA_TRY(cudaGetLastError());
  }

  void make_hopper(const WeightMatrix<float>& matrix, int k, int n, int batch, int columns,
                   kernels::Stream stream, Entry& entry) {
    HopperWeights& weights = entry.hopper;
    weights.columns = columns;
    weights.tiles = static_cast<int>(divide_up(n, weights.columns));
    weights.slices = static_cast<int>(divide_up(k, kSplitDepth));
    weights.batch_stride = static_cast<std::int64_t>(weights.tiles) * weights.slices *
                           hopper_slice_bytes(weights.columns);
    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    Header* header = begin(matrix, k, n, batch, batch * weights.batch_stride, cuda_stream, entry);
    unsigned char* data = static_cast<unsigned char*>(entry.memory) + kHeaderBytes;
    weights.data = data;
    weights.inverse_scale = &header->inverse_scale;
    const std::int64_t numbers =
        weights.batch_stride / static_cast<std::int64_t>(2 * sizeof(__half));
    hopper_weights_kernel<<<blocks(numbers, batch), kBlock, 0, cuda_stream>>>(
        matrix, k, n, weights, &header->largest, reinterpret_cast<__half*>(data),
        &header->inverse_scale);
    DPA4_CUDA_TRY(cudaGetLastError());
  }

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::int64_t bytes_ = 0;
};

Store& store() {
  static Store* const all = new Store;  // never destroyed: the driver may be gone at the end
  return *all;
}

}  // namespace

SplitWeights split_weights(const WeightMatrix<float>& matrix, int k, int n, int batch,
                           kernels::Stream stream) {
  return store().find(matrix, k, n, batch, stream);
}

HopperWeights hopper_weights(const WeightMatrix<float>& matrix, int k, int n, int batch,
                             int columns, kernels::Stream stream) {
  return store().find_hopper(matrix, k, n, batch, columns, stream);
}

namespace {

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  DPA4_CUDA_TRY(cudaGetDevice(&device));
  DPA4_CUDA_TRY(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

}  // namespace

int multiprocessors() {
  static const int count = device_attribute(cudaDevAttrMultiProcessorCount);
  return count;
}

std::size_t most_shared_bytes() {
  static const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return static_cast<std::size_t>(bytes);
}

bool has_hopper_products() {
#ifdef DPA4_CUDA_HOPPER
  static const bool hopper = device_attribute(cudaDevAttrComputeCapabilityMajor) == 9;
  return hopper;
#else
  return false;
#endif
}

void forget_weights(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const char*>(data);
  const auto* first = reinterpret_cast<const float*>(begin);
  const auto* last = reinterpret_cast<const float*>(begin + bytes);
  store().forget(first, last);
  forget_stack_weights(first, last);
  forget_radial_tables(first, last);
}

std::int64_t split_weight_bytes() {
  return store().bytes() + stack_weight_bytes() + radial_table_bytes();
}

}  // namespace dpa4::cuda
