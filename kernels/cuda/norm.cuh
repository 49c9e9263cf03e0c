// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/launch.cuh"
#include "src/math/elementary.h"

namespace dpa4::cuda {

/// (mean(x^2) + eps)^(-1/2) of a row, computed by a warp.
template <class Real>
__device__ Real inverse_rms(const Real* x, int width, double eps, int lane) {
  Real sum = 0;
  for (int c = lane; c < width; c += kWarp) sum += x[c] * x[c];
  return Real(1) / math::sqrt_of(warp_sum(sum) / width + static_cast<Real>(eps));
}

/// <a, b>, computed by a warp.
template <class Real>
__device__ Real warp_dot(const Real* a, const Real* b, int width, int lane) {
  Real sum = 0;
  for (int c = lane; c < width; c += kWarp) sum += a[c] * b[c];
  return warp_sum(sum);
}

}  // namespace dpa4::cuda
