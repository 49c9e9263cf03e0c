// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void rows(const kernels::RowsArgs<Real>& args, kernels::Stream stream) {
  for_rows("rows", args.rows, args.width, stream, [=] __device__(int n, int c) {
    Real value = args.x[n * args.ldx + c];
    if (args.add != nullptr) value += args.add[n * args.ld_add + c];
    Real& to = args.y[n * args.ldy + c];
    to = args.accumulate ? to + value : value;
  });
}

template <class Real>
void type_rows(const kernels::TypeRowsArgs<Real>& args, kernels::Stream stream) {
  for_rows("type_rows", args.rows, args.width, stream, [=] __device__(int n, int c) {
    args.y[n * args.ldy + c] = args.table[static_cast<std::int64_t>(args.type[n]) * args.width + c];
  });
}

DPA4_CUDA_INSTANTIATE(rows, RowsArgs);
DPA4_CUDA_INSTANTIATE(type_rows, TypeRowsArgs);

}  // namespace dpa4::cuda
