// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cuda_runtime.h>

/// Copies from global to shared memory that nobody waits for at once.
namespace dpa4::cuda {

/// Begins to copy kCount numbers (4, 8 or 16 bytes, aligned so) to shared memory.
template <int kCount = 1, class Real>
__device__ __forceinline__ void copy_async(Real* to, const Real* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
                 "n"(kCount * static_cast<int>(sizeof(Real))));
}

/// The same for the first `valid` of the numbers, 0 to kCount, with zeros after them; `from` is not
/// read for 0.
template <int kCount, class Real>
__device__ __forceinline__ void copy_async_padded(Real* to, const Real* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
                 "n"(kCount * static_cast<int>(sizeof(Real))),
                 "r"(valid * static_cast<int>(sizeof(Real))));
}

/// Begins to copy 16 bytes that no other block of the multiprocessor will want.
__device__ __forceinline__ void copy_async_wide(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from));
}

/// Waits for the copies that this thread began.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" : : : "memory");
}

}  // namespace dpa4::cuda
