// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/edge_condition_steps.h"
#include "kernels/cpu/edge_geometry.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/pair_bias.h"
#include "kernels/cpu/rms_norm_silu.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// The operations that edge_condition is made of here.
template <class Real>
const kernels::KernelTable<Real>& edge_condition_operations() {
  static const kernels::KernelTable<Real> operations = [] {
    kernels::KernelTable<Real> table;
    table.gemm = gemm<Real>;
    table.edge_geometry = edge_geometry<Real>;
    table.edge_geometry_backward = edge_geometry_backward<Real>;
    table.rms_norm_silu = rms_norm_silu<Real>;
    table.rms_norm_silu_backward = rms_norm_silu_backward<Real>;
    table.pair_bias = pair_bias<Real>;
    table.pair_bias_backward = pair_bias_backward<Real>;
    return table;
  }();
  return operations;
}

template <class Real>
std::int64_t edge_condition_work(const kernels::EdgeConditionNet<Real>& net, int count,
                                 bool backward) {
  return kernels::EdgeConditionArrays<Real>::size(net, count, backward);
}

template <class Real>
void edge_condition(const kernels::EdgeConditionArgs<Real>& args, kernels::Stream stream) {
  kernels::edge_condition_steps(edge_condition_operations<Real>(), args, stream);
}

template <class Real>
void edge_condition_backward(const kernels::EdgeConditionBackwardArgs<Real>& args,
                             kernels::Stream stream) {
  kernels::edge_condition_backward_steps(edge_condition_operations<Real>(), args, stream);
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
