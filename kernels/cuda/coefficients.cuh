// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/launch.cuh"

namespace dpa4::cuda {

/// Waits for the copies that these lanes of a warp began.
__device__ __forceinline__ void await_copies(unsigned lanes = kAllLanes) {
  wait_for_copies();
  __syncwarp(lanes);
}

/// The numbers of an edge that all its channels need, in shared memory: a warp, or the lanes of it
/// that share the edge, copy them once, without waiting, and then read them 16 bytes at a time. Two
/// places: one in use, one being filled.
template <class Real>
class Coefficients {
 public:
  /// Elements of shared memory of a warp for `count` numbers.
  static constexpr int place_size(int count) { return (count + 3) / 4 * 4; }
  static constexpr int size(int count) { return 2 * place_size(count); }

  /// @param shared  size(count) elements for each warp of the block, on a multiple of 16 bytes
  __device__ Coefficients(Real* shared, int count)
      : lane_(static_cast<int>(threadIdx.x) % kWarp), lanes_(kWarp), step_(place_size(count)) {
    const int warp = (static_cast<int>(threadIdx.y) * static_cast<int>(blockDim.x) +
                      static_cast<int>(threadIdx.x)) /
                     kWarp;
    next_ = shared + warp * size(count);
    current_ = next_ + step_;
  }

  /// For a lane of `lanes` that share an edge and size(count) elements at `shared`.
  __device__ Coefficients(Real* shared, int count, int lane, int lanes)
      : lane_(lane), lanes_(lanes), step_(place_size(count)), next_(shared) {
    current_ = next_ + step_;
  }

  /// Begins to copy `count` numbers to [first, first + count) of the next place.
  __device__ void start(const Real* from, int first, int count) {
    for (int k = lane_; k < count; k += lanes_) copy_async(next_ + first + k, from + k);
  }

  /// Waits for what was started and returns its place, valid until the second call from here.
  __device__ const Real* take() {
    await_copies();
    Real* const filled = next_;
    next_ = current_;
    current_ = filled;
    return static_cast<const Real*>(__builtin_assume_aligned(filled, 16));
  }

 private:
  int lane_, lanes_, step_;
  Real* next_;
  Real* current_;
};

}  // namespace dpa4::cuda
