// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include <omp.h>

#include "src/base/error.h"
#include "src/base/host_device.h"

/// The one front for loops over many elements. An algorithm is written once, as a template over an
/// execution space and with named functors marked DPA4_HD, and then runs wherever a space exists.
///
/// A space is a cheap, copyable handle `S` with these members:
///
///   void run(const char* label, std::int64_t n, const F& f) const   calls f(i) for i in [0, n)
///   void scan(const char* label, std::int64_t n, const F& f) const  see scan_each
///   void* allocate(std::size_t bytes) const, void deallocate(void*) const noexcept
///   void copy_in(void* to, const void* from_host, std::size_t bytes) const
///   void copy_out(void* to_host, const void* from, std::size_t bytes) const   waits for earlier
///   work static int fetch_add(int* value, int amount)                     DPA4_HD, atomic
///
/// Work given to a space runs in the order it was given. Functors must not throw.
/// Everything below gives the same bits for any number of threads.
namespace dpa4::base {

/// Threads of the host (OpenMP), host memory.
struct Threads {
  /// Below this many elements starting the threads costs more than it saves.
  static constexpr std::int64_t kMinParallel = 512;
  static constexpr int kMaxThreads = 256;

  template <class F>
  void run(const char* /*label*/, std::int64_t n, const F& f) const {
#pragma omp parallel for schedule(static) if (n >= kMinParallel)
    for (std::int64_t i = 0; i < n; ++i) f(i);
  }

  template <class F>
  void scan(const char* /*label*/, std::int64_t n, const F& f) const {
    using Count = typename F::Count;
    Count chunk_sum[kMaxThreads + 1] = {};
    const int wanted = n >= kMinParallel ? omp_get_max_threads() : 1;
    int n_chunks = 1;
#pragma omp parallel num_threads(wanted < kMaxThreads ? wanted : kMaxThreads) if (wanted > 1)
    {
#pragma omp single
      n_chunks = omp_get_num_threads();
      const int chunk = omp_get_thread_num();
      const std::int64_t begin = n * chunk / n_chunks;
      const std::int64_t end = n * (chunk + 1) / n_chunks;
      Count sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += f.count(i);
      chunk_sum[chunk + 1] = sum;
#pragma omp barrier
#pragma omp single
      for (int k = 0; k < n_chunks; ++k) chunk_sum[k + 1] += chunk_sum[k];
      Count running = chunk_sum[chunk];
      for (std::int64_t i = begin; i < end; ++i) {
        const Count count = f.count(i);
        f.place(i, running);
        running += count;
      }
    }
    f.place(n, chunk_sum[n_chunks]);
  }

  void* allocate(std::size_t bytes) const {
    return ::operator new(bytes, std::align_val_t(kAlignment));
  }
  void deallocate(void* memory) const noexcept {
    ::operator delete(memory, std::align_val_t(kAlignment));
  }
  void copy_in(void* to, const void* from_host, std::size_t bytes) const {
    if (bytes > 0) std::memcpy(to, from_host, bytes);
  }
  void copy_out(void* to_host, const void* from, std::size_t bytes) const {
    if (bytes > 0) std::memcpy(to_host, from, bytes);
  }
  static int fetch_add(int* value, int amount) {
    return __atomic_fetch_add(value, amount, __ATOMIC_RELAXED);
  }

 private:
  static constexpr std::size_t kAlignment = 64;  // a cache line, and the widest SIMD register
};

/// f(i) for every i in [0, n), in any order.
template <class Space, class F>
void parallel_for(const Space& space, const char* label, std::int64_t n, const F& f) {
  DPA4_EXPECTS(n >= 0);
  if (n > 0) space.run(label, n, f);
}

/// Numbers things: f.place(i, sum of f.count(0..i)) once for every i in [0, n], in any order.
/// f.count(i), for i < n, is called more than once and must not depend on f.place(k), k != i.
/// F::Count is an integer type that holds the total.
template <class Space, class F>
void scan_each(const Space& space, const char* label, std::int64_t n, const F& f) {
  static_assert(std::is_integral_v<typename F::Count>,
                "sums of integers do not depend on their order");
  DPA4_EXPECTS(n >= 0);
  space.scan(label, n, f);
}

namespace detail {

template <class T>
struct ScanInPlace {
  using Count = T;
  T* counts;
  DPA4_HD T count(std::int64_t i) const { return counts[i]; }
  DPA4_HD void place(std::int64_t i, T before) const { counts[i] = before; }
};

}  // namespace detail

/// Replaces counts[i] by the sum of counts[0..i), for i in [0, n]: `counts` has n + 1 elements, of
/// which the last is output only (the total). T is an integer type that holds the total.
template <class Space, class T>
void exclusive_scan(const Space& space, const char* label, std::int64_t n, T* counts) {
  scan_each(space, label, n, detail::ScanInPlace<T>{counts});
}

/// One element, brought to the host after all work given to the space before.
template <class Space, class T>
T read_element(const Space& space, const T* element) {
  T value;
  space.copy_out(&value, element, sizeof(T));
  return value;
}

/// Memory of a space that grows and never shrinks, so that a loop stops allocating once it has seen
/// its largest size. Elements are not initialized, and growing does not keep them.
template <class T, class Space>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "plain data");

 public:
  explicit Buffer(Space space = {}) : space_(std::move(space)) {}
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept
      : space_(other.space_),
        data_(std::exchange(other.data_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  /// Makes room for at least n elements; an eighth is added when it grows, for the next steps.
  T* reserve(std::int64_t n) {
    DPA4_EXPECTS(n >= 0);
    if (n > capacity_) {
      release();
      const std::int64_t wanted = n + n / 8 + 16;
      data_ = static_cast<T*>(space_.allocate(static_cast<std::size_t>(wanted) * sizeof(T)));
      capacity_ = wanted;
    }
    return data_;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::int64_t bytes() const { return capacity_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  void release() noexcept {
    if (data_ != nullptr) space_.deallocate(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

  Space space_;
  T* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

namespace detail {

template <class T>
struct Fill {
  T* out;
  T value;
  DPA4_HD void operator()(std::int64_t i) const { out[i] = value; }
};

template <class Space>
struct CountKeys {
  const int* keys;
  int* counts;
  DPA4_HD void operator()(std::int64_t i) const { Space::fetch_add(counts + keys[i], 1); }
};

struct CopyInts {
  const int* from;
  int* to;
  DPA4_HD void operator()(std::int64_t i) const { to[i] = from[i]; }
};

template <class Space>
struct PlaceMembers {
  const int* keys;
  int* cursor;
  int* members;
  DPA4_HD void operator()(std::int64_t i) const {
    members[Space::fetch_add(cursor + keys[i], 1)] = static_cast<int>(i);
  }
};

struct Ascending {
  DPA4_HD bool operator()(int a, int b) const { return a < b; }
};

template <class Less>
DPA4_HD void sift_down(int* heap, int root, int n, const Less& less) {
  const int value = heap[root];
  while (2 * root + 1 < n) {
    int child = 2 * root + 1;
    if (child + 1 < n && less(heap[child], heap[child + 1])) ++child;
    if (!less(value, heap[child])) break;
    heap[root] = heap[child];
    root = child;
  }
  heap[root] = value;
}

/// In the order of `less`, in place, n log n at worst, without recursion (it runs inside device
/// threads). Equal values may change places.
template <class Less>
DPA4_HD void sort_in_place(int* values, int n, const Less& less) {
  bool sorted = true;
  for (int i = 1; i < n && sorted; ++i) sorted = !less(values[i], values[i - 1]);
  if (sorted) return;
  for (int root = n / 2 - 1; root >= 0; --root) sift_down(values, root, n, less);
  for (int last = n - 1; last > 0; --last) {
    const int largest = values[0];
    values[0] = values[last];
    values[last] = largest;
    sift_down(values, 0, last, less);
  }
}

DPA4_HD inline void sort_ascending(int* values, int n) { sort_in_place(values, n, Ascending{}); }

/// Atomics placed the members of a group in the order the threads came by; sorting restores one
/// order.
struct SortGroup {
  const int* begin;
  int* members;
  DPA4_HD void operator()(std::int64_t key) const {
    sort_ascending(members + begin[key], begin[key + 1] - begin[key]);
  }
};

/// Sorts runs of `run` values, one a thread.
template <class Less>
struct SortRuns {
  int* values;
  std::int64_t n;
  int run;
  Less less;
  DPA4_HD void operator()(std::int64_t k) const {
    const std::int64_t begin = k * run;
    const std::int64_t rest = n - begin;
    sort_in_place(values + begin, static_cast<int>(rest < run ? rest : run), less);
  }
};

/// Merges sorted runs of `run` values in pairs: a value goes behind those of its own run that are
/// before it and those of the other that are less.
template <class Less>
struct MergeRuns {
  const int* from;
  int* to;
  std::int64_t n, run;
  Less less;
  DPA4_HD void operator()(std::int64_t i) const {
    const std::int64_t own = i / run * run;
    const bool left = i / run % 2 == 0;
    const std::int64_t pair = left ? own : own - run;
    std::int64_t low = left ? own + run : pair;
    if (low > n) low = n;
    std::int64_t high = low + run < n ? low + run : n;
    const std::int64_t other = low;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (less(from[middle], from[i])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    to[pair + (i - own) + (low - other)] = from[i];
  }
};

}  // namespace detail

/// Sets n elements to one value.
template <class Space, class T>
void fill(const Space& space, const char* label, std::int64_t n, T* out, T value) {
  parallel_for(space, label, n, detail::Fill<T>{out, value});
}

/// Stable counting sort of the element numbers 0..n-1 by their keys.
///
/// @param keys     (n)           in [0, n_keys)
/// @param begin    (n_keys + 1)  out: the elements of key k are members[begin[k] .. begin[k + 1])
/// @param members  (n)           out: element numbers, ascending within a key
/// @param cursor   (n_keys)      scratch
/// @param n_ordered  Keys from here on need no order of their members: one thread orders a key, and
///                   a last key of what belongs nowhere may have very many.
template <class Space>
void group_by_key(const Space& space, const char* label, int n, const int* keys, int n_keys,
                  int* begin, int* members, int* cursor, int n_ordered) {
  fill(space, label, n_keys, begin, 0);
  parallel_for(space, label, n, detail::CountKeys<Space>{keys, begin});
  exclusive_scan(space, label, n_keys, begin);
  parallel_for(space, label, n_keys, detail::CopyInts{begin, cursor});
  parallel_for(space, label, n, detail::PlaceMembers<Space>{keys, cursor, members});
  parallel_for(space, label, n_ordered, detail::SortGroup{begin, members});
}
template <class Space>
void group_by_key(const Space& space, const char* label, int n, const int* keys, int n_keys,
                  int* begin, int* members, int* cursor) {
  group_by_key(space, label, n, keys, n_keys, begin, members, cursor, n_keys);
}

/// Sorts different values in the order of `less`, however they are distributed.
///
/// @param values   (n)  in and out
/// @param scratch  (n)
template <class Space, class Less>
void merge_sort(const Space& space, const char* label, std::int64_t n, int* values, int* scratch,
                const Less& less) {
  constexpr int kFirstRun = 8;
  const std::int64_t n_runs = (n + kFirstRun - 1) / kFirstRun;
  parallel_for(space, label, n_runs, detail::SortRuns<Less>{values, n, kFirstRun, less});
  const int* from = values;
  int* to = scratch;
  for (std::int64_t run = kFirstRun; run < n; run *= 2) {
    parallel_for(space, label, n, detail::MergeRuns<Less>{from, to, n, run, less});
    from = to;
    to = from == values ? scratch : values;
  }
  if (from != values) parallel_for(space, label, n, detail::CopyInts{from, values});
}

}  // namespace dpa4::base
