// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/base/parallel.h"

namespace dpa4::base {

namespace detail {

template <class F>
struct Scan {
  F f;
  std::int64_t n;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, typename F::Count& sum,
                                         bool is_final) const {
    const typename F::Count count = i < n ? f.count(i) : 0;
    if (is_final) f.place(i, sum);
    sum += count;
  }
};

}  // namespace detail

/// A space of parallel.h where Kokkos executes; memory is that of the execution space. Work goes to
/// the default instance of the execution space, which is where LAMMPS' own kernels run: nothing has
/// to wait for them. Only this file knows how.
template <class ExecutionSpace, class MemorySpace = typename ExecutionSpace::memory_space>
struct KokkosSpace {
  using Memory = MemorySpace;

  /// Whether the host reads and writes the memory of this space as its own.
  static constexpr bool kHostAccessible =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;

  template <class F>
  void run(const char* label, std::int64_t n, const F& f) const {
    Kokkos::parallel_for(label, Range(0, n), f);
  }

  template <class F>
  void scan(const char* label, std::int64_t n, const F& f) const {
    Kokkos::parallel_scan(label, Range(0, n + 1), detail::Scan<F>{f, n});
  }

  void* allocate(std::size_t bytes) const { return Kokkos::kokkos_malloc<Memory>("dpa4", bytes); }
  void deallocate(void* memory) const noexcept { Kokkos::kokkos_free<Memory>(memory); }

  void copy_in(void* to, const void* from_host, std::size_t bytes) const {
    if (bytes == 0) return;
    Kokkos::deep_copy(
        ExecutionSpace(), Bytes<char, Memory>(static_cast<char*>(to), bytes),
        Bytes<const char, Kokkos::HostSpace>(static_cast<const char*>(from_host), bytes));
    fence();  // the caller may change what it handed over
  }
  void copy_out(void* to_host, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    Kokkos::deep_copy(ExecutionSpace(),
                      Bytes<char, Kokkos::HostSpace>(static_cast<char*>(to_host), bytes),
                      Bytes<const char, Memory>(static_cast<const char*>(from), bytes));
    fence();
  }

  KOKKOS_INLINE_FUNCTION static int fetch_add(int* value, int amount) {
    return Kokkos::atomic_fetch_add(value, amount);
  }

  /// Waits for all work given to this space.
  void fence() const { ExecutionSpace().fence("dpa4"); }

 private:
  using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  template <class T, class Space>
  using Bytes = Kokkos::View<T*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
};

/// The same with memory of the host that the execution space writes to directly: what a kernel
/// leaves there the host reads after a fence, without a copy.
template <class ExecutionSpace>
using KokkosHostMemory =
    KokkosSpace<ExecutionSpace,
                std::conditional_t<KokkosSpace<ExecutionSpace>::kHostAccessible, Kokkos::HostSpace,
                                   Kokkos::SharedHostPinnedSpace>>;

}  // namespace dpa4::base
