// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/operations.h"
#include "kernels/cuda/simt_gemm.cuh"

namespace dpa4::cuda {

/// True if 16-byte accesses are possible everywhere in a matrix.
template <class Real>
bool vector_access(const Real* data, int ld, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && ld % 4 == 0 && stride % 4 == 0;
}

template <bool kAccumulate, class Real>
void multiply(const kernels::GemmArgs<Real>& args, kernels::Stream stream) {
  const GemmShape shape{args.m, args.n, args.k, args.batch};
  const WeightMatrix<Real> weights{args.b, args.ldb, args.stride_b};
  const LoadMatrix<Real> load{args.a, args.lda, args.stride_a};
  const StoreMatrix<Real, kAccumulate> store{args.c, args.ldc, args.stride_c};
  const bool vector = args.n % 4 == 0 && args.k % 4 == 0 &&
                      vector_access(args.a, args.lda, args.batch > 1 ? args.stride_a : 0) &&
                      vector_access(args.b, args.ldb, args.batch > 1 ? args.stride_b : 0) &&
                      vector_access(args.c, args.ldc, args.batch > 1 ? args.stride_c : 0);
  if (vector) {
    simt_gemm<true>("gemm", shape, weights, load, store, stream);
  } else {
    simt_gemm<false>("gemm", shape, weights, load, store, stream);
  }
}

template <class Real>
void gemm(const kernels::GemmArgs<Real>& args, kernels::Stream stream) {
  if (args.m <= 0 || args.n <= 0 || args.batch <= 0) return;
  DPA4_EXPECTS(args.k >= 1);
  if (args.accumulate) {
    multiply<true>(args, stream);
  } else {
    multiply<false>(args, stream);
  }
}

DPA4_CUDA_INSTANTIATE(gemm, GemmArgs);

}  // namespace dpa4::cuda
