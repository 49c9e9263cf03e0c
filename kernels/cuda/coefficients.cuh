// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/launch.cuh"

namespace dpa4::cuda {

/// The numbers of an edge that all its channels need, in shared memory: a warp copies them once,
/// without waiting, and its lanes then read them 16 bytes at a time. Two places: one in use, one
/// being filled.
template <class Real>
class Coefficients {
 public:
  /// Elements of shared memory of a warp for `count` numbers.
  static constexpr int place_size(int count) { return (count + 3) / 4 * 4; }
  static constexpr int size(int count) { return 2 * place_size(count); }

  /// @param shared  size(count) elements for each warp of the block, on a multiple of 16 bytes
  __device__ Coefficients(Real* shared, int count)
      : lane_(static_cast<int>(threadIdx.x) % kWarp), step_(place_size(count)) {
    const int warp = (static_cast<int>(threadIdx.y) * static_cast<int>(blockDim.x) +
                      static_cast<int>(threadIdx.x)) /
                     kWarp;
    next_ = shared + warp * size(count);
    current_ = next_ + step_;
  }

  /// Begins to copy `count` numbers to [first, first + count) of the next place.
  __device__ void start(const Real* from, int first, int count) {
    for (int k = lane_; k < count; k += kWarp) {
      const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(next_ + first + k));
      if constexpr (sizeof(Real) == 4) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(address), "l"(from + k));
      } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" : : "r"(address), "l"(from + k));
      }
    }
  }

  /// Waits for what was started and returns its place, valid until the second call from here.
  __device__ const Real* take() {
    asm volatile("cp.async.wait_all;" : : : "memory");
    __syncwarp();
    Real* const filled = next_;
    next_ = current_;
    current_ = filled;
    return static_cast<const Real*>(__builtin_assume_aligned(filled, 16));
  }

 private:
  int lane_, step_;
  Real* next_;
  Real* current_;
};

}  // namespace dpa4::cuda
