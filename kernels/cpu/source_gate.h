// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/source_gate.h"
#include "kernels/cpu/edge_geometry.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void source_gate_partial(const kernels::SourceGatePartialArgs<Real>& args, kernels::Stream) {
  for (int n = args.node_first; n < args.node_first + args.node_count; ++n) {
    double sum = 0;
    Real zeros = 0;
    for (int p = args.src_begin[n]; p < args.src_begin[n + 1]; ++p) {
      const EdgeLanes edge(args.shape, args.vec, [&](int) { return args.by_src[p]; });
      const double w =
          math::bridging_switch(edge.length, args.shape.r_inner, args.shape.r_outer).lane(0);
      if (w > 0) {
        sum += math::log_of(w);
      } else {
        zeros += 1;
      }
    }
    args.partial[2 * static_cast<std::int64_t>(n)] = static_cast<Real>(sum);
    args.partial[2 * static_cast<std::int64_t>(n) + 1] = zeros;
  }
}

template <class Real>
void source_gate(const kernels::SourceGateArgs<Real>& args, kernels::Stream) {
  for (int n = 0; n < args.node_count; ++n) {
    const Real* partial = args.partial + 2 * static_cast<std::int64_t>(n);
    args.gate[n] = partial[1] > 0 ? Real(0) : math::exp_of(partial[0]);
  }
}

template <class Real>
void source_gate_sum(const kernels::SourceGateSumArgs<Real>& args, kernels::Stream) {
  for (int i = 0; i < args.edges.count; ++i) {
    args.grad_gate[args.edges.src[edge_at(args.edges, i)]] += args.grad[i];
  }
}

template <class Real>
void source_gate_backward(const kernels::SourceGateBackwardArgs<Real>& args, kernels::Stream) {
  using S = Simd<Real, 1>;
  for (int i = 0; i < args.edges.count; ++i) {
    const int src = args.edges.src[edge_at(args.edges, i)];
    if (!(args.gate[src] > 0)) continue;
    const S length(args.length[i]);
    const double inner = args.shape.r_inner, outer = args.shape.r_outer;
    const Real w = math::bridging_switch(length, inner, outer).lane(0);
    const Real dw = math::bridging_switch_dr(length, inner, outer).lane(0);
    // The rounded length may be r_inner where the gate, made from the length in double, is not 0.
    if (w > 0) args.grad_length[i] += args.grad_gate[src] * args.gate[src] * dw / w;
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
