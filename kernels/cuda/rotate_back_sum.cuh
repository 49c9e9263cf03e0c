// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>

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

/// Blocks of rotate_back_sum that should fit a multiprocessor.
template <int kLmax, int kThreads, class Real>
constexpr int back_sum_blocks() {
  if (sizeof(Real) > 4 || kThreads > kBlock) return 1;
  return kLmax <= 3 ? 3 : 2;
}

/// A block a destination: its groups of threads take turns with the destination's edges, a thread
/// keeps the sums of a channel in registers, and the groups' sums are added in their order.
template <int kLmax, int kThreads, class Real>
__global__ void __launch_bounds__(kThreads, back_sum_blocks<kLmax, kThreads, Real>())
    rotate_back_sum_kernel(kernels::RotateBackSumArgs<Real> args, ChannelSizes sizes,
                           HeadSizes heads) {
  constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  constexpr int kWigner = math::wigner_size(kLmax);
  extern __shared__ __align__(16) unsigned char rotate_back_shared[];
  Real* shared = reinterpret_cast<Real*>(rotate_back_shared);
  Coefficients<Real> next(shared, kWigner);
  const int node = args.edges.node_first + static_cast<int>(blockIdx.x);
  const Segment segment(args.edges, node);
  const bool active = static_cast<int>(threadIdx.x) < sizes.hidden;
  const int c = active ? static_cast<int>(threadIdx.x) : 0;
  const int f = c / sizes.width, w = c / heads.width;
  const Real* u = args.u + f * args.focus_stride + (c - f * sizes.width);
  Real sums[kFull];
#pragma unroll
  for (int d = 0; d < kFull; ++d) sums[d] = 0;

  const int step = static_cast<int>(blockDim.y);
  const int first = segment.begin + static_cast<int>(threadIdx.y);
  const auto start = [&](int i) {
    if (i < segment.end)
      next.start(args.wigner + static_cast<std::int64_t>(i) * kWigner, 0, kWigner);
  };
  start(first);
  for (int i = first; i < segment.end; i += step) {
    Real factor = args.alpha[static_cast<std::int64_t>(i) * heads.weights + w];
    if (args.focus != nullptr) {
      factor *= args.focus[static_cast<std::int64_t>(i) * (heads.weights / heads.heads) + f];
    }
    const Real* row = u + static_cast<std::int64_t>(i) * kRows * sizes.width;
    Real local[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) local[r] = factor * row[r * sizes.width];
    const Real* wigner = next.take();
    start(i + step);
    sums[0] += local[0];
    math::static_for<kLmax>([&](auto degree) {
      constexpr int l = decltype(degree)::value + 1;
      Real global[2 * l + 1];
      rotate_degree_back<kLmax, l>(wigner, local, global);
#pragma unroll
      for (int k = 0; k <= 2 * l; ++k) sums[l * l + k] += global[k];
    });
  }

  for (unsigned group = 1; group < blockDim.y; ++group) {
    __syncthreads();
    if (threadIdx.y == group) {
#pragma unroll
      for (int d = 0; d < kFull; ++d) shared[d * blockDim.x + threadIdx.x] = sums[d];
    }
    __syncthreads();
    if (threadIdx.y == 0) {
#pragma unroll
      for (int d = 0; d < kFull; ++d) sums[d] += shared[d * blockDim.x + threadIdx.x];
    }
  }
  if (threadIdx.y > 0 || !active) return;
  Real* sum = args.sum + static_cast<std::int64_t>(node) * kFull * sizes.hidden + c;
  sum[0] += sums[0];
  math::static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    constexpr Real scale = static_cast<Real>(math::rotate_back_scale(l));
#pragma unroll
    for (int d = l * l; d < (l + 1) * (l + 1); ++d) sum[d * sizes.hidden] += scale * sums[d];
  });
}

template <int kLmax, class Real>
void rotate_back_sum_of_degree(const kernels::RotateBackSumArgs<Real>& args,
                               kernels::Stream stream) {
  const ChannelSizes sizes(args.shape);
  const ChannelGroups groups(sizes.hidden);
  const int coefficients = groups.warps() * Coefficients<Real>::size(math::wigner_size(kLmax));
  const int rows = groups.groups > 1 ? full_rows(kLmax) * groups.threads : 0;
  const auto kernel = groups.fits_block() ? rotate_back_sum_kernel<kLmax, kBlock, Real>
                                          : rotate_back_sum_kernel<kLmax, kMostChannels, Real>;
  launch("rotate_back_sum", kernel, args.edges.node_count, groups.block(),
         sizeof(Real) * static_cast<std::size_t>(std::max(coefficients, rows)), stream, args, sizes,
         HeadSizes(args.shape));
}

/// Threads of a block of rotate_back_sum_backward, and blocks that should fit a multiprocessor.
inline constexpr int kBackSumBlock = kBlock / 2;
template <int kLmax, int kThreads, class Real>
constexpr int back_sum_backward_blocks() {
  if (sizeof(Real) > 4 || kThreads > kBackSumBlock) return 1;
  return kLmax <= 2 ? 8 : kLmax == 3 ? 5 : 3;
}

/// A group of threads an edge, a thread a channel. kWholeWarps: a head is a number of warps.
template <int kLmax, bool kWholeWarps, int kThreads, class Real>
__global__ void __launch_bounds__(kThreads, back_sum_backward_blocks<kLmax, kThreads, Real>())
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
  Coefficients<Real> coefficients(
      shared + blockDim.x * blockDim.y + GroupSum<Real>::size(3, blockDim.x * blockDim.y / kWarp),
      math::wigner_size(kLmax));
  coefficients.start(args.wigner + edge * math::wigner_size(kLmax), 0, math::wigner_size(kLmax));
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
#pragma unroll
  for (int r = 0; r < kRows; ++r) message[r] = u[r * sizes.width];
  const Real* wigner = coefficients.take();
  rotate_rows<kLmax>(wigner, global, local);
  Real along = 0;  // <b D g, u>: what alpha and the focus weight multiply
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    along += local[r] * message[r];
    message[r] *= alpha * focus;
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

  if constexpr (kWholeWarps) {
    Real values[4] = {torque[0], torque[1], torque[2], along};
    const Real part = warp_sum_each(values);
    const int thread = static_cast<int>(threadIdx.x),
              group_warps = static_cast<int>(blockDim.x) / kWarp;
    Real* parts = shared + static_cast<int>(threadIdx.y) * group_warps * 4;
    if (thread % (kWarp / 4) == 0) parts[thread / (kWarp / 4)] = part;
    group_barrier();
    if (!valid) return;
    if (thread < 3) {
      Real total = parts[thread];
      for (int k = 1; k < group_warps; ++k) total += parts[4 * k + thread];
      args.torque[3 * edge + thread] -= total;
    } else if (thread < 3 + n_focus) {
      const int stream = thread - 3, head_warps = heads.width / kWarp;
      const Real stream_weight =
          args.focus != nullptr ? args.focus[edge * n_focus + stream] : Real(1);
      Real grad_focus = 0;
      for (int k = stream * heads.heads; k < (stream + 1) * heads.heads; ++k) {
        Real total = 0;
        for (int j = k * head_warps; j < (k + 1) * head_warps; ++j) total += parts[4 * j + 3];
        grad_focus += total * args.alpha[edge * heads.weights + k];
        args.grad_alpha[edge * heads.weights + k] = total * stream_weight;
      }
      if (args.grad_focus != nullptr) args.grad_focus[edge * n_focus + stream] = grad_focus;
    }
    return;
  }

  // Shared memory: for each group (channels) of `along`, then the sums of the torque.
  Real* group = shared + threadIdx.y * blockDim.x;
  group[threadIdx.x] = along;
  GroupSum<Real> sum(shared + blockDim.x * blockDim.y, 3);
  sum.template run<3>([&](auto t) { return torque[decltype(t)::value]; },
                      [&](int a, Real total) {
                        if (valid) args.torque[3 * edge + a] -= total;
                      });
  group_barrier();
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
  const ChannelGroups groups(sizes.hidden, kBackSumBlock);
  const std::size_t shared =
      sizeof(Real) * static_cast<std::size_t>(
                         groups.threads * groups.groups + GroupSum<Real>::size(3, groups.warps()) +
                         groups.warps() * Coefficients<Real>::size(math::wigner_size(kLmax)));
  const HeadSizes heads(args.shape);
  const auto kernel =
      heads.width % kWarp != 0 ? rotate_back_sum_backward_kernel<kLmax, false, kMostChannels, Real>
      : groups.fits_block()    ? rotate_back_sum_backward_kernel<kLmax, true, kBackSumBlock, Real>
                               : rotate_back_sum_backward_kernel<kLmax, true, kMostChannels, Real>;
  launch("rotate_back_sum_backward", kernel, divide_up(args.edges.count, groups.groups),
         groups.block(), shared, stream, args, sizes, heads);
}

}  // namespace dpa4::cuda
