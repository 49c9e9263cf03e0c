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
  int streams;

  explicit HeadSizes(const kernels::MessageShape& shape)
      : weights(shape.weights()),
        width(shape.hidden() / shape.weights()),
        heads(shape.weights() / shape.n_focus),
        streams(shape.n_focus) {}
};

/// Threads of a block of the vector kernels and of rotate_back_sum_backward.
inline constexpr int kBackSumBlock = kBlock / 2;

/// Channels of a thread of the vector kernel of rotate_back_sum, and its blocks that should fit a
/// multiprocessor: as many as leave all numbers of a thread in registers.
template <int kLmax>
inline constexpr int kBackSumVector = kLmax <= 2 ? 4 : 2;
template <int kLmax>
constexpr int back_sum_vector_blocks() {
  return kLmax == 1 ? 8 : kLmax <= 3 ? 5 : kLmax <= 5 ? 4 : 3;
}

/// A block a destination: its groups of threads take turns with the destination's edges, a thread
/// keeps the sums of kVector channels in registers and reads its rows of the next edge ahead. The
/// coefficients of an edge are copied by its threads in a warp: `place` elements for them.
template <int kLmax, int kVector>
__global__ void __launch_bounds__(kBackSumBlock, back_sum_vector_blocks<kLmax>())
    rotate_back_sum_vector_kernel(kernels::RotateBackSumArgs<float> args, ChannelSizes sizes,
                                  HeadSizes heads, int place) {
  begin_kernel();
  using Real = float;
  constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  constexpr int kWigner = math::wigner_size(kLmax);
  constexpr int kStep = kVector * kBackSumBlock;  // from a staged row to the next
  extern __shared__ __align__(16) unsigned char rotate_back_shared[];
  Real* const shared = reinterpret_cast<Real*>(rotate_back_shared);
  const int node = args.edges.node_first + static_cast<int>(blockIdx.x);
  const Segment segment(args.edges, node);
  if (segment.begin >= segment.end) return;
  const int groups = static_cast<int>(blockDim.y), group = static_cast<int>(threadIdx.y);
  const int thread = group * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  const int lanes = min(static_cast<int>(blockDim.x), kWarp);
  const int c = static_cast<int>(threadIdx.x) * kVector;
  const int f = c / sizes.width, w = c / heads.width;
  Coefficients<Real> next(shared + thread / lanes * place, kWigner, thread % lanes, lanes);
  Real* staged = shared + kBackSumBlock / lanes * place + kVector * thread;
  Real* staging = staged + kRows * kStep;
  const Real* const u = args.u + f * args.focus_stride + (c - f * sizes.width);
  Real alpha = 0, focus = 1;
  const auto start = [&](int i) {
    const std::int64_t at = i < segment.end ? i : segment.begin;  // an edge that exists
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      copy_async<kVector>(staging + r * kStep, u + (at * kRows + r) * sizes.width);
    }
    next.start(args.wigner + at * kWigner, 0, kWigner);
    alpha = i < segment.end ? args.alpha[at * heads.weights + w] : Real(0);
    if (args.focus != nullptr) focus = args.focus[at * heads.streams + f];
  };
  Real sums[kVector][kFull];
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
#pragma unroll
    for (int d = 0; d < kFull; ++d) sums[v][d] = 0;
  }
  start(segment.begin + group);
  for (int first = segment.begin; first < segment.end; first += groups) {
    const Real* const wigner = next.take();
    const Real factor = alpha * focus;
    Real* const filled = staging;
    staging = staged;
    staged = filled;
    if (first + groups < segment.end) start(first + groups + group);
    math::static_for<kLmax + 1>([&](auto degree) {
      constexpr int l = decltype(degree)::value;
#pragma unroll
      for (int m = 0; m < (l == 0 ? 1 : 3); ++m) {
        Real row[kVector];
        load_numbers<kVector>(staged + local_row(kLmax, l, m) * kStep, row);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          row[v] *= factor;
          if constexpr (l == 0) {
            sums[v][0] += row[v];
          } else {
#pragma unroll
            for (int k = -l; k <= l; ++k) {
              sums[v][l * l + l + k] += wigner[math::wigner_index(l, m, k)] * row[v];
            }
          }
        }
      }
    });
  }
  math::static_for<kLmax>([&](auto degree) {
    constexpr int l = decltype(degree)::value + 1;
    constexpr Real scale = static_cast<Real>(math::rotate_back_scale(l));
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
#pragma unroll
      for (int d = l * l; d < (l + 1) * (l + 1); ++d) sums[v][d] *= scale;
    }
  });
  add_group_sums(shared, sums, sizes.hidden,
                 args.sum + static_cast<std::int64_t>(node) * kFull * sizes.hidden);
}

/// Launches the vector kernel where it can do the call.
template <int kLmax>
bool rotate_back_sum_vector(const kernels::RotateBackSumArgs<float>& args, kernels::Stream stream) {
  constexpr int kVector = kBackSumVector<kLmax>;
  const ChannelSizes sizes(args.shape);
  const HeadSizes heads(args.shape);
  const int threads = sizes.hidden / kVector;
  const bool fits = sizes.width % kVector == 0 && heads.width % kVector == 0 &&
                    threads >= kFewestLanes && kBackSumBlock % threads == 0 &&
                    args.focus_stride % kVector == 0;
  if (!fits || !is_aligned<kVector>(args.u) || !is_aligned<kVector>(args.sum)) return false;
  const int lanes = std::min(threads, kWarp), groups = kBackSumBlock / threads;
  // An odd number of 16 bytes: the edges of a warp meet other banks.
  const int place = Coefficients<float>::size(math::wigner_size(kLmax)) + 4;
  const int elements =
      kBackSumBlock / lanes * place + 2 * local_rows(kLmax) * kVector * kBackSumBlock;
  const int sums = full_rows(kLmax) * sizes.hidden * groups;
  launch("rotate_back_sum", rotate_back_sum_vector_kernel<kLmax, kVector>, args.edges.node_count,
         dim3(static_cast<unsigned>(threads), static_cast<unsigned>(groups)),
         sizeof(float) * static_cast<std::size_t>(std::max(elements, sums)), stream, args, sizes,
         heads, place);
  return true;
}

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
  begin_kernel();
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
  if constexpr (sizeof(Real) == 4) {
    if (rotate_back_sum_vector<kLmax>(args, stream)) return;
  }
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

/// A head or a focus stream over the lanes of an edge: 2^shift lanes, and so many rounds of them.
struct LaneSpan {
  int shift, rounds;

  __device__ bool begins_at(int lane) const { return (lane & ((1 << shift) - 1)) == 0; }
};

/// Lanes that share an edge, each with `vector` channels at a time. All lanes are in one head and
/// one focus stream, or several heads and streams share the lanes evenly.
struct EdgeLanes {
  int lanes = 0;  // a power of two; 0 where the shape does not allow it
  LaneSpan head{}, stream{};

  EdgeLanes(const kernels::MessageShape& shape, int vector) {
    const int head_width = shape.hidden() / shape.weights();
    for (int most = kWarp; most >= kFewestLanes && lanes == 0; most /= 2) {
      if (shape.hidden() % (most * vector) == 0 && divides(most * vector, head_width, vector) &&
          divides(most * vector, shape.width, vector)) {
        lanes = most;
      }
    }
    if (lanes == 0) return;
    head = span(head_width, vector);
    stream = span(shape.width, vector);
  }

 private:
  static bool divides(int channels, int width, int vector) {
    return width % vector == 0 && (width % channels == 0 || channels % width == 0);
  }
  LaneSpan span(int width, int vector) const {
    LaneSpan result{0, std::max(1, width / (lanes * vector))};
    while ((vector << result.shift) < std::min(width, lanes * vector)) ++result.shift;
    return result;
  }
};

/// Blocks of the vector kernel that should fit a multiprocessor: as many as leave all numbers of a
/// thread in registers.
template <int kLmax, class Real>
constexpr int back_sum_backward_blocks() {
  if (sizeof(Real) > 4) return 2;
  return kLmax == 1 ? 5 : kLmax == 2 ? 4 : kLmax <= 5 ? 3 : 2;
}

/// Sums over 2^shift neighboring lanes, the same bits in each; they are all in `mask`.
template <int kCount, class Real>
__device__ __forceinline__ void sum_lanes(Real (&x)[kCount], int shift, unsigned mask) {
#pragma unroll
  for (int k = 0; k < 5; ++k) {
    if (k >= shift) return;
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] += __shfl_xor_sync(mask, x[j], 1 << k);
  }
}

/// Channels of an edge in the registers of a lane, and what it sums over them.
template <int kLmax, int kVector, class Real>
struct BackSumBackward {
  Real global[kVector][full_rows(kLmax)];  // gradient of the destination's sum
  Real u[kVector][local_rows(kLmax)];
  Real along;  // <b D g, u>: what alpha and the focus weight multiply
  Real torque[3];

  /// Degree kL of u.
  template <int kL>
  __device__ __forceinline__ void load_u(const Real* from, int width) {
#pragma unroll
    for (int k = 0; k < (kL == 0 ? 1 : 3); ++k) {
      const int r = local_row(kLmax, kL, k);
      Real values[kVector];
      load_numbers<kVector>(from + r * width, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v) u[v][r] = values[v];
    }
  }

  /// Degree kL of the gradient.
  template <int kL>
  __device__ __forceinline__ void load_grad(const Real* from, int hidden) {
#pragma unroll
    for (int d = kL * kL; d < (kL + 1) * (kL + 1); ++d) {
      Real values[kVector];
      load_numbers<kVector>(from + d * hidden, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v) global[v][d] = values[v];
    }
  }

  /// Writes degree kL of grad_u and adds what it gives to the sums. factor = alpha focus.
  template <int kL>
  __device__ __forceinline__ void turn(const Real* __restrict__ wigner, Real factor, Real* grad_u,
                                       int width) {
    constexpr int kOrders = kL == 0 ? 1 : 3;
    constexpr Real scale = static_cast<Real>(math::rotate_back_scale(kL));
    factor *= scale;
    Real scaled[kOrders][kVector], product = 0;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      Real local[local_rows(kLmax)];
      if constexpr (kL == 0) {
        local[0] = global[v][0];
      } else {
        rotate_degree<kLmax, kL>(wigner, global[v] + kL * kL, local);
      }
#pragma unroll
      for (int k = 0; k < kOrders; ++k) {
        const int r = local_row(kLmax, kL, k);
        product += local[r] * u[v][r];
        scaled[k][v] = factor * local[r];
        u[v][r] *= factor;
      }
    }
    along += scale * product;
#pragma unroll
    for (int k = 0; k < kOrders; ++k) {
      store_vector(grad_u + local_row(kLmax, kL, k) * width, scaled[k]);
    }
    if constexpr (kL > 0) {
      constexpr int kTogether = kLmax <= 3 ? kVector : 1;  // more need too many registers
#pragma unroll
      for (int first = 0; first < kVector; first += kTogether) {
        Real turned[kTogether][2 * kL + 1];
#pragma unroll
        for (int v = 0; v < kTogether; ++v) {
          rotate_degree_back<kLmax, kL>(wigner, u[first + v], turned[v]);
        }
        math::visit_generators<kL>([&](int axis, int row, int column, double value) {
          Real sum = 0;
#pragma unroll
          for (int v = 0; v < kTogether; ++v) {
            sum += global[first + v][kL * kL + kL + row] * turned[v][kL + column];
          }
          torque[axis] += static_cast<Real>(value) * sum;
        });
      }
    }
  }
};

/// Some lanes of a warp an edge.
template <int kLmax, int kVector, class Real>
__global__ void __launch_bounds__(kBackSumBlock, back_sum_backward_blocks<kLmax, Real>())
    rotate_back_sum_backward_vector_kernel(kernels::RotateBackSumBackwardArgs<Real> args,
                                           ChannelSizes sizes, HeadSizes heads, EdgeLanes edge) {
  begin_kernel();
  constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  constexpr int kWigner = math::wigner_size(kLmax);
  constexpr int kPlace = ((kWigner + 3) / 4 | 1) * 4;  // odd: the edges of a warp meet other banks
  constexpr int kAhead = kLmax <= 2 ? kLmax + 1 : 1;   // degrees that are loaded before their use
  __shared__ __align__(16) Real coefficients[kBackSumBlock / kFewestLanes][kPlace];
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const unsigned mask = __ballot_sync(kAllLanes, i < args.edges.count);
  if (i >= args.edges.count) return;  // all lanes of the edge
  const int number = edge_at(args.edges, static_cast<int>(i));
  Real* const wigner = coefficients[threadIdx.y];
  for (int k = lane; k < kWigner; k += edge.lanes) {
    copy_async(wigner + k, args.wigner + i * kWigner + k);
  }
  Real* const torque = args.torque + 3 * i + lane;
  const Real torque_before = lane < 3 ? *torque : Real(0);

  BackSumBackward<kLmax, kVector, Real> rows;
#pragma unroll
  for (int a = 0; a < 3; ++a) rows.torque[a] = 0;
  Real head_sum[1] = {0}, stream_sum[1] = {0};
  int w = lane >> edge.head.shift, f = lane >> edge.stream.shift;
  int head_rounds = edge.head.rounds, stream_rounds = edge.stream.rounds;
  for (int first = 0; first < sizes.hidden; first += edge.lanes * kVector) {
    const int c = first + lane * kVector;
    const std::int64_t row = i * kRows * sizes.width + (c - f * sizes.width);
    const Real* u = args.u + f * args.focus_stride + row;
    Real* grad_u =
        args.grad_u + static_cast<std::int64_t>(f) * args.edges.count * kRows * sizes.width + row;
    math::static_for<kAhead>(
        [&](auto degree) { rows.template load_u<decltype(degree)::value>(u, sizes.width); });
    const Real alpha = args.alpha[i * heads.weights + w];
    const Real focus = args.focus != nullptr ? args.focus[i * heads.streams + f] : Real(1);
    const Real* grad = args.grad_sum +
                       static_cast<std::int64_t>(args.edges.dst[number]) * kFull * sizes.hidden + c;
    math::static_for<kAhead>(
        [&](auto degree) { rows.template load_grad<decltype(degree)::value>(grad, sizes.hidden); });
    rows.along = 0;
    math::static_for<kLmax + 1>([&](auto degree) {
      constexpr int l = decltype(degree)::value;
      if constexpr (l + kAhead <= kLmax) {
        rows.template load_u<l + kAhead>(u, sizes.width);
        rows.template load_grad<l + kAhead>(grad, sizes.hidden);
      }
      if (l == 1 && first == 0) await_copies(mask);
      rows.template turn<l>(wigner, alpha * focus, grad_u, sizes.width);
    });

    head_sum[0] += rows.along;
    stream_sum[0] += alpha * rows.along;
    if (--head_rounds == 0) {
      sum_lanes(head_sum, edge.head.shift, mask);
      if (edge.head.begins_at(lane)) args.grad_alpha[i * heads.weights + w] = head_sum[0] * focus;
      head_sum[0] = 0;
      w += edge.lanes >> edge.head.shift;
      head_rounds = edge.head.rounds;
    }
    if (--stream_rounds == 0) {
      if (args.grad_focus != nullptr) {
        sum_lanes(stream_sum, edge.stream.shift, mask);
        if (edge.stream.begins_at(lane)) args.grad_focus[i * heads.streams + f] = stream_sum[0];
      }
      stream_sum[0] = 0;
      f += edge.lanes >> edge.stream.shift;
      stream_rounds = edge.stream.rounds;
    }
  }
  sum_lanes(rows.torque, __ffs(edge.lanes) - 1, mask);
  const Real total = lane == 0 ? rows.torque[0] : lane == 1 ? rows.torque[1] : rows.torque[2];
  if (lane < 3) *torque = torque_before - total;
}

/// Any shape: a group of threads an edge, a thread a channel.
template <int kLmax, class Real>
__global__ void __launch_bounds__(kMostChannels, 1)
    rotate_back_sum_backward_kernel(kernels::RotateBackSumBackwardArgs<Real> args,
                                    ChannelSizes sizes, HeadSizes heads) {
  begin_kernel();
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
  constexpr int kVector = 16 / static_cast<int>(sizeof(Real));
  const ChannelSizes sizes(args.shape);
  const HeadSizes heads(args.shape);
  const EdgeLanes edge(args.shape, kVector);
  if (edge.lanes > 0 && args.focus_stride % kVector == 0 && is_aligned<kVector>(args.u) &&
      is_aligned<kVector>(args.grad_u) && is_aligned<kVector>(args.grad_sum)) {
    const int edges = kBackSumBlock / edge.lanes;
    return launch("rotate_back_sum_backward",
                  rotate_back_sum_backward_vector_kernel<kLmax, kVector, Real>,
                  divide_up(args.edges.count, edges),
                  dim3(static_cast<unsigned>(edge.lanes), static_cast<unsigned>(edges)), 0, stream,
                  args, sizes, heads, edge);
  }
  const ChannelGroups groups(sizes.hidden, kBackSumBlock);
  const std::size_t shared =
      sizeof(Real) * static_cast<std::size_t>(
                         groups.threads * groups.groups + GroupSum<Real>::size(3, groups.warps()) +
                         groups.warps() * Coefficients<Real>::size(math::wigner_size(kLmax)));
  launch("rotate_back_sum_backward", rotate_back_sum_backward_kernel<kLmax, Real>,
         divide_up(args.edges.count, groups.groups), groups.block(), shared, stream, args, sizes,
         heads);
}

}  // namespace dpa4::cuda
