// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/split_weights.h"

#include <tuple>

#include "kernels/cuda/hopper_weights.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/split_gemm.cuh"
#include "kernels/cuda/weight_cache.h"

namespace dpa4::cuda {

namespace {

// Bits of numbers >= 0 are ordered like the numbers, and a maximum does not depend on the order in
// which it is taken.
__global__ void largest_weight_kernel(WeightMatrix<float> matrix, int k, int n, unsigned* largest) {
  begin_kernel();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const std::int64_t size = static_cast<std::int64_t>(k) * n;
  const float* data = matrix.data + blockIdx.y * matrix.stride;
  if (at < size) {
    atomicMax(largest, __float_as_uint(fabsf(data[at / n * matrix.ld + at % n])));
  }
}

__global__ void split_weights_kernel(WeightMatrix<float> matrix, int k, int n, SplitWeights split,
                                     const unsigned* largest, __half* out, float* inverse_scale) {
  begin_kernel();
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
  begin_kernel();
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

/// A form of a matrix: one of the two.
struct WeightForm : DerivedWeights {
  SplitWeights split;
  HopperWeights hopper;
};

/// In front of the numbers of a form: bits of the largest one, 1 / s.
struct FormHeader {
  unsigned largest;
  float inverse_scale;
};
constexpr std::size_t kHeaderBytes = 256;

dim3 form_blocks(std::int64_t items, int batch) {
  return dim3(static_cast<unsigned>(divide_up(items, kBlock)), static_cast<unsigned>(batch));
}

/// Memory for `bytes` bytes behind a header with the largest number of the matrix.
FormHeader* begin_form(const WeightMatrix<float>& matrix, int k, int n, int batch,
                       std::int64_t bytes, cudaStream_t stream, WeightForm& form) {
  auto* header =
      static_cast<FormHeader*>(form.allocate(static_cast<std::int64_t>(kHeaderBytes) + bytes));
  form.made_from(matrix.data,
                 (batch - 1) * matrix.stride + static_cast<std::int64_t>(k - 1) * matrix.ld + n);
  DPA4_CUDA_TRY(cudaMemsetAsync(header, 0, kHeaderBytes, stream));
  find_largest_weight(matrix, k, n, batch, &header->largest, stream);
  return header;
}

void make_split(const WeightMatrix<float>& matrix, int k, int n, int batch, kernels::Stream stream,
                WeightForm& form) {
  SplitWeights& split = form.split;
  split.ld = round_up(n, split_tile_columns(n));
  split.plane_stride = static_cast<std::int64_t>(round_up(k, kSplitDepth)) * split.ld;
  split.batch_stride = 2 * split.plane_stride;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  FormHeader* header = begin_form(
      matrix, k, n, batch, batch * split.batch_stride * static_cast<std::int64_t>(sizeof(__half)),
      cuda_stream, form);
  auto* data = reinterpret_cast<__half*>(reinterpret_cast<char*>(header) + kHeaderBytes);
  split.data = data;
  split.inverse_scale = &header->inverse_scale;
  split_weights_kernel<<<form_blocks(split.plane_stride, batch), kBlock, 0, cuda_stream>>>(
      matrix, k, n, split, &header->largest, data, &header->inverse_scale);
  DPA4_CUDA_TRY(cudaGetLastError());
}

void make_hopper(const WeightMatrix<float>& matrix, int k, int n, int batch, int columns,
                 kernels::Stream stream, WeightForm& form) {
  HopperWeights& weights = form.hopper;
  weights.columns = columns;
  weights.tiles = static_cast<int>(divide_up(n, weights.columns));
  weights.slices = static_cast<int>(divide_up(k, kSplitDepth));
  weights.batch_stride = static_cast<std::int64_t>(weights.tiles) * weights.slices *
                         hopper_slice_bytes(weights.columns);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  FormHeader* header =
      begin_form(matrix, k, n, batch, batch * weights.batch_stride, cuda_stream, form);
  unsigned char* data = reinterpret_cast<unsigned char*>(header) + kHeaderBytes;
  weights.data = data;
  weights.inverse_scale = &header->inverse_scale;
  const std::int64_t numbers = weights.batch_stride / static_cast<std::int64_t>(2 * sizeof(__half));
  hopper_weights_kernel<<<form_blocks(numbers, batch), kBlock, 0, cuda_stream>>>(
      matrix, k, n, weights, &header->largest, reinterpret_cast<__half*>(data),
      &header->inverse_scale);
  DPA4_CUDA_TRY(cudaGetLastError());
}

/// Matrix, its ld, stride, k, n, batch, and columns of a tile of the form for Hopper or 0.
using FormKey = std::tuple<const float*, int, std::int64_t, int, int, int, int>;

/// All forms of all matrices.
WeightCache<FormKey, WeightForm>& forms() {
  static auto* const all =
      new WeightCache<FormKey, WeightForm>;  // the driver may be gone at the end
  return *all;
}

}  // namespace

void find_largest_weight(const WeightMatrix<float>& matrix, int k, int n, int batch,
                         unsigned* largest, kernels::Stream stream) {
  largest_weight_kernel<<<form_blocks(static_cast<std::int64_t>(k) * n, batch), kBlock, 0,
                          static_cast<cudaStream_t>(stream)>>>(matrix, k, n, largest);
}

SplitWeights split_weights(const WeightMatrix<float>& matrix, int k, int n, int batch,
                           kernels::Stream stream) {
  return forms()
      .find({matrix.data, matrix.ld, matrix.stride, k, n, batch, 0},
            [&](WeightForm& form) { make_split(matrix, k, n, batch, stream, form); })
      .split;
}

HopperWeights hopper_weights(const WeightMatrix<float>& matrix, int k, int n, int batch,
                             int columns, kernels::Stream stream) {
  return forms()
      .find({matrix.data, matrix.ld, matrix.stride, k, n, batch, columns},
            [&](WeightForm& form) { make_hopper(matrix, k, n, batch, columns, stream, form); })
      .hopper;
}

void forget_split_weights(const float* begin, const float* end) { forms().forget(begin, end); }

std::int64_t split_weight_bytes() { return forms().bytes(); }

}  // namespace dpa4::cuda
