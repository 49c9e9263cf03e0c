// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/edge_length.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void source_gate_partial(const kernels::SourceGatePartialArgs<Real>& args, kernels::Stream stream) {
  for_warps("source_gate_partial", args.node_count, stream, [=] __device__(int i, int lane) {
    const std::int64_t n = args.node_first + i;
    double sum = 0;
    Real zeros = 0;
    for (int p = args.src_begin[n] + lane; p < args.src_begin[n + 1]; p += kWarp) {
      const EdgeLength edge(args.shape, args.vec, args.by_src[p]);
      const double w = math::bridging_switch(edge.length, args.shape.r_inner, args.shape.r_outer);
      if (w > 0) {
        sum += math::log_of(w);
      } else {
        zeros += 1;
      }
    }
    sum = warp_sum(sum);
    zeros = warp_sum(zeros);
    if (lane == 0) {
      args.partial[2 * n] = static_cast<Real>(sum);
      args.partial[2 * n + 1] = zeros;
    }
  });
}

template <class Real>
void source_gate(const kernels::SourceGateArgs<Real>& args, kernels::Stream stream) {
  for_items("source_gate", args.node_count, stream, [=] __device__(std::int64_t n) {
    args.gate[n] = args.partial[2 * n + 1] > 0 ? Real(0) : math::exp_of(args.partial[2 * n]);
  });
}

template <class Real>
void source_gate_sum(const kernels::SourceGateSumArgs<Real>& args, kernels::Stream stream) {
  for_warps("source_gate_sum", args.edges.node_count, stream, [=] __device__(int k, int lane) {
    const int node = args.edges.node_first + k;
    const Segment segment(args.edges, node);
    Real sum = 0;
    for (int i = segment.begin + lane; i < segment.end; i += kWarp) sum += args.grad[i];
    sum = warp_sum(sum);
    if (lane == 0) args.grad_gate[node] += sum;
  });
}

template <class Real>
void source_gate_backward(const kernels::SourceGateBackwardArgs<Real>& args,
                          kernels::Stream stream) {
  for_items("source_gate_backward", args.edges.count, stream, [=] __device__(std::int64_t i) {
    const int src = args.edges.src[edge_at(args.edges, static_cast<int>(i))];
    if (!(args.gate[src] > 0)) return;
    const double inner = args.shape.r_inner, outer = args.shape.r_outer;
    const Real w = math::bridging_switch(args.length[i], inner, outer);
    const Real dw = math::bridging_switch_dr(args.length[i], inner, outer);
    // The rounded length may be r_inner where the gate, made from the length in double, is not 0.
    if (w > 0) args.grad_length[i] += args.grad_gate[src] * args.gate[src] * dw / w;
  });
}

DPA4_CUDA_INSTANTIATE(source_gate_partial, SourceGatePartialArgs);
DPA4_CUDA_INSTANTIATE(source_gate, SourceGateArgs);
DPA4_CUDA_INSTANTIATE(source_gate_sum, SourceGateSumArgs);
DPA4_CUDA_INSTANTIATE(source_gate_backward, SourceGateBackwardArgs);

}  // namespace dpa4::cuda
