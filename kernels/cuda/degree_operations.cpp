// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/degree_operations.h"

#include "kernels/cuda/operations.h"
#include "kernels/cuda/with_degree.h"

namespace dpa4::cuda {

template <class Real>
void zonal_sum(const kernels::ZonalSumArgs<Real>& args, kernels::Stream stream) {
  with_degree(args.lmax, [&](auto l) { zonal_sum_of_degree<decltype(l)::value>(args, stream); });
}

template <class Real>
void zonal_sum_backward(const kernels::ZonalSumBackwardArgs<Real>& args, kernels::Stream stream) {
  with_degree(args.lmax,
              [&](auto l) { zonal_sum_backward_of_degree<decltype(l)::value>(args, stream); });
}

template <class Real>
void rotate_mix(const kernels::RotateMixArgs<Real>& args, kernels::Stream stream) {
  with_degree(args.shape.lmax,
              [&](auto l) { rotate_mix_of_degree<decltype(l)::value>(args, stream); });
}

template <class Real>
void rotate_mix_backward(const kernels::RotateMixBackwardArgs<Real>& args, kernels::Stream stream) {
  with_degree(args.shape.lmax,
              [&](auto l) { rotate_mix_backward_of_degree<decltype(l)::value>(args, stream); });
}

template <class Real>
void rotate_back_sum(const kernels::RotateBackSumArgs<Real>& args, kernels::Stream stream) {
  with_degree(args.shape.lmax,
              [&](auto l) { rotate_back_sum_of_degree<decltype(l)::value>(args, stream); });
}

template <class Real>
void rotate_back_sum_backward(const kernels::RotateBackSumBackwardArgs<Real>& args,
                              kernels::Stream stream) {
  with_degree(args.shape.lmax, [&](auto l) {
    rotate_back_sum_backward_of_degree<decltype(l)::value>(args, stream);
  });
}

#define DPA4_INSTANTIATE(operation, Args)                                       \
  template void operation<float>(const kernels::Args<float>&, kernels::Stream); \
  template void operation<double>(const kernels::Args<double>&, kernels::Stream)
DPA4_INSTANTIATE(zonal_sum, ZonalSumArgs);
DPA4_INSTANTIATE(zonal_sum_backward, ZonalSumBackwardArgs);
DPA4_INSTANTIATE(rotate_mix, RotateMixArgs);
DPA4_INSTANTIATE(rotate_mix_backward, RotateMixBackwardArgs);
DPA4_INSTANTIATE(rotate_back_sum, RotateBackSumArgs);
DPA4_INSTANTIATE(rotate_back_sum_backward, RotateBackSumBackwardArgs);
#undef DPA4_INSTANTIATE

}  // namespace dpa4::cuda
