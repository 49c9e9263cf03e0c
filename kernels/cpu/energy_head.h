// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/energy_head.h"
#include "kernels/cpu/simd.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void energy_head(const kernels::EnergyHeadArgs<Real>& args, kernels::Stream) {
  for (int n = 0; n < args.n_nodes; ++n) {
    const int type = args.type[n];
    const std::int64_t at = static_cast<std::int64_t>(n) * args.width;
    args.energy[n] +=
        args.scale[type] * static_cast<double>(dot(args.x + at, args.output, args.width)) +
        args.shift[type];
    const Real scale = static_cast<Real>(args.scale[type]);
    for (int c = 0; c < args.width; ++c) args.grad_x[at + c] = scale * args.output[c];
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
