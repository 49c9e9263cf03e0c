// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/split_weights.h"

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cuda/launch.cuh"
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
  if (at < size) atomicMax(largest, __float_as_uint(fabsf(data[at / n * matrix.ld + at % n])));
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

class Store {
 public:
  SplitWeights find(const WeightMatrix<float>& matrix, int k, int n, int batch,
                    kernels::Stream stream) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[Key(matrix.data, matrix.ld, matrix.stride, k, n, batch)];
    if (entry.memory == nullptr) make(matrix, k, n, batch, stream, entry);
    return entry.weights;
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
  using Key = std::tuple<const float*, int, std::int64_t, int, int, int>;
  struct Entry {
    SplitWeights weights;
    void* memory = nullptr;
    std::int64_t bytes = 0;
    const float* source_begin = nullptr;
    const float* source_end = nullptr;
  };

  void make(const WeightMatrix<float>& matrix, int k, int n, int batch, kernels::Stream stream,
            Entry& entry) {
    constexpr std::size_t kHeader = 256;
    SplitWeights& split = entry.weights;
    split.ld = round_up(n, split_tile_columns(n));
    split.plane_stride = static_cast<std::int64_t>(round_up(k, kSplitDepth)) * split.ld;
    split.batch_stride = 2 * split.plane_stride;
    entry.bytes = static_cast<std::int64_t>(kHeader) +
                  batch * split.batch_stride * static_cast<std::int64_t>(sizeof(__half));
    DPA4_CUDA_TRY(cudaMalloc(&entry.memory, static_cast<std::size_t>(entry.bytes)));
    bytes_ += entry.bytes;
    auto* header = static_cast<unsigned*>(entry.memory);
    auto* data = reinterpret_cast<__half*>(static_cast<char*>(entry.memory) + kHeader);
    split.data = data;
    split.inverse_scale = reinterpret_cast<float*>(header + 1);
    entry.source_begin = matrix.data;
    entry.source_end = matrix.data + (batch - 1) * matrix.stride +
                       static_cast<std::int64_t>(k - 1) * matrix.ld + n;

    const auto cuda_stream = static_cast<cudaStream_t>(stream);
    DPA4_CUDA_TRY(cudaMemsetAsync(header, 0, kHeader, cuda_stream));
    const auto blocks = [&](std::int64_t items) {
      return dim3(static_cast<unsigned>(divide_up(items, kBlock)), static_cast<unsigned>(batch));
    };
    largest_weight_kernel<<<blocks(static_cast<std::int64_t>(k) * n), kBlock, 0, cuda_stream>>>(
        matrix, k, n, header);
    split_weights_kernel<<<blocks(split.plane_stride), kBlock, 0, cuda_stream>>>(
        matrix, k, n, split, header, data, reinterpret_cast<float*>(header + 1));
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

void forget_weights(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const char*>(data);
  store().forget(reinterpret_cast<const float*>(begin),
                 reinterpret_cast<const float*>(begin + bytes));
}

std::int64_t split_weight_bytes() { return store().bytes(); }

}  // namespace dpa4::cuda
