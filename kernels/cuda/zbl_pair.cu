// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/zbl.h"

namespace dpa4::cuda {

template <class Real>
__device__ void node_repulsion(const kernels::ZblPairArgs<Real>& args, int n, int lane) {
  constexpr double kPower = 0.23;
  const int type = args.type[n];
  if (args.included[type] == 0) return;
  const double z = args.atomic_number[type], power = ::pow(z, kPower);
  double energy = 0;
  for (int e = args.dst_begin[n] + lane; e < args.dst_begin[n + 1]; e += kWarp) {
    const int other = args.type[args.src[e]];
    if (args.included[other] == 0) continue;
    const double* vec = args.vec + 3 * static_cast<std::int64_t>(e);
    const double r = math::sqrt_of(vec[0] * vec[0] + vec[1] * vec[1] + vec[2] * vec[2]);
    const double other_z = args.atomic_number[other];
    const math::PairEnergy<double> pair =
        math::zbl_pair_energy(r, z, other_z, power, ::pow(other_z, kPower));
    energy += 0.5 * pair.energy;
    Real* grad = args.grad_vec + 3 * static_cast<std::int64_t>(e);
    for (int a = 0; a < 3; ++a) grad[a] += static_cast<Real>(0.5 * pair.derivative * vec[a] / r);
  }
  energy = warp_sum(energy);
  if (lane == 0) args.energy[n] += energy;
}

template <class Real>
void zbl_pair(const kernels::ZblPairArgs<Real>& args, kernels::Stream stream) {
  for_warps("zbl_pair", args.node_count, stream,
            [=] __device__(int i, int lane) { node_repulsion(args, args.node_first + i, lane); });
}

DPA4_CUDA_INSTANTIATE(zbl_pair, ZblPairArgs);

}  // namespace dpa4::cuda
