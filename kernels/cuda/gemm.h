// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/gemm.h"
#include "kernels/cuda/cuda_backend.h"

namespace dpa4::cuda {

/// gemm with sizes of at least 1 and kAccumulate = args.accumulate. CMake makes the source files
/// from gemm_shard.cu.in.
template <Arithmetic kArithmetic, bool kAccumulate, class Real>
void gemm_of(const kernels::GemmArgs<Real>& args, kernels::Stream stream);

}  // namespace dpa4::cuda
