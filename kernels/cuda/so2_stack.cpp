// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/so2_stack.h"

#include <algorithm>

#include "kernels/cuda/hopper_stack.h"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

std::int64_t so2_stack_work(const kernels::MessageShape& shape) {
  // Another row of the stack, the gates and their gradients, and the gradient of the scalar row; or
  // the gates of all layers and as many sums.
  const int stepwise = shape.row_size() + (2 * shape.lmax + 1) * shape.width;
  const int hopper = 2 * (kHopperMostLayers - 1) * shape.lmax * shape.width;
  return static_cast<std::int64_t>(shape.n_focus) * std::max(stepwise, hopper);
}

template <Arithmetic kArithmetic, class Real>
void so2_stack(const kernels::So2StackArgs<Real>& args, kernels::Stream stream) {
  if (args.count <= 0) return;
  if constexpr (kArithmetic == Arithmetic::kSplit) {
    if (hopper_stack_covers(args.shape, args.n_layers)) {
      return hopper_so2_stack(args, stream);
    }
  }
  stepwise_so2_stack<kArithmetic>(args, stream);
}

template <Arithmetic kArithmetic, class Real>
void so2_stack_backward(const kernels::So2StackBackwardArgs<Real>& args, kernels::Stream stream) {
  if (args.count <= 0) return;
  if constexpr (kArithmetic == Arithmetic::kSplit) {
    if (hopper_stack_covers(args.shape, args.n_layers)) {
      return hopper_so2_stack_backward(args, stream);
    }
  }
  stepwise_so2_stack_backward<kArithmetic>(args, stream);
}

#define DPA4_INSTANTIATE(arithmetic, Real)                                                  \
  template void so2_stack<arithmetic>(const kernels::So2StackArgs<Real>&, kernels::Stream); \
  template void so2_stack_backward<arithmetic>(const kernels::So2StackBackwardArgs<Real>&,  \
                                               kernels::Stream)
DPA4_INSTANTIATE(Arithmetic::kPlain, float);
DPA4_INSTANTIATE(Arithmetic::kPlain, double);
DPA4_INSTANTIATE(Arithmetic::kSplit, float);
#undef DPA4_INSTANTIATE

}  // namespace dpa4::cuda
