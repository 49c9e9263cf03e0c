// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "kernels/cuda/wgmma_operands.h"

/// Asynchronous matrix products of a warpgroup with both factors in shared memory (sm_90a). PTX
/// ISA, section "wgmma"; what goes with them is in hopper.cuh.
namespace dpa4::cuda {

/// d = a B, or d += a B if `accumulate`, for a (64, 16) and B (16, kColumns), both described by
/// shared_factor. Elements of d: see Wgmma in hopper.cuh.
template <int kColumns>
struct WgmmaShared;

/// Half as many accumulators as columns; the operands behind them are a, b and accumulate.
#define DPA4_WGMMA_SHARED(columns, count, a_number, b_number, accumulate_number)   \
  template <>                                                                      \
  struct WgmmaShared<columns> {                                                    \
    static __device__ __forceinline__ void run(float (&d)[count], std::uint64_t a, \
                                               std::uint64_t b, bool accumulate) { \
      asm volatile(                                                                \
          "{\n"                                                                    \
          ".reg .pred p;\n"                                                        \
          "setp.ne.b32 p, %" #accumulate_number                                    \
          ", 0;\n"                                                                 \
          "wgmma.mma_async.sync.aligned.m64n" #columns                             \
          "k16.f32.f16.f16 "                                                       \
          "{" DPA4_WGMMA_NUMBERS_##count "}, %" #a_number ", %" #b_number          \
                                         ", p, 1, 1, 0, 0;\n"                      \
                                         "}\n"                                     \
          : DPA4_WGMMA_OPERANDS_##count(d)                                         \
          : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                    \
    }                                                                              \
  }

DPA4_WGMMA_SHARED(32, 16, 16, 17, 18);
DPA4_WGMMA_SHARED(64, 32, 32, 33, 34);
DPA4_WGMMA_SHARED(80, 40, 40, 41, 42);
DPA4_WGMMA_SHARED(96, 48, 48, 49, 50);
DPA4_WGMMA_SHARED(128, 64, 64, 65, 66);
DPA4_WGMMA_SHARED(160, 80, 80, 81, 82);
DPA4_WGMMA_SHARED(192, 96, 96, 97, 98);
#undef DPA4_WGMMA_SHARED

/// A factor in shared memory as blocks of 8 rows (or columns, for B) x 8 numbers along k: 128
/// bytes, the 8 numbers of a row are 16 bytes in a row. Bytes from a block to the next along k and
/// across.
__device__ __forceinline__ std::uint64_t shared_factor(unsigned address, unsigned along_k,
                                                       unsigned across) {
  return (static_cast<std::uint64_t>(address & 0x3ffffu) >> 4) |
         (static_cast<std::uint64_t>(along_k >> 4) << 16) |
         (static_cast<std::uint64_t>(across >> 4) << 32);
}

/// Makes what this thread has written to shared memory visible to the products that follow the next
/// barrier.
__device__ __forceinline__ void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

}  // namespace dpa4::cuda
