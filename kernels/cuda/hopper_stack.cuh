// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>

#include "kernels/cuda/devices.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/hopper_stack.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/split_gemm.cuh"
#include "kernels/cuda/wgmma_shared.cuh"
#include "src/math/activation.h"

/// All layers of the mixing stack on chip.
///
/// A warpgroup (128 threads) has 64 edges and all columns of a part of their rows, or shares the
/// columns with others. The rows are in shared memory as pairs of float16, s (hi + lo), with a
/// power of two s for each row (see split_gemm.cuh): they are the left factor of the products and,
/// as 22 bits and more of every number, what a layer adds to. Sums of a product stay in registers
/// until all columns are there; then the gates, the sum with the old row and the new pairs are made
/// in place.
///
/// One warp of a further warpgroup fetches the weights, cut into chunks of 32 rows in the order of
/// their use, into a ring of buffers; it is ahead by as many as fit, across layers and tiles.
///
/// Element (row 16 w + l / 4 + 8 h, slot 8 j + 2 (l % 4) + t) of a warpgroup belongs to lane l of
/// its warp w and is number 4 j + 2 h + t of the arrays in registers below. Slot 16 J + 8 b + 2 q +
/// t is column 16 J + 4 q + 2 b + t in memory, so that a thread has four columns in a row; the
/// weights are packed for this order (stack_column).
///
/// Files with these kernels are compiled with -fmad=false: which products are fused with sums is
/// written here, so that it is the same for every row of a thread, and with it the bits.
namespace dpa4::cuda {

inline constexpr int kStackShared = 227 * 1024;  // bytes of shared memory of a block

template <class Kernel>
struct StackShared {
  static constexpr StackPlan kPlan = Kernel::kPlan;
  static constexpr int kPairBytes = 4 * 64;  // of a column of 64 rows
  static constexpr int kRowBytes = kPlan.width * kPairBytes;
  // In the backward pass the scalars are gone before the rows come.
  static constexpr int kScalarBytes =
      Kernel::kHasScalars && !Kernel::kBackward ? kPlan.scalars * kPairBytes : 0;
  static constexpr int kChunkBytes = stack_chunk_bytes(kPlan.tile);
  static constexpr int kFixed = kPlan.row_groups * (kRowBytes + kScalarBytes) + 3072;
  // Whole turns of the warpgroups that share the columns, so that of the chunks they share out a
  // buffer is always used by the same one: it could take a chunk meant for another, two turns
  // before its own, for its own.
  static constexpr int kStages = std::min((kStackShared - kFixed) / kChunkBytes, 16) /
                                 kPlan.column_groups * kPlan.column_groups;
  static_assert(kStages >= 2 * kPlan.column_groups, "too little shared memory");

  alignas(128) unsigned char chunk[kStages][kChunkBytes];
  alignas(128) unsigned char rows[kPlan.row_groups][kRowBytes];  // hi, then lo
  alignas(128) unsigned char scalars[kPlan.row_groups][std::max(kScalarBytes, 16)];
  float largest[kPlan.row_groups][kPlan.column_groups][64];
  float scalar_inverse[kPlan.row_groups][64];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  __device__ void init() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        barrier_init(&full[i], 1);
        barrier_init(&empty[i], 4 * kPlan.row_groups);  // warps that use a chunk
      }
      asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    }
    __syncthreads();
  }
};

/// A place in the ring of chunks.
template <int kStages>
struct StackRing {
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance(int n) {
    stage += n;
    while (stage >= kStages) {
      stage -= kStages;
      parity ^= 1;
    }
  }
};

/// What a warpgroup does.
template <class Kernel>
class StackGroup {
  using Shared = StackShared<Kernel>;
  static constexpr StackPlan kPlan = Kernel::kPlan;
  static constexpr int kWidth = kPlan.width, kOwn = kPlan.own(), kHalf = kOwn / 2;
  static constexpr int kTile = kPlan.tile, kGateTile = kPlan.gate_tile;
  static constexpr int kScalars = kPlan.scalars;
  static constexpr int kColumnGroups = kPlan.column_groups;
  static constexpr int kNumbers = kOwn / 2;  // of a thread
  static constexpr bool kVector = Kernel::kPart == StackPart::kVector;
  static_assert(kOwn % kTile == 0 && kWidth % 32 == 0 && kScalars % 32 == 0);
  // close_scalars: one warpgroup takes all of these, and the turns go on as before.
  static_assert(kVector || (kWidth - kScalars) / 32 % kColumnGroups == 0);

 public:
  __device__ StackGroup(const StackCall& call, Shared& shared)
      : call_(call),
        shared_(shared),
        row_group_(static_cast<int>(threadIdx.x) / 128 / kColumnGroups),
        column_group_(static_cast<int>(threadIdx.x) / 128 % kColumnGroups),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        row_(static_cast<int>(threadIdx.x) % 128 / kWarp * 16 + lane_ / 4),
        rows_(shared.rows[row_group_]),
        scalars_(Shared::kScalarBytes > 0 ? shared.scalars[row_group_] : rows_) {
    ring_.advance(column_group_);
  }

  __device__ __forceinline__ void start(int focus, int row_first) {
    focus_ = focus;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int edge = row_first + 64 * row_group_ + row_ + 8 * h;
      valid_[h] = edge < call_.count;
      edge_[h] = valid_[h] ? edge : 0;  // rows that do not exist are computed like the first one
      place_[h] = call_.kept_row != nullptr ? call_.kept_row[edge_[h]] : edge_[h];
      keeps_[h] = valid_[h] && place_[h] >= 0 && call_.kept != nullptr;
      if (place_[h] < 0) place_[h] = 0;
    }
  }

  __device__ __forceinline__ void forward() {
    float value[kNumbers];
    load_rows(value);
    put_rows(value);
    for (int layer = 0; layer < call_.n_layers; ++layer) {
      rows_product(value);
      const float scale = call_.inverse_scale[2 * layer];
      const float factor[2] = {inverse_[0] * scale, inverse_[1] * scale};
      if (layer + 1 == call_.n_layers) {
        finish_forward(value, factor);
      } else if constexpr (kVector) {
        open_vectors(value, factor, layer);
        put_rows(value);
      } else {
        open_scalars(value, factor, layer);
        put_rows(value);
      }
    }
  }

  __device__ __forceinline__ void backward() {
    float value[kNumbers];
    float grad[Kernel::kHoldsGradient ? kNumbers : 1];
    load_rows(value);
    for (int layer = call_.n_layers - 1; layer >= 0; --layer) {
      if constexpr (Kernel::kHoldsGradient) copy(value, grad);
      if (layer + 1 < call_.n_layers) {
        if constexpr (kVector) {
          close_vectors(value, layer);
        } else {
          close_scalars(value, layer);
        }
      }
      put_rows(value);
      rows_product(value);
      const float scale = call_.inverse_scale[2 * layer];
      const float factor[2] = {inverse_[0] * scale, inverse_[1] * scale};
      if constexpr (Kernel::kHoldsGradient) {
#pragma unroll
        for (int i = 0; i < kNumbers; ++i) value[i] = fmaf(value[i], factor[i / 2 % 2], grad[i]);
      } else {
        add_to_rows(value, factor);
      }
    }
    if constexpr (Kernel::kHoldsGradient) {
#pragma unroll
      for (int h = 0; h < 2; ++h) put_all_in_memory(value, h, valid_[h], row(h));
    }
  }

 private:
  // ---- where things are
  //
  // Columns of the part in memory: a warpgroup has kOwn in a row of m = 0; of the vectors it has
  // the same kHalf of m = -1 and of m = +1. at(J) is the distance of the thread's quad J from its
  // first.

  static constexpr int kGates = kVector ? kWidth / 2 : kWidth - kScalars;  // of an edge

  static __device__ __forceinline__ constexpr int at(int quad) {
    return kVector && 16 * quad >= kHalf ? kGates - kHalf + 16 * quad : 16 * quad;
  }
  __device__ __forceinline__ int first_column() const {
    return column_group_ * (kVector ? kHalf : kOwn) + 4 * (lane_ % 4);
  }
  __device__ __forceinline__ std::int64_t line(int h) const {
    return static_cast<std::int64_t>(focus_) * call_.count + edge_[h];
  }
  __device__ __forceinline__ float* row(int h) const {
    return call_.u + line(h) * call_.row + call_.first + first_column();
  }
  /// The gate of the thread's first column; for m = 0 the scalars have none.
  __device__ __forceinline__ std::int64_t first_gate(int layer, int h) const {
    return (static_cast<std::int64_t>(layer) * call_.n_focus * call_.count + line(h)) * kGates +
           first_column() - (kVector ? 0 : kScalars);
  }
  /// The kept row of a layer, both parts of it.
  __device__ __forceinline__ float* kept(int layer, int h) const {
    return call_.kept +
           ((static_cast<std::int64_t>(layer) * call_.n_focus + focus_) * call_.kept_rows +
            place_[h]) *
               call_.row;
  }

  /// Number in registers of column 16 J + 4 (l % 4) + i, row h.
  static __device__ __forceinline__ constexpr int place(int quad, int h, int i) {
    return 8 * quad + 4 * (i / 2) + 2 * h + i % 2;
  }
  /// From what this kernel and the one before it do not write.
  static __device__ __forceinline__ float4 load_old_quad(const float* from) {
    return __ldg(reinterpret_cast<const float4*>(from));
  }
  /// From what the kernel before this one has written: this one may have started when that was not
  /// yet there, so these are no constants.
  static __device__ __forceinline__ float4 load_quad(const float* from) {
    return *reinterpret_cast<const float4*>(from);
  }
  /// A store without a branch: what lies between branches is what the compiler can overlap. That
  /// the numbers have changed is known to it only after the next barrier.
  static __device__ __forceinline__ void store_quad(bool really, float* to, const float (&v)[4]) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %0, 0;\n"
        "@p st.global.v4.f32 [%1], {%2, %3, %4, %5};\n"
        "}\n"
        :
        : "r"(static_cast<int>(really)), "l"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
  }
  /// How many of n steps to take at a time: the largest divisor that needs at most `free`
  /// registers.
  static constexpr int batch(int n, int registers_each, int free) {
    int best = 1;
    for (int i = 2; i <= n; ++i) {
      if (n % i == 0 && i * registers_each <= free) best = i;
    }
    return best;
  }
  static constexpr int kFree =
      Kernel::kGroupRegisters - 48 - (Kernel::kHoldsGradient ? 2 : 1) * kNumbers;

  static __device__ __forceinline__ void copy(const float (&from)[kNumbers],
                                              float (&to)[kNumbers]) {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) to[i] = from[i];
  }

  // ---- rows in shared memory

  __device__ __forceinline__ void barrier() const {
    asm volatile("bar.sync %0, %1;" : : "r"(1 + row_group_), "n"(128 * kColumnGroups) : "memory");
  }

  /// Bytes to this thread's pair of numbers at 8 j columns, row h.
  __device__ __forceinline__ int offset(int eight, int h) const {
    return eight * 1024 + (row_ / 8 + h) * 128 + lane_ * 4;
  }

  /// The largest |number| of this thread's two rows in the first `kColumns` slots.
  template <int kColumns>
  static __device__ __forceinline__ void find_largest(const float* value, float (&largest)[2]) {
    largest[0] = largest[1] = 0;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        largest[h] =
            fmaxf(largest[h], fmaxf(fabsf(value[4 * j + 2 * h]), fabsf(value[4 * j + 2 * h + 1])));
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(kAllLanes, largest[h], 1));
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(kAllLanes, largest[h], 2));
    }
  }

  static __device__ __forceinline__ void put_pair(unsigned char* hi_at, unsigned char* lo_at,
                                                  float a, float b) {
    __half2 hi, lo;
    split_pair(a, b, &hi, &lo);
    *reinterpret_cast<__half2*>(hi_at) = hi;
    *reinterpret_cast<__half2*>(lo_at) = lo;
  }

  /// Writes the rows of the left factor, once all products with the old ones are done.
  __device__ __forceinline__ void put_rows(const float (&value)[kNumbers]) {
    float largest[2];
    find_largest<kOwn>(value, largest);
    if constexpr (kColumnGroups > 1) {
      if (lane_ % 4 == 0) {
        shared_.largest[row_group_][column_group_][row_] = largest[0];
        shared_.largest[row_group_][column_group_][row_ + 8] = largest[1];
      }
    }
    barrier();
    float scale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (kColumnGroups > 1) {
#pragma unroll
        for (int g = 0; g < kColumnGroups; ++g) {
          largest[h] = fmaxf(largest[h], shared_.largest[row_group_][g][row_ + 8 * h]);
        }
      }
      split_scale(largest[h], &scale[h], &inverse_[h]);
    }
    unsigned char* const hi = rows_ + column_group_ * (kOwn / 8) * 1024;
    unsigned char* const lo = hi + kWidth * 128;
#pragma unroll
    for (int j = 0; j < kOwn / 8; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = offset(j, h);
        put_pair(hi + at, lo + at, value[4 * j + 2 * h] * scale[h],
                 value[4 * j + 2 * h + 1] * scale[h]);
      }
    }
    publish_shared();
    barrier();
  }

  /// Two numbers of the rows.
  __device__ __forceinline__ float2 old_pair(int j, int h) const {
    const unsigned char* hi = rows_ + column_group_ * (kOwn / 8) * 1024 + offset(j, h);
    const float2 a = __half22float2(*reinterpret_cast<const __half2*>(hi));
    const float2 b = __half22float2(*reinterpret_cast<const __half2*>(hi + kWidth * 128));
    return make_float2((a.x + b.x) * inverse_[h], (a.y + b.y) * inverse_[h]);
  }

  /// Writes scalars (in the layout of registers, kScalars columns) as a left factor of their own.
  /// 1 / s of this thread's rows in `inverse`.
  __device__ __forceinline__ void put_scalars(const float* value, bool write, float (&inverse)[2]) {
    float largest[2];
    find_largest<kScalars>(value, largest);
    float scale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) split_scale(largest[h], &scale[h], &inverse[h]);
    if (!write) return;
#pragma unroll
    for (int j = 0; j < kScalars / 8; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        unsigned char* const hi = scalars_ + offset(j, h);
        put_pair(hi, hi + kScalars * 128, value[4 * j + 2 * h] * scale[h],
                 value[4 * j + 2 * h + 1] * scale[h]);
      }
    }
  }

  // ---- products

  /// sum (64, kColumns) = a chunk of 32 rows of B times columns [32 slice, + 32) of a left factor,
  /// added to what is in `sum` if `accumulate`. `hi` is the address of the left factor, `plane` the
  /// bytes from hi to lo.
  template <int kColumns>
  __device__ __forceinline__ void chunk_product(float (&sum)[kColumns / 2], unsigned hi,
                                                unsigned plane, int slice, bool accumulate,
                                                int advance) {
    constexpr unsigned kPlane = stack_chunk_bytes(kColumns) / 2, kStep = kPlane / 2;
    barrier_wait(&shared_.full[ring_.stage], ring_.parity);
    const unsigned b = shared_address(shared_.chunk[ring_.stage]);
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(sum[i]) : : "memory");
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2; ++step) {  // lo hi, hi lo, hi hi: small ones first
      const unsigned a = hi + static_cast<unsigned>(4 * slice + 2 * step) * 1024;
      const std::uint64_t a_hi = shared_factor(a, 1024, 128);
      const std::uint64_t a_lo = shared_factor(a + plane, 1024, 128);
      const std::uint64_t b_hi = shared_factor(b + step * kStep, 128, 256);
      const std::uint64_t b_lo = shared_factor(b + kPlane + step * kStep, 128, 256);
      WgmmaShared<kColumns>::run(sum, a_lo, b_hi, step > 0 || accumulate);
      WgmmaShared<kColumns>::run(sum, a_hi, b_lo, true);
      WgmmaShared<kColumns>::run(sum, a_hi, b_hi, true);
    }
    wgmma_commit();
    wgmma_wait();
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(sum[i]) : : "memory");
    if (lane_ == 0) barrier_arrive(&shared_.empty[ring_.stage]);
    ring_.advance(advance);
  }

  /// value = rows times the matrix of a layer, in units of 1 / (scales). The tensor core adds with
  /// fewer bits than float32 has: its sums end after 32 terms and are added up here.
  __device__ __forceinline__ void rows_product(float (&value)[kNumbers]) {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) value[i] = 0;
    const unsigned hi = shared_address(rows_);
#pragma unroll 1
    for (int slice = 0; slice < kWidth / 32; ++slice) {
#pragma unroll
      for (int q = 0; q < kOwn / kTile; ++q) {
        float inner[kTile / 2];
        chunk_product<kTile>(inner, hi, kWidth * 128, slice, false, kColumnGroups);
#pragma unroll
        for (int i = 0; i < kTile / 2; ++i) value[q * (kTile / 2) + i] += inner[i];
      }
    }
  }

  /// Scalars times the gates' matrix, kGateTile columns.
  __device__ __forceinline__ void gate_product(float (&sum)[kGateTile / 2]) {
    const unsigned hi = shared_address(scalars_);
#pragma unroll
    for (int slice = 0; slice < kScalars / 32; ++slice) {
      chunk_product<kGateTile>(sum, hi, kScalars * 128, slice, slice > 0, kColumnGroups);
    }
  }

  // ---- what comes between the products
  //
  // Numbers from memory are read a batch of quads ahead of their use.

  static_assert(kOwn % 16 == 0 && kHalf % 16 == 0 && kGateTile % 16 == 0);

  /// 1 / (1 + e^-x) with the reciprocal of the hardware, which is right to the last bit but one.
  static __device__ __forceinline__ float open_gate(float x) {
    return __fdividef(1.0f, 1.0f + expf(-x));
  }

  __device__ __forceinline__ void load_rows(float (&value)[kNumbers]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float* from = row(h);
#pragma unroll
      for (int quad = 0; quad < kOwn / 16; ++quad) {
        const float4 v = *reinterpret_cast<const float4*>(from + at(quad));
        value[place(quad, h, 0)] = v.x;
        value[place(quad, h, 1)] = v.y;
        value[place(quad, h, 2)] = v.z;
        value[place(quad, h, 3)] = v.w;
      }
    }
  }
  static __device__ __forceinline__ void put_in_memory(const float (&value)[kNumbers], int quad,
                                                       int h, bool really, float* to) {
    const float v[4] = {value[place(quad, h, 0)], value[place(quad, h, 1)],
                        value[place(quad, h, 2)], value[place(quad, h, 3)]};
    store_quad(really, to + at(quad), v);
  }
  static __device__ __forceinline__ void put_all_in_memory(const float (&value)[kNumbers], int h,
                                                           bool really, float* to) {
#pragma unroll
    for (int quad = 0; quad < kOwn / 16; ++quad) put_in_memory(value, quad, h, really, to);
  }

  /// value = that of the last product, and its kept copy.
  __device__ __forceinline__ void scale_and_keep(float (&value)[kNumbers], const float (&factor)[2],
                                                 int layer) const {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) value[i] *= factor[i / 2 % 2];
    if (call_.kept == nullptr) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      put_all_in_memory(value, h, keeps_[h], kept(layer, h) + call_.first + first_column());
    }
  }

  /// Last layer: u + z.
  __device__ __forceinline__ void finish_forward(float (&value)[kNumbers],
                                                 const float (&factor)[2]) const {
#pragma unroll
    for (int j = 0; j < kOwn / 8; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float2 old = old_pair(j, h);
        value[4 * j + 2 * h] = fmaf(value[4 * j + 2 * h], factor[h], old.x);
        value[4 * j + 2 * h + 1] = fmaf(value[4 * j + 2 * h + 1], factor[h], old.y);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      put_all_in_memory(value, h, valid_[h], row(h));
      if (call_.keep_result) {
        put_all_in_memory(value, h, keeps_[h],
                          kept(call_.n_layers - 1, h) + call_.first + first_column());
      }
    }
  }

  /// |m| = 1: u + s z with the open gates that the other part has left.
  __device__ __forceinline__ void open_vectors(float (&value)[kNumbers], const float (&factor)[2],
                                               int layer) const {
    const float* const open[2] = {call_.open + first_gate(layer, 0),
                                  call_.open + first_gate(layer, 1)};
    constexpr int kBatch = batch(kHalf / 16, 8, kFree);
    float4 s[kBatch][2];
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) s[i][h] = load_quad(open[h] + 16 * (first + i));
      }
    };
    load(0);
    scale_and_keep(value, factor, layer);
#pragma unroll
    for (int first = 0; first < kHalf / 16; first += kBatch) {
#pragma unroll
      for (int i = 0; i < 2 * kBatch; ++i) {
        const int quad = first + i % kBatch + i / kBatch * (kHalf / 16);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float4 gate = s[i % kBatch][h];
          const float2 old[2] = {old_pair(2 * quad, h), old_pair(2 * quad + 1, h)};
          add_gated(value[place(quad, h, 0)], old[0].x, gate.x);
          add_gated(value[place(quad, h, 1)], old[0].y, gate.y);
          add_gated(value[place(quad, h, 2)], old[1].x, gate.z);
          add_gated(value[place(quad, h, 3)], old[1].y, gate.w);
        }
      }
      if (first + kBatch < kHalf / 16) load(first + kBatch);
    }
  }
  static __device__ __forceinline__ void add_gated(float& z, float old, float gate) {
    z = fmaf(gate, z, old);
  }

  /// m = 0: u + silu(z) for the scalars, u + s z for the others, s = sigmoid(scalars gate).
  __device__ __forceinline__ void open_scalars(float (&value)[kNumbers], const float (&factor)[2],
                                               int layer) {
    scale_and_keep(value, factor, layer);
    float inverse[2];
    if (column_group_ == 0) {
      put_scalars(value, true, inverse);
      if constexpr (kColumnGroups > 1) {
        if (lane_ % 4 == 0) {
          shared_.scalar_inverse[row_group_][row_] = inverse[0];
          shared_.scalar_inverse[row_group_][row_ + 8] = inverse[1];
        }
      }
    }
    publish_shared();
    barrier();
    if constexpr (kColumnGroups > 1) {
      inverse[0] = shared_.scalar_inverse[row_group_][row_];
      inverse[1] = shared_.scalar_inverse[row_group_][row_ + 8];
    }
    const float scale = call_.inverse_scale[2 * layer + 1];
    inverse[0] *= scale;
    inverse[1] *= scale;
    float* const open[2] = {call_.open + first_gate(layer, 0), call_.open + first_gate(layer, 1)};
#pragma unroll
    for (int q = 0; q < kOwn / kGateTile; ++q) {
      float logit[kGateTile / 2];
      gate_product(logit);
#pragma unroll
      for (int i = 0; i < kGateTile / 16; ++i) {
        const int quad = q * (kGateTile / 16) + i;
        const bool scalar = 16 * quad < kScalars && column_group_ == 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float2 old[2] = {old_pair(2 * quad, h), old_pair(2 * quad + 1, h)};
          float gate[4];
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            const float z = value[place(quad, h, n)];
            gate[n] = open_gate(scalar ? z : logit[place(i, h, n)] * inverse[h]);
            add_gated(value[place(quad, h, n)], n % 2 == 0 ? old[n / 2].x : old[n / 2].y, gate[n]);
          }
          store_quad(!scalar && valid_[h], open[h] + 16 * quad, gate);
        }
      }
    }
  }

  /// |m| = 1: from the gradient g of a layer's result the gradient s g of its z. Leaves s and the
  /// sum over m = -1, +1 of g z.
  __device__ __forceinline__ void close_vectors(float (&value)[kNumbers], int layer) {
    float inverse[2];
    {
      float scalar[kScalars / 2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float* const from = kept(layer, h) + 4 * (lane_ % 4);
#pragma unroll
        for (int quad = 0; quad < kScalars / 16; ++quad) {
          const float4 v = load_old_quad(from + 16 * quad);
          scalar[place(quad, h, 0)] = v.x;
          scalar[place(quad, h, 1)] = v.y;
          scalar[place(quad, h, 2)] = v.z;
          scalar[place(quad, h, 3)] = v.w;
        }
      }
      barrier();  // the products with what the scalars replace are done
      put_scalars(scalar, column_group_ == 0, inverse);
    }
    publish_shared();
    barrier();
    const float scale = call_.inverse_scale[2 * layer + 1];
    inverse[0] *= scale;
    inverse[1] *= scale;
    const float* const z_from[2] = {kept(layer, 0) + call_.first + first_column(),
                                    kept(layer, 1) + call_.first + first_column()};
    float* const open[2] = {call_.open + first_gate(layer, 0), call_.open + first_gate(layer, 1)};
    float* const along[2] = {call_.along + first_gate(layer, 0),
                             call_.along + first_gate(layer, 1)};
    constexpr int kBatch = batch(kGateTile / 16, 16, kFree - kGateTile / 2);
    float4 z[2][kBatch][2];  // m = -1 and +1, quad, row
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          z[0][i][h] = load_old_quad(z_from[h] + 16 * (first + i));
          z[1][i][h] = load_old_quad(z_from[h] + 16 * (first + i) + kGates);
        }
      }
    };
    load(0);
#pragma unroll
    for (int q = 0; q < kHalf / kGateTile; ++q) {
      float logit[kGateTile / 2];
      gate_product(logit);
#pragma unroll
      for (int first = 0; first < kGateTile / 16; first += kBatch) {
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int quad = q * (kGateTile / 16) + first + i;
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float minus[4] = {z[0][i][h].x, z[0][i][h].y, z[0][i][h].z, z[0][i][h].w};
            const float plus[4] = {z[1][i][h].x, z[1][i][h].y, z[1][i][h].z, z[1][i][h].w};
            float gate[4], sum[4];
#pragma unroll
            for (int n = 0; n < 4; ++n) {
              float& g_minus = value[place(quad, h, n)];
              float& g_plus = value[place(quad + kHalf / 16, h, n)];
              gate[n] = open_gate(logit[place(first + i, h, n)] * inverse[h]);
              sum[n] = fmaf(g_plus, plus[n], g_minus * minus[n]);
              g_minus *= gate[n];
              g_plus *= gate[n];
            }
            store_quad(valid_[h], open[h] + 16 * quad, gate);
            store_quad(valid_[h], along[h] + 16 * quad, sum);
          }
        }
        const int next = q * (kGateTile / 16) + first + kBatch;
        if (next < kHalf / 16) load(next);
      }
    }
  }

  /// m = 0: from the gradient g of a layer's result the gradient of its z: s g, and for the scalars
  /// through silu and through all gates.
  __device__ __forceinline__ void close_scalars(float (&value)[kNumbers], int layer) {
    float grad_logit[kNumbers];
    const float* const z_from[2] = {kept(layer, 0) + call_.first + first_column(),
                                    kept(layer, 1) + call_.first + first_column()};
    const float* const open[2] = {call_.open + first_gate(layer, 0),
                                  call_.open + first_gate(layer, 1)};
    const float* const along[2] = {call_.along + first_gate(layer, 0),
                                   call_.along + first_gate(layer, 1)};
    constexpr int kBatch = batch(kOwn / 16, 24, kFree - kNumbers);
#pragma unroll
    for (int first = 0; first < kOwn / 16; first += kBatch) {
      float4 z[kBatch][2], s[kBatch][2], sum[kBatch][2];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int quad = first + i;
        const bool scalar = 16 * quad < kScalars && column_group_ == 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          z[i][h] = load_old_quad(z_from[h] + 16 * quad);
          // Scalars have no gates: any address will do.
          s[i][h] = load_quad(scalar ? z_from[h] : open[h] + 16 * quad);
          sum[i][h] = load_quad(scalar ? z_from[h] : along[h] + 16 * quad);
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int quad = first + i;
        const bool scalar = 16 * quad < kScalars && column_group_ == 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float old[4] = {z[i][h].x, z[i][h].y, z[i][h].z, z[i][h].w};
          const float gate[4] = {s[i][h].x, s[i][h].y, s[i][h].z, s[i][h].w};
          const float others[4] = {sum[i][h].x, sum[i][h].y, sum[i][h].z, sum[i][h].w};
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            float& g = value[place(quad, h, n)];
            float& logit = grad_logit[place(quad, h, n)];
            if (scalar) {
              logit = 0;
              g *= math::silu_derivative(old[n], open_gate(old[n]));
            } else {
              logit = math::gate_logit_gradient(fmaf(g, old[n], others[n]), gate[n]);
              g *= gate[n];
            }
          }
        }
      }
    }
    put_rows(grad_logit);
    constexpr int kFirst = kScalars / 32, kLast = kWidth / 32;  // the scalars' slices are zero
    if (column_group_ == 0) {
      float through[kScalars / 2];
#pragma unroll
      for (int i = 0; i < kScalars / 2; ++i) through[i] = 0;
      const unsigned hi = shared_address(rows_);
#pragma unroll 1
      for (int slice = kFirst; slice < kLast; ++slice) {
        float inner[kScalars / 2];
        chunk_product<kScalars>(inner, hi, kWidth * 128, slice, false, 1);
#pragma unroll
        for (int i = 0; i < kScalars / 2; ++i) through[i] += inner[i];
      }
      const float scale = call_.inverse_scale[2 * layer + 1];
#pragma unroll
      for (int i = 0; i < kScalars / 2; ++i) {
        value[i] += through[i] * (inverse_[i / 2 % 2] * scale);
      }
    } else {
      ring_.advance(kLast - kFirst);
    }
  }

  /// Adds to the gradient in memory, which this thread alone reads and writes.
  __device__ __forceinline__ void add_to_rows(float (&value)[kNumbers],
                                              const float (&factor)[2]) const {
    float* const to[2] = {row(0), row(1)};
    constexpr int kBatch = batch(kOwn / 16, 8, kFree);
#pragma unroll
    for (int first = 0; first < kOwn / 16; first += kBatch) {
      float4 old[kBatch][2];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          old[i][h] = *reinterpret_cast<const float4*>(to[h] + at(first + i));
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int quad = first + i;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float4 g = old[i][h];
          float* const v = value;
          v[place(quad, h, 0)] = fmaf(v[place(quad, h, 0)], factor[h], g.x);
          v[place(quad, h, 1)] = fmaf(v[place(quad, h, 1)], factor[h], g.y);
          v[place(quad, h, 2)] = fmaf(v[place(quad, h, 2)], factor[h], g.z);
          v[place(quad, h, 3)] = fmaf(v[place(quad, h, 3)], factor[h], g.w);
          put_in_memory(value, quad, h, valid_[h], to[h]);
        }
      }
    }
  }

  const StackCall& call_;
  Shared& shared_;
  StackRing<Shared::kStages> ring_;
  int row_group_, column_group_, lane_;
  int row_;  // of the warpgroup's 64: the first of this thread's two
  unsigned char* rows_;
  unsigned char* scalars_;
  int focus_ = 0;
  int edge_[2], place_[2];
  bool valid_[2], keeps_[2];
  float inverse_[2];  // 1 / s of the rows in shared memory
};

/// The thread that fetches the weights of a tile, in the order in which StackGroup uses them.
template <class Kernel>
class StackFetch {
  using Shared = StackShared<Kernel>;
  static constexpr StackPlan kPlan = Kernel::kPlan;

 public:
  __device__ explicit StackFetch(Shared& shared) : shared_(shared) {}

  __device__ void tile(const StackCall& call, int focus) {
    from_ = call.weights + focus * call.weight_stride;
    for (int i = 0; i < call.n_layers; ++i) {
      const bool gated = Kernel::kBackward ? i > 0 : i + 1 < call.n_layers;
      if (Kernel::kBackward && gated) fetch(Kernel::gate_chunks(), Kernel::kGateColumns);
      fetch(Kernel::row_chunks(), kPlan.tile);
      if (!Kernel::kBackward && gated) fetch(Kernel::gate_chunks(), Kernel::kGateColumns);
    }
  }

 private:
  __device__ void fetch(int count, int columns) {
    const unsigned bytes = static_cast<unsigned>(stack_chunk_bytes(columns));
    for (int i = 0; i < count; ++i) {
      barrier_wait(&shared_.empty[ring_.stage], ring_.parity ^ 1);
      barrier_expect(&shared_.full[ring_.stage], bytes);
      copy_bulk(shared_.chunk[ring_.stage], from_, bytes, &shared_.full[ring_.stage]);
      from_ += bytes;
      ring_.advance(1);
    }
  }

  Shared& shared_;
  StackRing<Shared::kStages> ring_;
  const unsigned char* from_ = nullptr;
};

/// One of the kernels: its division of work, part and direction.
template <StackPart kPart_, bool kBackward_, int kWidth, int kColumnGroups, int kRowGroups,
          int kTile, int kGateTile, int kScalars>
struct StackConfiguration {
  static constexpr StackPart kPart = kPart_;
  static constexpr bool kBackward = kBackward_;
  static constexpr StackPlan kPlan{kWidth, kColumnGroups, kRowGroups, kTile, kGateTile, kScalars};
  static constexpr bool kVectors = kPart == StackPart::kVector;
  /// The gates' matrix is applied to scalars, in two of the four kernels.
  static constexpr bool kHasScalars = kVectors == kBackward;
  /// Columns of a chunk of the gates' matrix.
  static constexpr int kGateColumns = kHasScalars ? kGateTile : kScalars;
  static_assert(kGateColumns <= kTile);

  /// Chunks of a layer's matrix and of the gates' matrix, for a tile of rows.
  static constexpr __host__ __device__ int row_chunks() { return kWidth / 32 * (kWidth / kTile); }
  static constexpr __host__ __device__ int gate_chunks() {
    if (!kHasScalars) return kVectors ? 0 : (kWidth - kScalars) / 32;
    return kScalars / 32 * ((kVectors ? kWidth / 2 : kWidth) / kGateTile);
  }
  static constexpr int kThreads = 128 * (kPlan.groups() + 1);
  static constexpr int kGroupRegisters = kPlan.groups() == 2   ? 240
                                         : kPlan.groups() == 3 ? 160
                                                               : 112;
  static constexpr int kFetchRegisters = kPlan.groups() == 2 ? 24 : 32;
  /// The gradient stays in registers from the first layer to the last, where they suffice; else it
  /// is in memory while a layer's products are made.
  static constexpr bool kHoldsGradient = kBackward && kPlan.own() + 96 <= kGroupRegisters;
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    hopper_stack_kernel(const __grid_constant__ StackCall call) {
  begin_kernel();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char hopper_stack_shared[];
  auto& shared = *reinterpret_cast<StackShared<Kernel>*>(hopper_stack_shared);
  constexpr int kRows = 64 * Kernel::kPlan.row_groups;
  shared.init();
  const unsigned m_tiles = (call.count + kRows - 1) / kRows;
  const unsigned tiles = m_tiles * call.n_focus;
  if (threadIdx.x / 128 == Kernel::kPlan.groups()) {
    give_registers<Kernel::kFetchRegisters>();
    if (threadIdx.x % 128 != 0) return;
    StackFetch<Kernel> fetch(shared);
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) fetch.tile(call, t / m_tiles);
  } else {
    take_registers<Kernel::kGroupRegisters>();
    StackGroup<Kernel> group(call, shared);
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
      group.start(static_cast<int>(t / m_tiles), static_cast<int>(t % m_tiles) * kRows);
      if constexpr (Kernel::kBackward) {
        group.backward();
      } else {
        group.forward();
      }
    }
  }
#else
  static_cast<void>(call);
  __trap();  // the host chooses this kernel on Hopper only
#endif
}

template <class Kernel>
void run_hopper_stack(const StackCall& call, kernels::Stream stream) {
  const std::int64_t tiles = divide_up(call.count, 64 * Kernel::kPlan.row_groups) * call.n_focus;
  launch("so2_stack", hopper_stack_kernel<Kernel>, std::min<std::int64_t>(tiles, multiprocessors()),
         Kernel::kThreads, sizeof(StackShared<Kernel>), stream, call);
}

}  // namespace dpa4::cuda
