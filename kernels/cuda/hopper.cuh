// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "kernels/cuda/wgmma_operands.h"

/// Instructions of Hopper (sm_90a): asynchronous matrix products of a warpgroup (four warps), bulk
/// copies and the barriers they signal. PTX ISA, sections "wgmma", "cp.async.bulk" and "mbarrier".
namespace dpa4::cuda {

/// Accumulators: element (16 w + l / 4 + 8 h, 8 j + 2 (l % 4) + t) of warp w, lane l is
/// d[4 j + 2 h + t].
/// A: row 16 w + l / 4 + 8 h, columns 2 (l % 4) + 8 j + {0, 1} in register 2 j + h.
/// B: described by shared_matrix.
template <int kColumns>
struct Wgmma;

/// d = a B, or d += a B if `accumulate`, for a (64, 16) and B (16, columns): half as many
/// accumulators as columns; the operands behind them are a, b and accumulate.
#define DPA4_WGMMA(columns, count, a0, a1, a2, a3, b_number, accumulate_number)           \
  template <>                                                                             \
  struct Wgmma<columns> {                                                                 \
    static __device__ __forceinline__ void run(float (&d)[count], const unsigned (&a)[4], \
                                               std::uint64_t b, bool accumulate) {        \
      asm volatile(                                                                       \
          "{\n"                                                                           \
          ".reg .pred p;\n"                                                               \
          "setp.ne.b32 p, %" #accumulate_number                                           \
          ", 0;\n"                                                                        \
          "wgmma.mma_async.sync.aligned.m64n" #columns                                    \
          "k16.f32.f16.f16 "                                                              \
          "{" DPA4_WGMMA_NUMBERS_##count "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3        \
                                         "}, %" #b_number                                 \
                                         ", p, 1, 1, 0;\n"                                \
                                         "}\n"                                            \
          : DPA4_WGMMA_OPERANDS_##count(d)                                                \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                           \
            "r"(static_cast<int>(accumulate)));                                           \
    }                                                                                     \
  }

DPA4_WGMMA(32, 16, 16, 17, 18, 19, 20, 21);
DPA4_WGMMA(64, 32, 32, 33, 34, 35, 36, 37);
DPA4_WGMMA(96, 48, 48, 49, 50, 51, 52, 53);
#undef DPA4_WGMMA

/// B (16, n) in shared memory as blocks of 8 columns x 8 rows (128 bytes, a column is 16 bytes in a
/// row): two blocks for 8 columns, then the next 8 columns.
__device__ __forceinline__ std::uint64_t shared_matrix(const void* blocks) {
  constexpr std::uint64_t kAlongK = 128 >> 4, kAlongColumns = 256 >> 4;
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(blocks));
  return ((address & 0x3ffff) >> 4) | (kAlongK << 16) | (kAlongColumns << 32);
}

/// Orders earlier accesses to registers and shared memory before the products that follow.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(arrivals));
}
__device__ __forceinline__ void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :
               : "r"(shared_address(barrier))
               : "memory");
}
/// Arrives and announces `bytes` bytes of copies.
__device__ __forceinline__ void barrier_expect(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/// Waits for the end of the phase of this parity.
__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\n"
      "bra again;\n"
      "done:\n"
      "}\n"
      :
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
}

/// `bytes` bytes (a multiple of 16) from global to shared memory; signals `barrier`.
__device__ __forceinline__ void copy_bulk(void* shared, const void* global, unsigned bytes,
                                          std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// Registers of the threads of a warpgroup from here on.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kCount));
}

}  // namespace dpa4::cuda
