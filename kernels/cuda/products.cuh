// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/hopper_product.cuh"
#include "kernels/cuda/plain_gemm.cuh"
#include "kernels/cuda/split_gemm.cuh"

namespace dpa4::cuda {

/// C = A B on the tensor cores, with the instructions that the device has.
struct SplitProduct {
  template <class Load, class Store>
  static void run(const char* name, const GemmShape& shape, const WeightMatrix<float>& weights,
                  const Load& load, const Store& store, kernels::Stream stream) {
    if (has_hopper_products()) {
      hopper_gemm(name, shape, weights, load, store, stream);
    } else {
      split_gemm(name, shape, weights, load, store, stream);
    }
  }
};

}  // namespace dpa4::cuda
