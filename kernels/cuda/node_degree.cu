// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/edge_length.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void node_degree(const kernels::NodeDegreeArgs<Real>& args, kernels::Stream stream) {
  for_warps("node_degree", args.node_count, stream, [=] __device__(int i, int lane) {
    const int n = args.node_first + i;
    double sum = 0;
    for (int e = args.dst_begin[n] + lane; e < args.dst_begin[n + 1]; e += kWarp) {
      const EdgeLength edge(args.shape, args.vec, e);
      const double envelope =
          math::envelope(edge.length, args.shape.envelope_rcut, args.shape.envelope_exponent);
      sum += envelope * envelope;
    }
    sum = warp_sum(sum);
    if (lane == 0) args.kappa[n] = static_cast<Real>(1 / math::sqrt_of(sum + args.floor));
  });
}

template <class Real>
void node_degree_backward(const kernels::NodeDegreeBackwardArgs<Real>& args,
                          kernels::Stream stream) {
  for_warps("node_degree_backward", args.node_count, stream, [=] __device__(int n, int lane) {
    Real sum = args.extra != nullptr ? args.extra[n] : Real(0);
    if (args.value_a != nullptr) {
      sum +=
          warp_dot(args.value_a + n * args.ld_a, args.grad_a + n * args.ld_a, args.width_a, lane);
    }
    if (args.value_b != nullptr) {
      sum +=
          warp_dot(args.value_b + n * args.ld_b, args.grad_b + n * args.ld_b, args.width_b, lane);
    }
    if (lane == 0) args.grad_degree[n] = Real(-0.5) * args.kappa[n] * args.kappa[n] * sum;
  });
}

template <class Real>
void edge_degree_backward(const kernels::EdgeDegreeBackwardArgs<Real>& args,
                          kernels::Stream stream) {
  for_items("edge_degree_backward", args.edges.count, stream, [=] __device__(std::int64_t i) {
    const int dst = args.edges.dst[edge_at(args.edges, static_cast<int>(i))];
    args.grad_envelope[i] += Real(2) * args.envelope[i] * args.grad_degree[dst];
  });
}

DPA4_CUDA_INSTANTIATE(node_degree, NodeDegreeArgs);
DPA4_CUDA_INSTANTIATE(node_degree_backward, NodeDegreeBackwardArgs);
DPA4_CUDA_INSTANTIATE(edge_degree_backward, EdgeDegreeBackwardArgs);

}  // namespace dpa4::cuda
