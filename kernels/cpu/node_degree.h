// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/node_degree.h"
#include "kernels/cpu/edge_geometry.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

template <class Real>
void node_degree(const kernels::NodeDegreeArgs<Real>& args, kernels::Stream) {
  using S = EdgeLanes::S;
  for (int n = args.node_first; n < args.node_first + args.node_count; ++n) {
    const int begin = args.dst_begin[n], end = args.dst_begin[n + 1];
    S sum(0);
    for (int i = begin; i < end; i += S::kSize) {
      const int valid = end - i < S::kSize ? end - i : S::kSize;
      const EdgeLanes edge(args.shape, args.vec,
                           [&](int lane) { return i + (lane < valid ? lane : valid - 1); });
      S envelope =
          math::envelope(edge.length, args.shape.envelope_rcut, args.shape.envelope_exponent);
      for (int lane = valid; lane < S::kSize; ++lane) envelope.v[lane] = 0;
      sum += envelope * envelope;
    }
    args.kappa[n] = static_cast<Real>(1 / math::sqrt_of(sum.sum() + args.floor));
  }
}

template <class Real>
void node_degree_backward(const kernels::NodeDegreeBackwardArgs<Real>& args, kernels::Stream) {
  for (int n = 0; n < args.node_count; ++n) {
    Real sum = args.extra != nullptr ? args.extra[n] : Real(0);
    if (args.value_a != nullptr) {
      sum += dot(args.value_a + n * args.ld_a, args.grad_a + n * args.ld_a, args.width_a);
    }
    if (args.value_b != nullptr) {
      sum += dot(args.value_b + n * args.ld_b, args.grad_b + n * args.ld_b, args.width_b);
    }
    args.grad_degree[n] = Real(-0.5) * args.kappa[n] * args.kappa[n] * sum;
  }
}

template <class Real>
void edge_degree_backward(const kernels::EdgeDegreeBackwardArgs<Real>& args, kernels::Stream) {
  for (int i = 0; i < args.edges.count; ++i) {
    const int dst = args.edges.dst[edge_at(args.edges, i)];
    args.grad_envelope[i] += Real(2) * args.envelope[i] * args.grad_degree[dst];
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
