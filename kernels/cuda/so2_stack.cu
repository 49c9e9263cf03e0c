// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/so2_stack.cuh"

#include <utility>

#include "kernels/cuda/operations.h"
#include "kernels/cuda/simt_gemm.cuh"

namespace dpa4::cuda {

struct SimtProduct {
  template <class Real, class Load, class Store>
  static void run(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
                  const Load& load, const Store& store, kernels::Stream stream) {
    simt_gemm<true>(name, shape, weights, load, store, stream);
  }
};

std::int64_t so2_stack_work(const kernels::MessageShape& shape) {
  return So2Stack<SimtProduct, float>::work_elements(shape);
}

template <class Real>
void so2_stack(const kernels::So2StackArgs<Real>& args, kernels::Stream stream) {
  if (args.count <= 0) return;
  So2Stack<SimtProduct, Real>(args.shape, args.count, args.u, args.work, stream).forward(args);
}

template <class Real>
void so2_stack_backward(const kernels::So2StackBackwardArgs<Real>& args, kernels::Stream stream) {
  if (args.count <= 0) return;
  So2Stack<SimtProduct, Real>(args.shape, args.count, args.grad_u, args.work, stream)
      .backward(args);
}

DPA4_CUDA_INSTANTIATE(so2_stack, So2StackArgs);
DPA4_CUDA_INSTANTIATE(so2_stack_backward, So2StackBackwardArgs);

}  // namespace dpa4::cuda
