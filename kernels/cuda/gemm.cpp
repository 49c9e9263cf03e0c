// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/gemm.h"

#include "kernels/cuda/operations.h"
#include "src/base/error.h"

namespace dpa4::cuda {

template <Arithmetic kArithmetic, class Real>
void gemm(const kernels::GemmArgs<Real>& args, kernels::Stream stream) {
  if (args.m <= 0 || args.n <= 0 || args.batch <= 0) return;
  DPA4_EXPECTS(args.k >= 1);
  if (args.accumulate) {
    gemm_of<kArithmetic, true>(args, stream);
  } else {
    gemm_of<kArithmetic, false>(args, stream);
  }
}

template void gemm<Arithmetic::kPlain>(const kernels::GemmArgs<float>&, kernels::Stream);
template void gemm<Arithmetic::kPlain>(const kernels::GemmArgs<double>&, kernels::Stream);
template void gemm<Arithmetic::kSplit>(const kernels::GemmArgs<float>&, kernels::Stream);

}  // namespace dpa4::cuda
