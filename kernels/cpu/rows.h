// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/rows.h"
#include "kernels/cpu/simd.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void rows(const kernels::RowsArgs<Real>& args, kernels::Stream) {
  for (int n = 0; n < args.rows; ++n) {
    const Real* x = args.x + n * args.ldx;
    Real* y = args.y + n * args.ldy;
    if (args.add != nullptr) {
      const Real* add = args.add + n * args.ld_add;
      for_lanes<Real>(
          args.width, [&](auto tag, int c) __attribute__((always_inline)) {
            using S = decltype(tag);
            (S::load(x + c) + S::load(add + c)).store(y + c);
          });
    } else if (args.accumulate) {
      add_scaled(y, x, Real(1), args.width);
    } else {
      std::memmove(y, x, args.width * sizeof(Real));
    }
  }
}

template <class Real>
void type_rows(const kernels::TypeRowsArgs<Real>& args, kernels::Stream) {
  for (int n = 0; n < args.rows; ++n) {
    std::memcpy(args.y + n * args.ldy,
                args.table + static_cast<std::int64_t>(args.type[n]) * args.width,
                args.width * sizeof(Real));
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
