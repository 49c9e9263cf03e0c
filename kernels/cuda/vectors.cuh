// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"

/// Kernels whose lanes have several channels.
namespace dpa4::cuda {

/// Numbers of 16 bytes.
template <class Real>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(Real));

/// Least lanes that share an edge in the kernels whose lanes have more than a channel.
inline constexpr int kFewestLanes = 8;

/// Can numbers from here on be read kVector at a time?
template <int kVector, class Real>
bool is_aligned(const Real* numbers) {
  return reinterpret_cast<std::uintptr_t>(numbers) % (kVector * sizeof(Real)) == 0;
}

/// Stores a vector at once, which the compiler takes apart where its numbers come from different
/// places.
__device__ __forceinline__ void store_vector(float* to, const float (&from)[4]) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "f"(from[0]), "f"(from[1]), "f"(from[2]),
                 "f"(from[3])
               : "memory");
}
__device__ __forceinline__ void store_vector(float* to, const float (&from)[2]) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(to)), "f"(from[0]), "f"(from[1])
               : "memory");
}
__device__ __forceinline__ void store_vector(double* to, const double (&from)[2]) {
  asm volatile("st.global.v2.f64 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(to)), "d"(from[0]), "d"(from[1])
               : "memory");
}

/// Sums over groups of kLanes neighboring lanes of a warp, the same bits in each.
template <int kLanes, int kCount, class Real>
__device__ __forceinline__ void sum_neighbors(Real (&x)[kCount]) {
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] += __shfl_xor_sync(kAllLanes, x[j], step);
  }
}

}  // namespace dpa4::cuda
