// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/rotate_mix.cuh"

namespace dpa4::cuda {

/// Heads of the attention: weights of an edge in the order (f, h), channels of a weight.
struct HeadSizes {
  int weights;
  int width;  // channels of a head
  int heads;  // of a focus stream

  explicit HeadSizes(const kernels::MessageShape& shape)
      : weights(shape.weights()),
        width(shape.hidden() / shape.weights()),
        heads(shape.weights() / shape.n_focus) {}
};

template <int kLmax, class Real>
void rotate_back_sum_of_degree(const kernels::RotateBackSumArgs<Real>& args,
                               kernels::Stream stream) {
  const ChannelSizes sizes(args.shape);
  const HeadSizes heads(args.shape);
  node_sums<full_rows(kLmax), Real>(
      "rotate_back_sum", args.edges, sizes.hidden, stream,
      [=] __device__(int, int i, int c, Real* sums) {
        constexpr int kRows = local_rows(kLmax);
        const int f = c / sizes.width, w = c / heads.width;
        Real factor = args.alpha[static_cast<std::int64_t>(i) * heads.weights + w];
        if (args.focus != nullptr) {
          factor *= args.focus[static_cast<std::int64_t>(i) * (heads.weights / heads.heads) + f];
        }
        const Real* u = args.u + f * args.focus_stride +
                        static_cast<std::int64_t>(i) * kRows * sizes.width + (c - f * sizes.width);
        const Real* wigner = args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
        Real local[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) local[r] = factor * u[r * sizes.width];
        sums[0] += local[0];
        math::static_for<kLmax>([&](auto degree) {
          constexpr int l = decltype(degree)::value + 1;
          Real global[2 * l + 1];
          rotate_degree_back<kLmax, l>(wigner, local, global);
#pragma unroll
          for (int k = 0; k <= 2 * l; ++k) sums[l * l + k] += global[k];
        });
      },
      [=] __device__(int node, int c, const Real* sums) {
        Real* sum =
            args.sum + static_cast<std::int64_t>(node) * full_rows(kLmax) * sizes.hidden + c;
        sum[0] += sums[0];
        math::static_for<kLmax>([&](auto degree) {
          constexpr int l = decltype(degree)::value + 1;
          constexpr Real scale = static_cast<Real>(math::rotate_back_scale(l));
#pragma unroll
          for (int d = l * l; d < (l + 1) * (l + 1); ++d) sum[d * sizes.hidden] += scale * sums[d];
        });
      });
}

/// A group of threads an edge, a thread a channel.
template <int kLmax, class Real>
__global__ void __launch_bounds__(kMostChannels, 1)
    rotate_back_sum_backward_kernel(kernels::RotateBackSumBackwardArgs<Real> args,
                                    ChannelSizes sizes, HeadSizes heads) {
  constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  extern __shared__ __align__(16) unsigned char rotate_back_shared[];
  Real* shared = reinterpret_cast<Real*>(rotate_back_shared);
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool valid = number < args.edges.count;
  const int i = valid ? static_cast<int>(number) : 0;
  const int c = static_cast<int>(threadIdx.x) < sizes.hidden ? static_cast<int>(threadIdx.x) : 0;
  const bool active = valid && static_cast<int>(threadIdx.x) < sizes.hidden;
  const int f = c / sizes.width, w = c / heads.width;
  const int n_focus = heads.weights / heads.heads;
  const std::int64_t edge = i;
  const Real alpha = args.alpha[edge * heads.weights + w];
  const Real focus = args.focus != nullptr ? args.focus[edge * n_focus + f] : Real(1);
  const Real* wigner = args.wigner + edge * math::wigner_size(kLmax);
  const std::int64_t dst = args.edges.dst[edge_at(args.edges, i)];
  const Real* grad = args.grad_sum + dst * kFull * sizes.hidden + c;
  const Real* u =
      args.u + f * args.focus_stride + edge * kRows * sizes.width + (c - f * sizes.width);
  Real* grad_u = args.grad_u + sizes.at(i, c, args.edges.count, kRows);

  Real global[kFull], local[kRows], message[kRows];
  global[0] = active ? grad[0] : Real(0);
  math::static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    constexpr Real scale = static_cast<Real>(math::rotate_back_scale(l));
#pragma unroll
    for (int d = l * l; d < (l + 1) * (l + 1); ++d) {
      global[d] = active ? scale * grad[d * sizes.hidden] : Real(0);
    }
  });
  rotate_rows<kLmax>(wigner, global, local);
  Real along = 0;  // <b D g, u>: what alpha and the focus weight multiply
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const Real value = u[r * sizes.width];
    along += local[r] * value;
    message[r] = alpha * focus * value;
  }
  if (active) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) grad_u[r * sizes.width] = alpha * focus * local[r];
  }
  Real torque[3] = {0, 0, 0};
  math::static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    Real turned[2 * l + 1];
    rotate_degree_back<kLmax, l>(wigner, message, turned);
    math::add_torque<l>(global + l * l, turned, torque);
  });

  // Shared memory: for each group (channels) of `along`, then the sums of the torque.
  Real* group = shared + threadIdx.y * blockDim.x;
  group[threadIdx.x] = along;
  GroupSum<Real> sum(shared + blockDim.x * blockDim.y, 3);
  sum.template run<3>([&](auto t) { return torque[decltype(t)::value]; },
                      [&](int a, Real total) {
                        if (valid) args.torque[3 * edge + a] -= total;
                      });
  __syncthreads();
  // A warp sums the channels of a head; its focus stream then sums the heads.
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int h = static_cast<int>(threadIdx.x) / kWarp; h < n_focus;
       h += static_cast<int>(blockDim.x) / kWarp) {
    Real grad_focus = 0;
    for (int k = h * heads.heads; k < (h + 1) * heads.heads; ++k) {
      Real total = 0;
      for (int j = lane; j < heads.width; j += kWarp) total += group[k * heads.width + j];
      total = warp_sum(total);
      grad_focus += total * args.alpha[edge * heads.weights + k];
      if (lane == 0 && valid) {
        args.grad_alpha[edge * heads.weights + k] =
            total * (args.focus != nullptr ? args.focus[edge * n_focus + h] : Real(1));
      }
    }
    if (lane == 0 && valid && args.grad_focus != nullptr) {
      args.grad_focus[edge * n_focus + h] = grad_focus;
    }
  }
}

template <int kLmax, class Real>
void rotate_back_sum_backward_of_degree(const kernels::RotateBackSumBackwardArgs<Real>& args,
                                        kernels::Stream stream) {
  const ChannelSizes sizes(args.shape);
  const ChannelGroups groups(sizes.hidden);
  const int warps = groups.threads / kWarp * groups.groups;
  const std::size_t shared =
      sizeof(Real) * static_cast<std::size_t>(groups.threads * groups.groups + 2 * 3 * warps);
  launch("rotate_back_sum_backward", rotate_back_sum_backward_kernel<kLmax, Real>,
         divide_up(args.edges.count, groups.groups), groups.block(), shared, stream, args, sizes,
         HeadSizes(args.shape));
}

}  // namespace dpa4::cuda
