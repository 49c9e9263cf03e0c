// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/so2_stack.cuh"

#include <type_traits>
#include <utility>

#include "kernels/cuda/operations.h"
#include "kernels/cuda/simt_gemm.cuh"
#include "kernels/cuda/split_gemm.cuh"

namespace dpa4::cuda {

struct PlainProduct {
  template <class Real, class Load, class Store>
  static void run(const char* name, const GemmShape& shape, const WeightMatrix<Real>& weights,
                  const Load& load, const Store& store, kernels::Stream stream) {
    simt_gemm<true>(name, shape, weights, load, store, stream);
  }
};

struct SplitProduct {
  template <class Load, class Store>
  static void run(const char* name, const GemmShape& shape, const WeightMatrix<float>& weights,
                  const Load& load, const Store& store, kernels::Stream stream) {
    split_gemm(name, shape, weights, load, store, stream);
  }
};

template <Arithmetic kArithmetic>
using Product = std::conditional_t<kArithmetic == Arithmetic::kSplit, SplitProduct, PlainProduct>;

std::int64_t so2_stack_work(const kernels::MessageShape& shape) {
  return So2Stack<PlainProduct, float>::work_elements(shape);
}

template <Arithmetic kArithmetic, class Real>
void so2_stack(const kernels::So2StackArgs<Real>& args, kernels::Stream stream) {
  if (args.count <= 0) return;
  So2Stack<Product<kArithmetic>, Real>(args.shape, args.count, args.u, args.work, stream)
      .forward(args);
}

template <Arithmetic kArithmetic, class Real>
void so2_stack_backward(const kernels::So2StackBackwardArgs<Real>& args, kernels::Stream stream) {
  if (args.count <= 0) return;
  So2Stack<Product<kArithmetic>, Real>(args.shape, args.count, args.grad_u, args.work, stream)
      .backward(args);
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
