// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/so2_stack.h"
#include "kernels/cuda/cuda_backend.h"

/// The mixing stack on any device; see also hopper_stack.h.
namespace dpa4::cuda {

/// One kernel for each step of each layer, see so2_stack.cuh.
template <Arithmetic kArithmetic, class Real>
void stepwise_so2_stack(const kernels::So2StackArgs<Real>& args, kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
void stepwise_so2_stack_backward(const kernels::So2StackBackwardArgs<Real>& args,
                                 kernels::Stream stream);

}  // namespace dpa4::cuda
