// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/wigner_rows.h"
#include "kernels/cpu/simd.h"
#include "src/math/wigner.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// A register of edges at a time; the numbers of an edge are stored together.
template <int kLmax, class Real>
void wigner_rows_of_degree(const kernels::WignerRowsArgs<Real>& args) {
  using S = Simd<Real, kLanes<Real>>;
  constexpr int kSize = math::wigner_size(kLmax);
  S rows[kSize];
  for (int i = 0; i < args.count; i += S::kSize) {
    const int valid = args.count - i < S::kSize ? args.count - i : S::kSize;
    S u[3] = {S(0), S(0), S(0)};
    for (int lane = 0; lane < S::kSize; ++lane) {
      const Real* unit = args.unit + 3 * (i + (lane < valid ? lane : valid - 1));
      for (int a = 0; a < 3; ++a) u[a].v[lane] = unit[a];
    }
    math::wigner_rows<kLmax>(u[0], u[1], u[2], rows);
    for (int lane = 0; lane < valid; ++lane) {
      Real* out = args.wigner + static_cast<std::int64_t>(i + lane) * kSize;
      for (int k = 0; k < kSize; ++k) out[k] = rows[k].lane(lane);
    }
  }
}

template <class Real>
void wigner_rows(const kernels::WignerRowsArgs<Real>& args, kernels::Stream) {
  with_degree(args.lmax,
              [&](auto degree) { wigner_rows_of_degree<decltype(degree)::value>(args); });
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
