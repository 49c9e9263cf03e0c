// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/zbl_pair.h"
#include "kernels/cpu/simd.h"
#include "src/math/zbl.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void zbl_pair(const kernels::ZblPairArgs<Real>& args, kernels::Stream) {
  constexpr double kPower = 0.23;
  for (int n = args.node_first; n < args.node_first + args.node_count; ++n) {
    const int type = args.type[n];
    if (args.included[type] == 0) continue;
    const double z = args.atomic_number[type], power = ::pow(z, kPower);
    for (int e = args.dst_begin[n]; e < args.dst_begin[n + 1]; ++e) {
      const int other = args.type[args.src[e]];
      if (args.included[other] == 0) continue;
      const double* vec = args.vec + 3 * static_cast<std::int64_t>(e);
      const double r = math::sqrt_of(vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2]);
      const double other_z = args.atomic_number[other];
      const math::PairEnergy<double> pair =
          math::zbl_pair_energy(r, z, other_z, power, ::pow(other_z, kPower));
      args.energy[n] += 0.5 * pair.energy;
      Real* grad = args.grad_vec + 3 * static_cast<std::int64_t>(e);
      for (int a = 0; a < 3; ++a) grad[a] += static_cast<Real>(0.5 * pair.derivative * vec[a] / r);
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
