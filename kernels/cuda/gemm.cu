// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/operations.h"
#include "kernels/cuda/products.cuh"

namespace dpa4::cuda {

/// True if 16-byte accesses are possible everywhere in a matrix.
template <class Real>
bool vector_access(const Real* data, int ld, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && ld % 4 == 0 && stride % 4 == 0;
}

/// What the sizes and addresses of a call allow.
template <class Real>
bool vector_access(const kernels::GemmArgs<Real>& args) {
  const bool batched = args.batch > 1;
  return args.n % 4 == 0 && args.k % 4 == 0 &&
         vector_access(args.a, args.lda, batched ? args.stride_a : 0) &&
         vector_access(args.b, args.ldb, batched ? args.stride_b : 0) &&
         vector_access(args.c, args.ldc, batched ? args.stride_c : 0);
}

template <Arithmetic kArithmetic, bool kAccumulate, class Real>
void multiply(const kernels::GemmArgs<Real>& args, kernels::Stream stream) {
  constexpr int kNarrow = 16;  // fewer columns than this are too few for the tensor cores
  const GemmShape shape{args.m, args.n, args.k, args.batch, args.by_degree};
  const WeightMatrix<Real> weights{args.b, args.ldb, args.stride_b};
  const LoadMatrix<Real> load{args.a, args.lda, args.stride_a};
  const StoreMatrix<Real, kAccumulate> store{args.c, args.ldc, args.stride_c};
  const bool vector = vector_access(args);
  if constexpr (kArithmetic == Arithmetic::kSplit) {
    if (vector && args.n >= kNarrow) {
      return SplitProduct::run("gemm", shape, weights, load, store, stream);
    }
  }
  if (vector) {
    simt_gemm<true>("gemm", shape, weights, load, store, stream);
  } else {
    simt_gemm<false>("gemm", shape, weights, load, store, stream);
  }
}

template <Arithmetic kArithmetic, class Real>
void gemm(const kernels::GemmArgs<Real>& args, kernels::Stream stream) {
  if (args.m <= 0 || args.n <= 0 || args.batch <= 0) return;
  DPA4_EXPECTS(args.k >= 1);
  if (args.accumulate) {
    multiply<kArithmetic, true>(args, stream);
  } else {
    multiply<kArithmetic, false>(args, stream);
  }
}

template void gemm<Arithmetic::kPlain>(const kernels::GemmArgs<float>&, kernels::Stream);
template void gemm<Arithmetic::kPlain>(const kernels::GemmArgs<double>&, kernels::Stream);
template void gemm<Arithmetic::kSplit>(const kernels::GemmArgs<float>&, kernels::Stream);

}  // namespace dpa4::cuda
