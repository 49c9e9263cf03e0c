// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"

/// What the products of grid_product read and write.
///
/// The two matrices act on the coefficients of a channel, so a row of the left factor of a product
/// is an item and channel: (item, channel, coefficients) times (coefficients, points), and back.
/// Fields are stored (item, channel, points).
namespace dpa4::cuda {

/// Coefficients (count, K, width), read along K.
template <class Real>
struct LoadCoefficients {
  const Real* data;
  int width, size;

  template <int kCount>
  __device__ __forceinline__ void get(int, int row, int k, Real* values) const {
    const int item = row / width, c = row - item * width;
    const Real* from = data + (static_cast<std::int64_t>(item) * size + k) * width + c;
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = k + i < size ? from[i * width] : Real(0);
  }
};

/// Coefficients (count, K, width), written along K.
template <class Real>
struct StoreCoefficients {
  Real* data;
  int width, size;

  template <int kCount>
  using Old = NothingOld;
  template <int kCount>
  __device__ __forceinline__ NothingOld old(int, int, int) const {
    return {};
  }
  template <int kCount>
  __device__ __forceinline__ void put(int, int row, int column, const Real* values,
                                      const NothingOld&) const {
    const int item = row / width, c = row - item * width;
    Real* to = data + (static_cast<std::int64_t>(item) * size + column) * width + c;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < size) to[i * width] = values[i];
    }
  }
};

/// Fields (rows, points).
template <class Real>
struct Fields {
  Real* data;
  int points, ld;

  template <int kCount>
  using Old = NothingOld;
  template <int kCount>
  __device__ __forceinline__ NothingOld old(int, int, int) const {
    return {};
  }
  template <int kCount>
  __device__ __forceinline__ void put(int, int row, int column, const Real* values,
                                      const NothingOld&) const {
    Real* to = data + static_cast<std::int64_t>(row) * ld + column;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < points) to[i] = values[i];
    }
  }
  template <int kCount>
  __device__ __forceinline__ void get(std::int64_t row, int k, Real* values) const {
    load_numbers<kCount>(data + row * ld + k, values);
  }
  /// Zeros in the padding.
  template <int kCount>
  __device__ __forceinline__ void clear_padding(int k, Real* values) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (k + i >= points) values[i] = 0;
    }
  }
};

/// The product of two fields, summed over the branches.
template <class Real>
struct LoadFieldProduct {
  Fields<Real> left, right;
  const Real* router;
  int width, branches;

  template <int kCount>
  __device__ __forceinline__ void get(int, int row, int k, Real* values) const {
    const int item = row / width, c = row - item * width;
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = 0;
    for (int b = 0; b < branches; ++b) {
      const std::int64_t at = (static_cast<std::int64_t>(item) * branches + b) * width + c;
      const Real weight =
          router != nullptr ? router[static_cast<std::int64_t>(item) * branches + b] : Real(1);
      Real l[kCount], r[kCount];
      left.template get<kCount>(at, k, l);
      right.template get<kCount>(at, k, r);
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] += weight * l[i] * r[i];
    }
    left.template clear_padding<kCount>(k, values);
  }
};

/// The gradient of one factor: that of the product, times the router, times the other factor.
template <class Real>
struct LoadFieldGradient {
  Fields<Real> grad, other;
  const Real* router;
  int width, branches;

  template <int kCount>
  __device__ __forceinline__ void get(int, int row, int k, Real* values) const {
    const int wide = branches * width;
    const int item = row / wide, b = row % wide / width, c = row % width;
    const Real weight =
        router != nullptr ? router[static_cast<std::int64_t>(item) * branches + b] : Real(1);
    Real g[kCount];
    grad.template get<kCount>(static_cast<std::int64_t>(item) * width + c, k, g);
    other.template get<kCount>(row, k, values);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] *= weight * g[i];
    grad.template clear_padding<kCount>(k, values);
  }
};

/// A product, Load and Store among those above; kHopper: of kSplit, see hopper_product.cuh. CMake
/// makes the source files from the list of shapes.cmake and grid_product_shard.cu.in.
template <Arithmetic kArithmetic, bool kHopper, class Real, class Load, class Store>
void field_product(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
                   const Load& load, const Store& store, kernels::Stream stream);

}  // namespace dpa4::cuda
