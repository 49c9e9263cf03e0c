// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

/// The forces and half virials of the edges that touch a node.
struct ForceSum {
  double force[3] = {0, 0, 0};
  double virial[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};

  template <class Real>
  __device__ void add(const double* vec, const Real* grad, double sign) {
    for (int a = 0; a < 3; ++a) {
      const double g = static_cast<double>(grad[a]);
      force[a] += sign * g;
      for (int b = 0; b < 3; ++b) virial[3 * a + b] -= 0.5 * g * vec[b];
    }
  }
};

template <class Real>
__device__ void node_force(const kernels::EdgeForceArgs<Real>& args, std::int64_t n, int lane) {
  ForceSum sum;
  if (n < args.n_owned) {
    for (std::int64_t e = args.dst_begin[n] + lane; e < args.dst_begin[n + 1]; e += kWarp) {
      sum.add(args.vec + 3 * e, args.grad_vec + 3 * e, 1.0);
    }
  }
  for (int p = args.src_begin[n] + lane; p < args.src_begin[n + 1]; p += kWarp) {
    const std::int64_t e = args.by_src[p];
    sum.add(args.vec + 3 * e, args.grad_vec + 3 * e, -1.0);
  }
  for (int a = 0; a < 3; ++a) {
    const double value = warp_sum(sum.force[a]);
    if (lane == 0) args.force[3 * n + a] = value;
  }
  for (int k = 0; k < 9; ++k) {
    const double value = warp_sum(sum.virial[k]);
    if (lane == 0) args.node_virial[9 * n + k] = value;
  }
}

template <class Real>
void edge_force(const kernels::EdgeForceArgs<Real>& args, kernels::Stream stream) {
  for_warps("edge_force", args.node_count, stream,
            [=] __device__(int i, int lane) { node_force(args, args.node_first + i, lane); });
}

DPA4_CUDA_INSTANTIATE(edge_force, EdgeForceArgs);

}  // namespace dpa4::cuda
