// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/edge_lists.h"
#include "kernels/cpu/isa.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void cut_nodes(const kernels::CutNodesArgs<Real>& args, kernels::Stream) {
  kernels::write_cuts(args);
}

template <class Real>
void pad_edges(const kernels::PadEdgesArgs<Real>& args, kernels::Stream) {
  for (int e = args.first; e < args.first + args.count; ++e) {
    args.src[e] = args.dst[e] = 0;
    args.by_src[e] = e;
    double* vec = args.vec + 3 * static_cast<std::int64_t>(e);
    vec[0] = args.length;
    vec[1] = vec[2] = 0;
  }
}

template <class Real>
void kept_rows(const kernels::KeptRowsArgs<Real>& args, kernels::Stream) {
  for (int p = 0; p < args.count; ++p) args.row[args.by_src[p]] = p < args.n_kept ? p : -1;
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
