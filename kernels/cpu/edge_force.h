// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/edge_force.h"
#include "kernels/cpu/simd.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void edge_force(const kernels::EdgeForceArgs<Real>& args, kernels::Stream) {
  for (int n = args.node_first; n < args.node_first + args.node_count; ++n) {
    double* force = args.force + 3 * static_cast<std::int64_t>(n);
    double* virial = args.node_virial + 9 * static_cast<std::int64_t>(n);
    for (int a = 0; a < 3; ++a) force[a] = 0;
    for (int a = 0; a < 9; ++a) virial[a] = 0;
    const auto add = [&](int edge, double sign) __attribute__((always_inline)) {
      const double* vec = args.vec + 3 * static_cast<std::int64_t>(edge);
      const Real* grad = args.grad_vec + 3 * static_cast<std::int64_t>(edge);
      for (int a = 0; a < 3; ++a) {
        const double g = static_cast<double>(grad[a]);
        force[a] += sign * g;
        for (int b = 0; b < 3; ++b) virial[3 * a + b] -= 0.5 * g * vec[b];
      }
    };
    if (n < args.n_owned) {
      for (int e = args.dst_begin[n]; e < args.dst_begin[n + 1]; ++e) add(e, 1.0);
    }
    for (int p = args.src_begin[n]; p < args.src_begin[n + 1]; ++p) add(args.by_src[p], -1.0);
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
