// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/degree_operations.h"

#include <type_traits>

#include "kernels/cuda/operations.h"
#include "src/base/error.h"

namespace dpa4::cuda {

namespace {

/// body(integral_constant lmax) for lmax = 1..6.
template <class Body>
void with_degree(int lmax, const Body& body) {
  switch (lmax) {
    case 1:
      return body(std::integral_constant<int, 1>{});
    case 2:
      return body(std::integral_constant<int, 2>{});
    case 3:
      return body(std::integral_constant<int, 3>{});
    case 4:
      return body(std::integral_constant<int, 4>{});
    case 5:
      return body(std::integral_constant<int, 5>{});
    case 6:
      return body(std::integral_constant<int, 6>{});
    default:
      throw InternalError("dpa4 internal error: degree beyond 1..6");
  }
}

}  // namespace

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
