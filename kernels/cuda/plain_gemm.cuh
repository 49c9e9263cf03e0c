// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/double_gemm.cuh"
#include "kernels/cuda/simt_gemm.cuh"

namespace dpa4::cuda {

/// C = A B in the arithmetic of its type: float64 on the tensor cores where `load` and `store` take
/// four numbers at a time.
template <bool kVector, class Real, class Load, class Store>
void plain_gemm(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
                const Load& load, const Store& store, kernels::Stream stream) {
  if constexpr (kVector && sizeof(Real) == 8) {
    double_gemm(name, shape, weights, load, store, stream);
  } else {
    simt_gemm<kVector>(name, shape, weights, load, store, stream);
  }
}

}  // namespace dpa4::cuda
