// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>

#include "kernels/cuda/coefficients.cuh"
#include "kernels/cuda/degree_operations.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/local_frame.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/vectors.cuh"

namespace dpa4::cuda {

/// Sizes that the kernels cannot ask a MessageShape for.
struct ChannelSizes {
  int hidden;  // Cw
  int width;   // Cf
  int rank;

  explicit ChannelSizes(const kernels::MessageShape& shape)
      : hidden(shape.hidden()), width(shape.width), rank(shape.rank) {}

  /// Element (edge i, row 0, channel c) of an array (F, count, rows, Cf).
  __device__ std::int64_t at(int i, int c, int count, int rows) const {
    const int f = c / width;
    return ((static_cast<std::int64_t>(f) * count + i) * rows) * width + (c - f * width);
  }
};

/// Numbers of an edge that all channels need: the rotation and, for kMix, the mixing coefficients.
template <int kLmax>
__host__ __device__ constexpr int edge_coefficients(bool scale, int rank) {
  return math::wigner_size(kLmax) + (scale ? 0 : mixing_size(kLmax) * rank);
}

/// A group of threads an edge, a thread a channel.
template <int kLmax, bool kScale, class Real>
__global__ void __launch_bounds__(kMostChannels, 1)
    rotate_mix_kernel(kernels::RotateMixArgs<Real> args, ChannelSizes sizes) {
  begin_kernel();
  constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  constexpr int kWigner = math::wigner_size(kLmax);
  extern __shared__ __align__(16) unsigned char rotate_mix_shared[];
  Coefficients<Real> shared(reinterpret_cast<Real*>(rotate_mix_shared),
                            edge_coefficients<kLmax>(kScale, sizes.rank));
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (number >= args.edges.count) return;  // whole warps
  shared.start(args.wigner + number * kWigner, 0, kWigner);
  if constexpr (!kScale) {
    shared.start(args.radial + number * args.ld_radial, kWigner, mixing_size(kLmax) * sizes.rank);
  }
  const int i = static_cast<int>(number);
  const bool active = static_cast<int>(threadIdx.x) < sizes.hidden;
  const int c = active ? static_cast<int>(threadIdx.x) : 0;
  const std::int64_t src = args.edges.src[edge_at(args.edges, i)];
  const Real* source = args.x + src * kFull * sizes.hidden + c;
  Real x[kFull], local[kRows];
#pragma unroll
  for (int d = 0; d < kFull; ++d) x[d] = source[d * sizes.hidden];
  Real scale[kScale ? kLmax + 1 : 1];
  if constexpr (kScale) {
#pragma unroll
    for (int l = 0; l <= kLmax; ++l) {
      scale[l] = args.radial[number * args.ld_radial + l * sizes.hidden + c];
    }
  }
  const Real* wigner = shared.take();
  rotate_rows<kLmax>(wigner, x, local);

  Real* u = args.u + sizes.at(i, c, args.edges.count, kRows);
  if constexpr (kScale) {
    if (!active) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) u[r * sizes.width] = local[r] * scale[local_degree(kLmax, r)];
  } else {
    const Real* radial = wigner + kWigner;
    Real mixed[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) mixed[r] = 0;
    for (int p = 0; p < sizes.rank; ++p) {
      Real sum[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] = 0;
      visit_mixing<kLmax>([&](int in, int out, int place) {
        sum[out] += radial[place * sizes.rank + p] * local[in];
      });
      const Real basis = args.channel_basis[p * sizes.hidden + c];
#pragma unroll
      for (int r = 0; r < kRows; ++r) mixed[r] += basis * sum[r];
    }
    if (!active) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) u[r * sizes.width] = mixed[r];
  }
}

/// Row (0, 0) alone: a group of threads an edge, a thread a channel.
template <int kLmax, bool kScale, class Real>
__global__ void __launch_bounds__(kMostChannels, 1)
    rotate_mix_scalars_kernel(kernels::RotateMixArgs<Real> args, ChannelSizes sizes) {
  begin_kernel();
  constexpr int kFull = full_rows(kLmax);
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int c = static_cast<int>(threadIdx.x);
  if (number >= args.edges.count || c >= sizes.hidden) return;
  const std::int64_t src = args.edges.src[edge_at(args.edges, static_cast<int>(number))];
  const Real* x = args.x + src * kFull * sizes.hidden + c;
  const Real* radial = args.radial + number * args.ld_radial;
  Real* u = args.u + sizes.at(static_cast<int>(number), c, args.edges.count, 1);
  if constexpr (kScale) {
    *u = x[0] * radial[c];
  } else {
    const Real* wigner = args.wigner + number * math::wigner_size(kLmax);
    Real local[kLmax + 1];
    local[0] = x[0];
#pragma unroll
    for (int l = 1; l <= kLmax; ++l) {
      local[l] = 0;
#pragma unroll
      for (int k = -l; k <= l; ++k) {
        local[l] += wigner[math::wigner_index(l, 0, k)] * x[(l * l + l + k) * sizes.hidden];
      }
    }
    Real mixed = 0;
    for (int p = 0; p < sizes.rank; ++p) {
      Real sum = 0;
#pragma unroll
      for (int l = 0; l <= kLmax; ++l) sum += radial[l * (kLmax + 1) * sizes.rank + p] * local[l];
      mixed += args.channel_basis[p * sizes.hidden + c] * sum;
    }
    *u = mixed;
  }
}

/// Barrier of the threads that share an edge (threadIdx.y), whole warps.
__device__ __forceinline__ void group_barrier() {
  if (blockDim.x == kWarp) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" : : "r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
  }
}

/// Sums over the channels of an edge. A warp sums its channels in chunks of 32 values, the group's
/// warps are summed through shared memory. Two buffers take turns, so that one barrier a use is
/// enough.
template <class Real>
class GroupSum {
 public:
  /// Elements of shared memory for `places` sums, whole 16 bytes.
  __host__ __device__ static constexpr int size(int places, int warps) {
    return (2 * places * warps + 3) / 4 * 4;
  }

  /// @param shared  size(places, warps of the block) elements
  __device__ GroupSum(Real* shared, int places)
      : places_(places),
        warps_(static_cast<int>(blockDim.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        first_(shared),
        second_(shared + places * warps_ * static_cast<int>(blockDim.y)) {}

  /// value(integral_constant t) is this thread's share of sum t; take(t, total) is called for t <
  /// kPlaces by one thread of the group.
  template <int kPlaces, class Value, class Take>
  __device__ void run(const Value& value, const Take& take) {
    Real* partial = first_ + static_cast<int>(threadIdx.y) * warps_ * places_;
    math::static_for<(kPlaces + kWarp - 1) / kWarp>([&](auto chunk) {
      constexpr int first = decltype(chunk)::value * kWarp;
      constexpr int count = kPlaces - first < kWarp ? kPlaces - first : kWarp;
      constexpr int padded = count > 16  ? 32
                             : count > 8 ? 16
                             : count > 4 ? 8
                             : count > 2 ? 4
                                         : count;
      constexpr int lanes_each = kWarp / padded;
      Real v[padded];
      math::static_for<padded>([&](auto index) {
        constexpr int j = decltype(index)::value;
        if constexpr (j < count) {
          v[j] = value(std::integral_constant<int, first + j>{});
        } else {
          v[j] = 0;
        }
      });
      const Real total = warp_sum_each(v);
      const int j = lane_ / lanes_each;
      if (lane_ % lanes_each == 0 && j < count) partial[warp_ * places_ + first + j] = total;
    });
    group_barrier();
    for (int t = threadIdx.x; t < kPlaces; t += blockDim.x) {
      Real total = partial[t];
      for (int w = 1; w < warps_; ++w) total += partial[w * places_ + t];
      take(t, total);
    }
    Real* const used = first_;
    first_ = second_;
    second_ = used;
  }

 private:
  int places_, warps_, lane_, warp_;
  Real* first_;
  Real* second_;
};

/// Where a thread of the backward rotation has its channel of the source's features: in registers
/// up to this degree, then in shared memory, of which the widest float64 models need too much:
/// theirs stay where they are.
inline constexpr int kMostRegisterDegree = 3;
template <int kLmax>
inline constexpr bool kSourceInRegisters = kLmax <= kMostRegisterDegree;
template <int kLmax, class Real>
inline constexpr bool kSourceShared =
    !kSourceInRegisters<kLmax> && full_rows(kLmax) * sizeof(Real) <= 288;

/// Registers of a thread that goes through the edges of a source.
template <int kLmax, class Real>
struct MixBackward {
  static constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  static constexpr int kMixing = mixing_size(kLmax);

  static constexpr bool kHeld = kSourceInRegisters<kLmax>;
  Real x[kHeld ? kFull : 1];  // of the source
  const Real* place;          // or its first row is here
  int stride;                 // and the next one so far from it, where it is not shared
  Real grad_x[kFull];         // sum over the edges
  Real local[kRows];          // rows |m| <= 1 of D x
  Real grad_u[kRows];
  Real grad_local[kRows];
  Real torque[3];

  /// Degree kL of the source's features.
  template <int kL>
  __device__ __forceinline__ void source(Real (&values)[2 * kL + 1]) const {
#pragma unroll
    for (int k = 0; k <= 2 * kL; ++k) {
      if constexpr (kHeld) {
        values[k] = x[kL * kL + k];
      } else if constexpr (kSourceShared<kLmax, Real>) {
        values[k] = place[(kL * kL + k) * static_cast<int>(blockDim.x * blockDim.y)];
      } else {
        values[k] = place[(kL * kL + k) * stride];
      }
    }
  }

  /// local = rows |m| <= 1 of D x.
  __device__ __forceinline__ void rotate(const Real* __restrict__ wigner) {
    Real scalar[1];
    source<0>(scalar);
    local[0] = scalar[0];
    math::static_for<kLmax>([&](auto degree) {
      constexpr int l = decltype(degree)::value + 1;
      Real values[2 * l + 1];
      source<l>(values);
      rotate_degree<kLmax, l>(wigner, values, local);
    });
  }

  /// grad_local of one edge for kMix.
  __device__ void mix(const Real* __restrict__ radial, const Real* __restrict__ basis, int rank,
                      int stride) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) grad_local[r] = 0;
    for (int p = 0; p < rank; ++p) {
      const Real factor = basis[p * stride];
      Real sum[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[r] = 0;
      visit_mixing<kLmax>(
          [&](int in, int out, int place) { sum[in] += radial[place * rank + p] * grad_u[out]; });
#pragma unroll
      for (int r = 0; r < kRows; ++r) grad_local[r] += factor * sum[r];
    }
  }

  /// What this channel gives to the gradient of a mixing coefficient, without the channel basis.
  template <int kPlace>
  __device__ Real mixing_gradient() const {
    constexpr int kSquare = (kLmax + 1) * (kLmax + 1);
    if constexpr (kPlace < kSquare) {
      return local[kPlace / (kLmax + 1)] * grad_u[kPlace % (kLmax + 1)];
    } else {
      constexpr int in = (kPlace - kSquare) / kLmax + 1, out = (kPlace - kSquare) % kLmax + 1;
      return local[local_row(kLmax, in, 1)] * grad_u[local_row(kLmax, out, 1)] +
             local[local_row(kLmax, in, 2)] * grad_u[local_row(kLmax, out, 2)];
    }
  }

  /// Turns grad_local back, adds it to grad_x and sets the torque.
  __device__ void turn_back(const Real* __restrict__ wigner) {
#pragma unroll
    for (int a = 0; a < 3; ++a) torque[a] = 0;
    grad_x[0] += grad_local[0];
    math::static_for<kLmax>([&](auto degree) {
      constexpr int l = decltype(degree)::value + 1;
      Real global[2 * l + 1];
      rotate_degree_back<kLmax, l>(wigner, grad_local, global);
#pragma unroll
      for (int k = 0; k <= 2 * l; ++k) grad_x[l * l + k] += global[k];
      Real values[2 * l + 1];
      source<l>(values);
      math::add_torque<l>(global, values, torque);
    });
  }
};

/// Threads of a block of the backward rotations: fewer where a thread needs many registers.
template <int kLmax>
inline constexpr int kRotationBlock = kLmax <= 3 ? kBlock : kBlock / 2;

/// Blocks that should fit a multiprocessor.
template <int kLmax, int kThreads, class Real>
constexpr int backward_blocks() {
  if (sizeof(Real) > 4 || kThreads > kBlock) return 1;
  return kLmax == 3 ? 2 : 3;
}

/// A block a source: its groups of threads take turns with the source's edges, a thread holds a
/// channel of the source's features and of their gradient.
template <int kLmax, bool kScale, int kThreads, class Real>
__global__ void __launch_bounds__(kThreads, backward_blocks<kLmax, kThreads, Real>())
    rotate_mix_backward_kernel(kernels::RotateMixBackwardArgs<Real> args, ChannelSizes sizes) {
  begin_kernel();
  using Registers = MixBackward<kLmax, Real>;
  constexpr int kRows = Registers::kRows, kFull = Registers::kFull;
  constexpr int kMixing = kScale ? 0 : Registers::kMixing;
  constexpr int kWigner = math::wigner_size(kLmax);
  extern __shared__ __align__(16) unsigned char rotate_mix_shared[];
  Real* shared = reinterpret_cast<Real*>(rotate_mix_shared);
  const int coefficients = edge_coefficients<kLmax>(kScale, sizes.rank);
  Coefficients<Real> next(shared, coefficients);
  const int warps = static_cast<int>(blockDim.x * blockDim.y) / kWarp;
  GroupSum<Real> sum(shared + warps * Coefficients<Real>::size(coefficients), kMixing + 3);
  Real* const place = shared + warps * Coefficients<Real>::size(coefficients) +
                      GroupSum<Real>::size(kMixing + 3, warps) + threadIdx.y * blockDim.x +
                      threadIdx.x;

  const int node = args.edges.node_first + static_cast<int>(blockIdx.x);
  const Segment segment(args.edges, node);
  const int c = threadIdx.x;
  const bool active = c < sizes.hidden;
  const std::int64_t row = static_cast<std::int64_t>(node) * kFull * sizes.hidden + c;
  Registers edge;
#pragma unroll
  for (int d = 0; d < kFull; ++d) {
    const Real value = active ? args.x[row + d * sizes.hidden] : Real(0);
    if constexpr (Registers::kHeld) {
      edge.x[d] = value;
    } else if constexpr (kSourceShared<kLmax, Real>) {
      place[d * static_cast<int>(blockDim.x * blockDim.y)] = value;
    }
    edge.grad_x[d] = 0;
  }
  if constexpr (kSourceShared<kLmax, Real>) {
    edge.place = place;
  } else {
    edge.place = args.x + (active ? row : row - c);  // a channel that exists
    edge.stride = sizes.hidden;
  }

  const auto start = [&](int i) {
    const std::int64_t at = i < segment.end ? i : segment.begin;  // an edge that exists
    next.start(args.wigner + at * kWigner, 0, kWigner);
    if constexpr (!kScale) {
      next.start(args.radial + at * args.ld_radial, kWigner, mixing_size(kLmax) * sizes.rank);
    }
  };
  if (segment.begin < segment.end) start(segment.begin + static_cast<int>(threadIdx.y));
  for (int first = segment.begin; first < segment.end; first += static_cast<int>(blockDim.y)) {
    const int i = first + static_cast<int>(threadIdx.y);
    const bool valid = i < segment.end;
    const std::int64_t at = valid ? i : segment.begin;  // an edge that exists, to read from
    Real* grad_radial = args.grad_radial + at * args.ld_radial;
    const Real* grad_u =
        args.grad_u + sizes.at(static_cast<int>(at), active ? c : 0, args.edges.count, kRows);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      edge.grad_u[r] = active && valid ? grad_u[r * sizes.width] : Real(0);
    }
    Real scale[kScale ? kLmax + 1 : 1];
    if constexpr (kScale) {
      const Real* radial = args.radial + at * args.ld_radial + (active ? c : 0);
#pragma unroll
      for (int l = 0; l <= kLmax; ++l) scale[l] = radial[l * sizes.hidden];
    }
    const Real* wigner = next.take();
    if (first + static_cast<int>(blockDim.y) < segment.end) {
      start(i + static_cast<int>(blockDim.y));
    }
    edge.rotate(wigner);
    if constexpr (kScale) {
#pragma unroll
      for (int l = 0; l <= kLmax; ++l) {
        Real total = 0;
#pragma unroll
        for (int k = 0; k < (l == 0 ? 1 : 3); ++k) {
          const int r = local_row(kLmax, l, k);
          total += edge.grad_u[r] * edge.local[r];
          edge.grad_local[r] = edge.grad_u[r] * scale[l];
        }
        if (active && valid) grad_radial[l * sizes.hidden + c] = total;
      }
    } else {
      edge.mix(wigner + kWigner, args.channel_basis + (active ? c : 0), sizes.rank, sizes.hidden);
    }
    edge.turn_back(wigner);
    const auto add_torque = [&](int a, Real total) {
      if (valid) args.torque[3 * at + a] += total;
    };
    if constexpr (kScale) {
      sum.template run<3>([&](auto t) { return edge.torque[decltype(t)::value]; }, add_torque);
    } else {
      for (int p = 0; p < sizes.rank; ++p) {
        const Real basis = active ? args.channel_basis[p * sizes.hidden + c] : Real(0);
        sum.template run<kMixing + 3>(
            [&](auto t) {
              constexpr int place = decltype(t)::value;
              if constexpr (place < kMixing) {
                return basis * edge.template mixing_gradient<place>();
              } else {
                return edge.torque[place - kMixing];
              }
            },
            [&](int t, Real total) {
              if (t >= kMixing) {
                if (p == 0) add_torque(t - kMixing, total);
              } else if (valid) {
                grad_radial[t * sizes.rank + p] = total;
              }
            });
      }
    }
  }

  for (unsigned group = 1; group < blockDim.y; ++group) {
    __syncthreads();
    if (threadIdx.y == group) {
#pragma unroll
      for (int d = 0; d < kFull; ++d) shared[d * blockDim.x + c] = edge.grad_x[d];
    }
    __syncthreads();
    if (threadIdx.y == 0) {
#pragma unroll
      for (int d = 0; d < kFull; ++d) edge.grad_x[d] += shared[d * blockDim.x + c];
    }
  }
  if (threadIdx.y == 0 && active) {
#pragma unroll
    for (int d = 0; d < kFull; ++d) args.grad_x[row + d * sizes.hidden] += edge.grad_x[d];
  }
}

/// Sums kCount values (a multiple of 8) over the 2^k >= 8 lanes that share an edge: v[j] becomes
/// the sum of the lanes' v[octet_place<kCount>(lane) + j] for j < kCount / 8. Destroys the rest.
template <int kCount, class Real>
__device__ __forceinline__ void sum_over_octets(Real (&v)[kCount], int lane, int lanes) {
  math::static_for<3>([&](auto index) {
    constexpr int kBit = 1 << decltype(index)::value, kHalf = kCount / (2 * kBit);
    const bool upper = (lane & kBit) != 0;
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      const Real sent = upper ? v[j] : v[j + kHalf];
      const Real kept = upper ? v[j + kHalf] : v[j];
      v[j] = kept + __shfl_xor_sync(kAllLanes, sent, kBit);
    }
  });
#pragma unroll
  for (int step = 8; step < kWarp; step *= 2) {
    if (step >= lanes) return;
#pragma unroll
    for (int j = 0; j < kCount / 8; ++j) v[j] += __shfl_xor_sync(kAllLanes, v[j], step);
  }
}

template <int kCount>
__device__ __forceinline__ int octet_place(int lane) {
  return ((lane & 1) * 4 + (lane & 2) + (lane >> 2 & 1)) * (kCount / 8);
}

/// Degree kL of kVector channels, rows `stride` apart from `x` on.
template <int kL, int kVector, class Real>
__device__ __forceinline__ void load_degree(const Real* x, int stride,
                                            Real (&values)[kVector][2 * kL + 1]) {
#pragma unroll
  for (int k = 0; k <= 2 * kL; ++k) {
    Real row[kVector];
    load_numbers<kVector>(x + (kL * kL + k) * stride, row);
#pragma unroll
    for (int v = 0; v < kVector; ++v) values[v][k] = row[v];
  }
}

/// to[d, c] += the sum over a block's groups of threads (threadIdx.y), in their order, of what the
/// thread with the channels c holds.
template <int kRows, int kVector>
__device__ __forceinline__ void add_group_sums(float* shared, const float (&sums)[kVector][kRows],
                                               int channels, float* to) {
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  __syncthreads();
#pragma unroll
  for (int d = 0; d < kRows; ++d) {
    float values[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) values[v] = sums[v][d];
    store_numbers<kVector>(shared + (group * kRows + d) * channels + kVector * lane, values);
  }
  __syncthreads();
  for (int k = kVector * (group * static_cast<int>(blockDim.x) + lane); k < kRows * channels;
       k += kVector * threads) {
    float total[kVector];
    load_numbers<kVector>(to + k, total);
    for (int g = 0; g < static_cast<int>(blockDim.y); ++g) {
      float values[kVector];
      load_numbers<kVector>(shared + g * kRows * channels + k, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v) total[v] += values[v];
    }
    store_numbers<kVector>(to + k, total);
  }
}

/// Threads of a block of the vector kernel, its channels of a lane, and its blocks that should fit
/// a multiprocessor: as many as leave all numbers of a thread in registers.
inline constexpr int kMixVectorBlock = kBlock / 2;
inline constexpr int kMostVectorDegree = 4;
template <int kLmax>
inline constexpr int kMixVector = kLmax <= 2 ? 4 : 2;
template <int kLmax>
constexpr int mix_vector_blocks() {
  return kLmax == 1 ? 5 : kLmax <= 3 ? 3 : 2;
}

/// Shared memory of the vector kernel in elements: the source's features, the coefficients of the
/// groups' edges (an odd number of 16 bytes, so that the edges of a warp meet other banks), and
/// twice `staged` vectors of a thread; in the end the groups' sums.
template <int kLmax, int kVector>
struct MixVectorMemory {
  int place, elements;

  MixVectorMemory(int coefficients, int hidden, int groups, int staged)
      : place(Coefficients<float>::size(coefficients) + 4),
        elements(full_rows(kLmax) * hidden + groups * place +
                 2 * staged * kVector * kMixVectorBlock) {
    elements = std::max(elements, full_rows(kLmax) * hidden * groups);
  }
};

/// Rows of an edge that a thread of the vector kernel reads ahead.
template <int kLmax, bool kScale>
inline constexpr int kMixStaged = local_rows(kLmax) + (kScale ? kLmax + 1 : 0);

/// rotate_mix_backward where the lanes of a warp, or some of them, hold all channels of an edge,
/// kVector each, and the rank is 1. A block a source, its groups of lanes take turns with the
/// edges.
template <int kLmax, bool kScale, int kVector>
__global__ void __launch_bounds__(kMixVectorBlock, mix_vector_blocks<kLmax>())
    rotate_mix_backward_vector_kernel(kernels::RotateMixBackwardArgs<float> args,
                                      ChannelSizes sizes, MixVectorMemory<kLmax, kVector> memory) {
  begin_kernel();
  using Real = float;
  constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  constexpr int kWigner = math::wigner_size(kLmax);
  constexpr int kMixing = kScale ? 0 : mixing_size(kLmax);
  constexpr int kSums = (kMixing + 3 + 7) / 8 * 8;
  constexpr int kStep = kVector * kMixVectorBlock;  // from a staged row to the next
  extern __shared__ __align__(16) unsigned char rotate_mix_shared[];
  Real* const shared = reinterpret_cast<Real*>(rotate_mix_shared);
  Real* const x = shared;
  const int lane = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x);
  const int groups = static_cast<int>(blockDim.y), group = static_cast<int>(threadIdx.y);
  const int thread = group * lanes + lane, c = lane * kVector, f = c / sizes.width;
  const int node = args.edges.node_first + static_cast<int>(blockIdx.x);
  const Segment segment(args.edges, node);
  if (segment.begin >= segment.end) return;
  Real* const places = shared + kFull * sizes.hidden;
  Coefficients<Real> next(places + group * memory.place, edge_coefficients<kLmax>(kScale, 1), lane,
                          lanes);
  Real* staged = places + groups * memory.place + kVector * thread;
  Real* staging = staged + kMixStaged<kLmax, kScale> * kStep;
  const Real* const grad_u = args.grad_u +
                             static_cast<std::int64_t>(f) * args.edges.count * kRows * sizes.width +
                             (c - f * sizes.width);
  const auto start = [&](int i) {
    const std::int64_t at = i < segment.end ? i : segment.begin;  // an edge that exists
    const Real* const radial = args.radial + at * args.ld_radial;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      copy_async<kVector>(staging + r * kStep, grad_u + (at * kRows + r) * sizes.width);
    }
    next.start(args.wigner + at * kWigner, 0, kWigner);
    if constexpr (kScale) {
#pragma unroll
      for (int l = 0; l <= kLmax; ++l) {
        copy_async<kVector>(staging + (kRows + l) * kStep, radial + l * sizes.hidden + c);
      }
    } else {
      next.start(radial, kWigner, kMixing);
    }
  };
  start(segment.begin + group);
  const std::int64_t row = static_cast<std::int64_t>(node) * kFull * sizes.hidden;
  for (int k = kVector * thread; k < kFull * sizes.hidden; k += kVector * kMixVectorBlock) {
    Real values[kVector];
    load_numbers<kVector>(args.x + row + k, values);
    store_numbers<kVector>(x + k, values);
  }
  Real basis[kVector];
  if constexpr (!kScale) load_numbers<kVector>(args.channel_basis + c, basis);
  Real grad_x[kVector][kFull];
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
#pragma unroll
    for (int d = 0; d < kFull; ++d) grad_x[v][d] = 0;
  }
  __syncthreads();

  for (int first = segment.begin; first < segment.end; first += groups) {
    const int i = first + group;
    const bool valid = i < segment.end;
    const std::int64_t at = valid ? i : segment.begin;  // an edge that exists, to read from
    Real* const grad_radial = args.grad_radial + at * args.ld_radial;
    Real* const torque = args.torque + 3 * at;
    Real torque_before[kSums / 8];
#pragma unroll
    for (int j = 0; j < kSums / 8; ++j) {
      const int a = octet_place<kSums>(lane) + j - kMixing;
      torque_before[j] = a >= 0 && a < 3 && lane < 8 ? torque[a] : Real(0);
    }
    const Real* const wigner = next.take();
    Real* const filled = staging;
    staging = staged;
    staged = filled;
    if (first + groups < segment.end) start(i + groups);

    Real grad[kVector][kRows];  // of u, times the channel basis
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Real values[kVector];
      load_numbers<kVector>(staged + r * kStep, values);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const Real value = kScale ? values[v] : basis[v] * values[v];
        grad[v][r] = valid ? value : Real(0);
      }
    }
    Real local[kVector][kRows];  // rows |m| <= 1 of D x
    math::static_for<kLmax + 1>([&](auto degree) {
      constexpr int l = decltype(degree)::value;
      Real source[kVector][2 * l + 1];
      load_degree<l, kVector>(x + c, sizes.hidden, source);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        if constexpr (l == 0) {
          local[v][0] = source[v][0];
        } else {
          rotate_degree<kLmax, l>(wigner, source[v], local[v]);
        }
      }
    });
    Real sums[kSums];  // gradients of the mixing coefficients, then the torque
#pragma unroll
    for (int j = 0; j < kSums; ++j) sums[j] = 0;
    Real grad_local[kVector][kRows];
    if constexpr (kScale) {
#pragma unroll
      for (int l = 0; l <= kLmax; ++l) {
        Real scale[kVector], total[kVector];
        load_numbers<kVector>(staged + (kRows + l) * kStep, scale);
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          total[v] = 0;
#pragma unroll
          for (int k = 0; k < (l == 0 ? 1 : 3); ++k) {
            const int r = local_row(kLmax, l, k);
            total[v] += grad[v][r] * local[v][r];
            grad_local[v][r] = grad[v][r] * scale[v];
          }
        }
        if (valid) store_vector(grad_radial + l * sizes.hidden + c, total);
      }
    } else {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) grad_local[v][r] = 0;
      }
      visit_mixing<kLmax>([&](int in, int out, int place) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) sums[place] += local[v][in] * grad[v][out];
      });
      visit_mixing<kLmax>([&](int in, int out, int place) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          grad_local[v][in] += wigner[kWigner + place] * grad[v][out];
        }
      });
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) grad_x[v][0] += grad_local[v][0];
    math::static_for<kLmax>([&](auto degree) {
      constexpr int l = decltype(degree)::value + 1;
      Real source[kVector][2 * l + 1], turned[kVector][2 * l + 1];
      load_degree<l, kVector>(x + c, sizes.hidden, source);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        rotate_degree_back<kLmax, l>(wigner, grad_local[v], turned[v]);
#pragma unroll
        for (int k = 0; k <= 2 * l; ++k) grad_x[v][l * l + k] += turned[v][k];
      }
      math::visit_generators<l>([&](int axis, int r, int column, double value) {
        Real product = 0;
#pragma unroll
        for (int v = 0; v < kVector; ++v) product += turned[v][l + r] * source[v][l + column];
        sums[kMixing + axis] += static_cast<Real>(value) * product;
      });
    });
    sum_over_octets(sums, lane, lanes);
    if (lane < 8 && valid) {
#pragma unroll
      for (int j = 0; j < kSums / 8; ++j) {
        const int t = octet_place<kSums>(lane) + j;
        if (t < kMixing) grad_radial[t] = sums[j];
        if (t >= kMixing && t < kMixing + 3) torque[t - kMixing] = torque_before[j] + sums[j];
      }
    }
  }

  add_group_sums(shared, grad_x, sizes.hidden, args.grad_x + row);
}

/// Launches the vector kernel where it can do the call.
template <int kLmax, bool kScale>
bool rotate_mix_backward_vector(const kernels::RotateMixBackwardArgs<float>& args,
                                kernels::Stream stream) {
  constexpr int kVector = kMixVector<kLmax>;
  const ChannelSizes sizes(args.shape);
  const int lanes = sizes.hidden / kVector;
  const bool fits = sizes.width % kVector == 0 && kWarp % std::max(lanes, 1) == 0 &&
                    lanes >= kFewestLanes && (kScale || sizes.rank == 1);
  const bool aligned =
      is_aligned<kVector>(args.x) && is_aligned<kVector>(args.grad_x) &&
      is_aligned<kVector>(args.grad_u) && is_aligned<kVector>(args.channel_basis) &&
      (!kScale || (args.ld_radial % kVector == 0 && is_aligned<kVector>(args.radial) &&
                   is_aligned<kVector>(args.grad_radial)));
  if (!fits || !aligned) return false;
  const int groups = kMixVectorBlock / lanes;
  const MixVectorMemory<kLmax, kVector> memory(edge_coefficients<kLmax>(kScale, 1), sizes.hidden,
                                               groups, kMixStaged<kLmax, kScale>);
  launch("rotate_mix_backward", rotate_mix_backward_vector_kernel<kLmax, kScale, kVector>,
         args.edges.node_count, dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(groups)),
         sizeof(float) * static_cast<std::size_t>(memory.elements), stream, args, sizes, memory);
  return true;
}

/// Channels of a lane of the forward vector kernel, and its blocks that should fit a
/// multiprocessor: as many as leave all numbers of a thread in registers.
template <int kLmax>
inline constexpr int kMixForwardVector = kLmax <= 3 ? 4 : 2;
template <int kLmax>
constexpr int mix_forward_blocks() {
  return kLmax == 1 ? 8 : kLmax == 2 ? 6 : 4;
}

/// rotate_mix where the lanes of a warp, or some of them, hold all channels of an edge, kVector
/// each, and the rank is 1.
template <int kLmax, bool kScale, int kVector>
__global__ void __launch_bounds__(kMixVectorBlock, mix_forward_blocks<kLmax>())
    rotate_mix_vector_kernel(kernels::RotateMixArgs<float> args, ChannelSizes sizes) {
  begin_kernel();
  using Real = float;
  constexpr int kRows = local_rows(kLmax), kFull = full_rows(kLmax);
  constexpr int kWigner = math::wigner_size(kLmax);
  // An odd number of 16 bytes: the edges of a warp meet other banks.
  constexpr int kPlace = ((edge_coefficients<kLmax>(kScale, 1) + 3) / 4 | 1) * 4;
  __shared__ __align__(16) Real coefficients[kMixVectorBlock / kFewestLanes][kPlace];
  const int lane = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x);
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const unsigned mask = __ballot_sync(kAllLanes, number < args.edges.count);
  if (number >= args.edges.count) return;  // all lanes of the edge
  const int i = static_cast<int>(number), c = lane * kVector;
  const std::int64_t src = args.edges.src[edge_at(args.edges, i)];
  const Real* const radial = args.radial + number * args.ld_radial;
  Real* const wigner = coefficients[threadIdx.y];
  for (int k = lane; k < kWigner; k += lanes) {
    copy_async(wigner + k, args.wigner + number * kWigner + k);
  }
  Real scale[kScale ? kLmax + 1 : 1][kVector];  // or the channel basis
  if constexpr (kScale) {
#pragma unroll
    for (int l = 0; l <= kLmax; ++l) load_numbers<kVector>(radial + l * sizes.hidden + c, scale[l]);
  } else {
    for (int k = lane; k < mixing_size(kLmax); k += lanes) {
      copy_async(wigner + kWigner + k, radial + k);
    }
    load_numbers<kVector>(args.channel_basis + c, scale[0]);
  }
  const Real* const source = args.x + src * kFull * sizes.hidden + c;
  Real x[kVector][kFull], local[kVector][kRows];
#pragma unroll
  for (int d = 0; d < kFull; ++d) {
    Real row[kVector];
    load_numbers<kVector>(source + d * sizes.hidden, row);
#pragma unroll
    for (int v = 0; v < kVector; ++v) x[v][d] = row[v];
  }
  await_copies(mask);
#pragma unroll
  for (int v = 0; v < kVector; ++v) rotate_rows<kLmax>(wigner, x[v], local[v]);

  Real mixed[kVector][kRows];
  if constexpr (!kScale) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) mixed[v][r] = 0;
    }
    visit_mixing<kLmax>([&](int in, int out, int place) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) mixed[v][out] += wigner[kWigner + place] * local[v][in];
    });
  }
  Real* const u = args.u + sizes.at(i, c, args.edges.count, kRows);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    Real row[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      if constexpr (kScale) {
        row[v] = local[v][r] * scale[local_degree(kLmax, r)][v];
      } else {
        row[v] = mixed[v][r] * scale[0][v];
      }
    }
    store_vector(u + r * sizes.width, row);
  }
}

/// Launches the vector kernel where it can do the call.
template <int kLmax, bool kScale>
bool rotate_mix_vector(const kernels::RotateMixArgs<float>& args, kernels::Stream stream) {
  constexpr int kVector = kMixForwardVector<kLmax>;
  const ChannelSizes sizes(args.shape);
  const int lanes = sizes.hidden / kVector;
  const bool fits = sizes.width % kVector == 0 && kWarp % std::max(lanes, 1) == 0 &&
                    lanes >= kFewestLanes && (kScale || sizes.rank == 1);
  const bool aligned = is_aligned<kVector>(args.x) && is_aligned<kVector>(args.u) &&
                       (kScale ? args.ld_radial % kVector == 0 && is_aligned<kVector>(args.radial)
                               : is_aligned<kVector>(args.channel_basis));
  if (!fits || !aligned) return false;
  const int groups = kMixVectorBlock / lanes;
  launch("rotate_mix", rotate_mix_vector_kernel<kLmax, kScale, kVector>,
         divide_up(args.edges.count, groups),
         dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(groups)), 0, stream, args, sizes);
  return true;
}

template <int kLmax, class Real>
void rotate_mix_of_degree(const kernels::RotateMixArgs<Real>& args, kernels::Stream stream) {
  const ChannelSizes sizes(args.shape);
  const ChannelGroups groups(sizes.hidden);
  const auto kernel = args.shape.mixing == kernels::RadialMixing::kScale
                          ? rotate_mix_kernel<kLmax, true, Real>
                          : rotate_mix_kernel<kLmax, false, Real>;
  const bool scale = args.shape.mixing == kernels::RadialMixing::kScale;
  if (args.scalars_only) {
    const auto scalars = scale ? rotate_mix_scalars_kernel<kLmax, true, Real>
                               : rotate_mix_scalars_kernel<kLmax, false, Real>;
    return launch("rotate_mix", scalars, divide_up(args.edges.count, groups.groups), groups.block(),
                  0, stream, args, sizes);
  }
  if constexpr (sizeof(Real) == 4 && kLmax <= kMostVectorDegree) {
    if (scale ? rotate_mix_vector<kLmax, true>(args, stream)
              : rotate_mix_vector<kLmax, false>(args, stream)) {
      return;
    }
  }
  const int shared = Coefficients<Real>::size(edge_coefficients<kLmax>(scale, sizes.rank));
  launch("rotate_mix", kernel, divide_up(args.edges.count, groups.groups), groups.block(),
         sizeof(Real) * static_cast<std::size_t>(shared * groups.warps()), stream, args, sizes);
}

template <int kLmax, class Real>
void rotate_mix_backward_of_degree(const kernels::RotateMixBackwardArgs<Real>& args,
                                   kernels::Stream stream) {
  const bool scale = args.shape.mixing == kernels::RadialMixing::kScale;
  if constexpr (sizeof(Real) == 4 && kLmax <= kMostVectorDegree) {
    if (scale ? rotate_mix_backward_vector<kLmax, true>(args, stream)
              : rotate_mix_backward_vector<kLmax, false>(args, stream)) {
      return;
    }
  }
  const ChannelSizes sizes(args.shape);
  const ChannelGroups groups(sizes.hidden, kRotationBlock<kLmax>);
  const int sums =
      GroupSum<Real>::size((scale ? 0 : mixing_size(kLmax)) + 3, groups.warps()) +
      groups.warps() * Coefficients<Real>::size(edge_coefficients<kLmax>(scale, sizes.rank)) +
      (kSourceShared<kLmax, Real> ? full_rows(kLmax) * groups.warps() * kWarp : 0);
  const int rows = groups.groups > 1 ? full_rows(kLmax) * groups.threads : 0;
  const auto kernel = scale && groups.fits_block()
                          ? rotate_mix_backward_kernel<kLmax, true, kRotationBlock<kLmax>, Real>
                      : scale ? rotate_mix_backward_kernel<kLmax, true, kMostChannels, Real>
                      : groups.fits_block()
                          ? rotate_mix_backward_kernel<kLmax, false, kRotationBlock<kLmax>, Real>
                          : rotate_mix_backward_kernel<kLmax, false, kMostChannels, Real>;
  launch("rotate_mix_backward", kernel, args.edges.node_count, groups.block(),
         sizeof(Real) * static_cast<std::size_t>(sums > rows ? sums : rows), stream, args, sizes);
}

}  // namespace dpa4::cuda
