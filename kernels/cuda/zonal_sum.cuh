// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/cuda/degree_operations.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/local_frame.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/vectors.cuh"

namespace dpa4::cuda {

template <int kLmax, class Real>
void zonal_sum_of_degree(const kernels::ZonalSumArgs<Real>& args, kernels::Stream stream) {
  constexpr int kFull = full_rows(kLmax);
  node_sums<kFull - 1, Real>(
      "zonal_sum", args.edges, args.channels, stream,
      [=] __device__(int node, int i, int c, Real* sums) {
        Real factor = args.kappa[node];
        if (args.gate != nullptr) factor *= args.gate[args.edges.src[edge_at(args.edges, i)]];
        if (args.factor != nullptr) factor *= args.factor[i];
        const Real* wigner = args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
        const Real* radial = args.radial + static_cast<std::int64_t>(i) * kLmax * args.channels + c;
#pragma unroll
        for (int l = 1; l <= kLmax; ++l) {
          const Real value = factor * radial[(l - 1) * args.channels];
#pragma unroll
          for (int k = -l; k <= l; ++k) {
            sums[l * l + l + k - 1] += wigner[math::wigner_index(l, 0, k)] * value;
          }
        }
      },
      [=] __device__(int node, int c, const Real* sums) {
        Real* x = args.x + static_cast<std::int64_t>(node) * full_rows(kLmax) * args.channels + c;
#pragma unroll
        for (int d = 1; d < full_rows(kLmax); ++d) x[d * args.channels] += sums[d - 1];
      });
}

/// A warp an edge. The gradients of the harmonics are sums over the channels, 32 of them at a time.
template <int kLmax, class Real>
__device__ void zonal_edge_backward(const kernels::ZonalSumBackwardArgs<Real>& args, int i,
                                    int lane, Real* shared) {
  constexpr int kFull = full_rows(kLmax);
  const int channels = args.channels;
  const int edge = edge_at(args.edges, i);
  const std::int64_t dst = args.edges.dst[edge];
  const Real gate = args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1);
  const Real factor = args.factor != nullptr ? args.factor[i] : Real(1);
  const Real kappa = args.kappa[dst];
  const Real* wigner = args.wigner + static_cast<std::int64_t>(i) * math::wigner_size(kLmax);
  const Real* radial = args.radial + static_cast<std::int64_t>(i) * kLmax * channels;
  const Real* grad = args.grad_x + dst * kFull * channels;
  Real* grad_radial = args.grad_radial + static_cast<std::int64_t>(i) * kLmax * channels;

  Real* grad_harmonic = shared;  // (kFull): kappa <radial, grad_x>
  Real* harmonic = shared + kFull;
  math::static_for<(kFull - 1 + kWarp - 1) / kWarp>([&](auto chunk) {
    constexpr int first = 1 + decltype(chunk)::value * kWarp;
    Real partial[kWarp];
#pragma unroll
    for (int j = 0; j < kWarp; ++j) partial[j] = 0;
    for (int c = lane; c < channels; c += kWarp) {
      math::static_for<kWarp>([&](auto index) {
        constexpr int d = first + decltype(index)::value;
        if constexpr (d < kFull) {
          constexpr int l = d < 4 ? 1 : d < 9 ? 2 : d < 16 ? 3 : d < 25 ? 4 : d < 36 ? 5 : 6;
          partial[d - first] += radial[(l - 1) * channels + c] * grad[d * channels + c];
        }
      });
    }
    const Real total = warp_sum_each(partial);
    if (first + lane < kFull) grad_harmonic[first + lane] = kappa * total;
  });
#pragma unroll
  for (int l = 1; l <= kLmax; ++l) {
    if (lane <= 2 * l) harmonic[l * l + lane] = wigner[math::wigner_index(l, 0, lane - l)];
  }
  for (int c = lane; c < channels; c += kWarp) {
#pragma unroll
    for (int l = 1; l <= kLmax; ++l) {
      Real total = 0;
#pragma unroll
      for (int k = -l; k <= l; ++k) {
        total += wigner[math::wigner_index(l, 0, k)] * grad[(l * l + l + k) * channels + c];
      }
      grad_radial[(l - 1) * channels + c] = kappa * gate * factor * total;
    }
  }
  __syncwarp();
  if (lane > 0) return;
  Real along = 0;
  for (int d = 1; d < kFull; ++d) along += harmonic[d] * grad_harmonic[d];
  if (args.grad_factor != nullptr) args.grad_factor[i] += gate * along;
  if (args.grad_gate != nullptr) args.grad_gate[i] += factor * along;
  Real torque[3] = {0, 0, 0};
  math::static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    math::add_torque<l>(grad_harmonic + l * l, harmonic + l * l, torque);
  });
  for (int a = 0; a < 3; ++a) {
    args.torque[3 * static_cast<std::int64_t>(i) + a] -= gate * factor * torque[a];
  }
}

template <int kLmax, class Real>
__global__ void __launch_bounds__(kBlock)
    zonal_sum_backward_kernel(kernels::ZonalSumBackwardArgs<Real> args) {
  begin_kernel();
  __shared__ Real shared[kBlock / kWarp][2 * full_rows(kLmax)];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kWarp) + warp;
  if (i >= args.edges.count) return;
  zonal_edge_backward<kLmax>(args, static_cast<int>(i), static_cast<int>(threadIdx.x) % kWarp,
                             shared[warp]);
}

/// kFewestLanes lanes an edge, 16 bytes of channels at a time. What the edge keeps is linear in the
/// gradients of the harmonics: only that is summed over the lanes.
template <int kLmax, class Real>
__global__ void __launch_bounds__(kBlock, sizeof(Real) == 4 && kLmax <= 3 ? 4 : 2)
    zonal_sum_backward_vector_kernel(kernels::ZonalSumBackwardArgs<Real> args) {
  begin_kernel();
  constexpr int kVector = kWide<Real>, kLanes = kFewestLanes;
  const std::int64_t number =
      static_cast<std::int64_t>(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, channels = args.channels;
  const bool valid = number < args.edges.count;
  const std::int64_t i = valid ? number : 0;  // an edge that exists
  const int edge = edge_at(args.edges, static_cast<int>(i));
  const std::int64_t dst = args.edges.dst[edge];
  const Real* wigner = args.wigner + i * math::wigner_size(kLmax);
  const Real* radial = args.radial + i * kLmax * channels;
  const Real* grad = args.grad_x + dst * full_rows(kLmax) * channels;
  Real* grad_radial = args.grad_radial + i * kLmax * channels;
  // A lane keeps one of the gradients of the edge.
  Real* kept = lane < 3 ? args.torque + 3 * i + lane : nullptr;
  if (lane == 3 && args.grad_factor != nullptr) kept = args.grad_factor + i;
  if (lane == 4 && args.grad_gate != nullptr) kept = args.grad_gate + i;
  if (!valid) kept = nullptr;
  const Real before = kept != nullptr ? *kept : Real(0);
  const Real gate = args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1);
  const Real factor = args.factor != nullptr ? args.factor[i] : Real(1);
  const Real kappa = args.kappa[dst];

  Real sums[4] = {0, 0, 0, 0};  // the torque, then <harmonics, their gradients>
  math::static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    Real harmonic[2 * l + 1], grad_harmonic[2 * l + 1];
#pragma unroll
    for (int k = 0; k <= 2 * l; ++k) {
      harmonic[k] = wigner[math::wigner_index(l, 0, k - l)];
      grad_harmonic[k] = 0;
    }
#pragma unroll 1
    for (int c = kVector * lane; c < channels; c += kVector * kLanes) {
      Real value[kVector], total[kVector];
      load_numbers<kVector>(radial + (l - 1) * channels + c, value);
#pragma unroll
      for (int v = 0; v < kVector; ++v) total[v] = 0;
#pragma unroll
      for (int k = 0; k <= 2 * l; ++k) {
        Real g[kVector];
        load_numbers<kVector>(grad + (l * l + k) * channels + c, g);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          grad_harmonic[k] += value[v] * g[v];
          total[v] += harmonic[k] * g[v];
        }
      }
#pragma unroll
      for (int v = 0; v < kVector; ++v) total[v] *= kappa * gate * factor;
      if (valid) store_vector(grad_radial + (l - 1) * channels + c, total);
    }
#pragma unroll
    for (int k = 0; k <= 2 * l; ++k) sums[3] += harmonic[k] * grad_harmonic[k];
    math::add_torque<l>(grad_harmonic, harmonic, sums);
  });
  sum_neighbors<kLanes>(sums);
  const Real share = lane == 0   ? -gate * factor * sums[0]
                     : lane == 1 ? -gate * factor * sums[1]
                     : lane == 2 ? -gate * factor * sums[2]
                     : lane == 3 ? gate * sums[3]
                                 : factor * sums[3];
  if (kept != nullptr) *kept = before + kappa * share;
}

template <int kLmax, class Real>
void zonal_sum_backward_of_degree(const kernels::ZonalSumBackwardArgs<Real>& args,
                                  kernels::Stream stream) {
  constexpr int kVector = kWide<Real>;
  if (args.channels % kVector == 0 && is_aligned<kVector>(args.radial) &&
      is_aligned<kVector>(args.grad_x) && is_aligned<kVector>(args.grad_radial)) {
    return launch("zonal_sum_backward", zonal_sum_backward_vector_kernel<kLmax, Real>,
                  divide_up(args.edges.count, kBlock / kFewestLanes), kBlock, 0, stream, args);
  }
  launch("zonal_sum_backward", zonal_sum_backward_kernel<kLmax, Real>,
         divide_up(args.edges.count, kBlock / kWarp), kBlock, 0, stream, args);
}

}  // namespace dpa4::cuda
