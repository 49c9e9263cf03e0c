// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/api/common.h"

/// What the matrix products of this backend share: C = A B with A read through a `Load`, B a weight
/// matrix, and C handed to a `Store`.
///
///   Load:   template <int kCount> void get(int batch, int row, int k, Real* values) const
///           A[row, k .. k + kCount); kCount is 1 or 4, and then k % 4 == 0
///   Store:  template <int kCount> struct Old
///           what put needs of memory, perhaps nothing
///           template <int kCount> Old<kCount> old(int batch, int row, int column) const
///           template <int kCount>
///           void put(int batch, int row, int column, const Real* values, const Old<kCount>&) const
///           C[row, column .. column + kCount); kCount is 1, 2 or 4, and divides column
///
/// Some of what is old is asked for before anything is written: much faster than one element after
/// another, which the compiler may not put in another order. Nobody reads what another one writes.
///
/// Every element of C is one sum in the order of k, cut the same way whatever the tile it falls
/// into, so its bits depend neither on the number of rows nor on the row's place.
namespace dpa4::cuda {

struct GemmShape {
  int m = 0;
  int n = 0;
  int k = 0;
  int batch = 1;
  bool by_degree = false;  // batch b takes the weights of its degree, see kernels/api/gemm.h

  /// Weight matrix of a batch.
  __host__ __device__ int weight_of(int b) const {
    if (!by_degree) return b;
    int degree = 0;
    while ((degree + 1) * (degree + 1) <= b) ++degree;
    return degree;
  }
  int n_weights() const { return weight_of(batch - 1) + 1; }
};

/// B (k, n) of each batch: element (i, j) is data[i * ld + j].
template <class Real>
struct WeightMatrix {
  const Real* data = nullptr;
  int ld = 0;
  std::int64_t stride = 0;
};

/// Reads kCount numbers; 2 or 4 of them at once (the address is aligned for that).
template <int kCount>
__device__ __forceinline__ void load_numbers(const float* from, float* to) {
  if constexpr (kCount == 4) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else if constexpr (kCount == 2) {
    const float2 v = *reinterpret_cast<const float2*>(from);
    to[0] = v.x, to[1] = v.y;
  } else {
    to[0] = from[0];
  }
}
template <int kCount>
__device__ __forceinline__ void load_numbers(const double* from, double* to) {
  if constexpr (kCount == 1) {
    to[0] = from[0];
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const double2 v = *reinterpret_cast<const double2*>(from + i);
      to[i] = v.x, to[i + 1] = v.y;
    }
  }
}

template <int kCount>
__device__ __forceinline__ void store_numbers(float* to, const float* from) {
  if constexpr (kCount == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  } else if constexpr (kCount == 2) {
    *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
  } else {
    to[0] = from[0];
  }
}
template <int kCount>
__device__ __forceinline__ void store_numbers(double* to, const double* from) {
  if constexpr (kCount == 1) {
    to[0] = from[0];
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      *reinterpret_cast<double2*>(to + i) = make_double2(from[i], from[i + 1]);
    }
  }
}

/// A matrix in memory as the left factor.
template <class Real>
struct LoadMatrix {
  const Real* data;
  std::int64_t ld;
  std::int64_t stride;

  template <int kCount>
  __device__ __forceinline__ void get(int batch, int row, int k, Real* values) const {
    load_numbers<kCount>(data + batch * stride + row * ld + k, values);
  }
};

/// Of a Store that needs nothing of memory.
struct NothingOld {};

/// A matrix in memory as the result.
template <class Real, bool kAccumulate>
struct StoreMatrix {
  template <int kCount>
  struct Summand {
    Real values[kCount];
  };
  template <int kCount>
  using Old = std::conditional_t<kAccumulate, Summand<kCount>, NothingOld>;

  Real* data;
  std::int64_t ld;
  std::int64_t stride;

  __device__ __forceinline__ Real* at(int batch, int row, int column) const {
    return data + batch * stride + row * ld + column;
  }
  template <int kCount>
  __device__ __forceinline__ Old<kCount> old(int batch, int row, int column) const {
    if constexpr (kAccumulate) {
      Old<kCount> old;
      load_numbers<kCount>(at(batch, row, column), old.values);
      return old;
    } else {
      return {};
    }
  }
  template <int kCount>
  __device__ __forceinline__ void put(int batch, int row, int column, const Real* values,
                                      const Old<kCount>& old) const {
    Real sum[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sum[i] = values[i];
      if constexpr (kAccumulate) sum[i] = old.values[i] + values[i];
    }
    store_numbers<kCount>(at(batch, row, column), sum);
  }
};

}  // namespace dpa4::cuda
