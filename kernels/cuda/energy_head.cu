// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void energy_head(const kernels::EnergyHeadArgs<Real>& args, kernels::Stream stream) {
  for_warps("energy_head", args.n_nodes, stream, [=] __device__(int n, int lane) {
    const int type = args.type[n];
    const std::int64_t at = static_cast<std::int64_t>(n) * args.width;
    const Real energy = warp_dot(args.x + at, args.output, args.width, lane);
    if (lane == 0) {
      args.energy[n] += args.scale[type] * static_cast<double>(energy) + args.shift[type];
    }
    const Real scale = static_cast<Real>(args.scale[type]);
    for (int c = lane; c < args.width; c += kWarp) args.grad_x[at + c] = scale * args.output[c];
  });
}

DPA4_CUDA_INSTANTIATE(energy_head, EnergyHeadArgs);

}  // namespace dpa4::cuda
