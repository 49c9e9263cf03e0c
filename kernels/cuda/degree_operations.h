// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/rotate_back_sum.h"
#include "kernels/api/rotate_mix.h"
#include "kernels/api/zonal_sum.h"

/// The operations that are compiled for each degree: their rows live in registers. CMake makes the
/// source files from the lists of shapes.cmake and degree_shard.cu.in.
namespace dpa4::cuda {

template <int kLmax, class Real>
void zonal_sum_of_degree(const kernels::ZonalSumArgs<Real>& args, kernels::Stream stream);
template <int kLmax, class Real>
void zonal_sum_backward_of_degree(const kernels::ZonalSumBackwardArgs<Real>& args,
                                  kernels::Stream stream);
template <int kLmax, class Real>
void rotate_mix_of_degree(const kernels::RotateMixArgs<Real>& args, kernels::Stream stream);
template <int kLmax, class Real>
void rotate_mix_backward_of_degree(const kernels::RotateMixBackwardArgs<Real>& args,
                                   kernels::Stream stream);
template <int kLmax, class Real>
void rotate_back_sum_of_degree(const kernels::RotateBackSumArgs<Real>& args,
                               kernels::Stream stream);
template <int kLmax, class Real>
void rotate_back_sum_backward_of_degree(const kernels::RotateBackSumBackwardArgs<Real>& args,
                                        kernels::Stream stream);

}  // namespace dpa4::cuda
