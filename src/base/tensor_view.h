// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"

namespace dpa4 {

/// A non-owning, row-major, contiguous array of fixed rank; copyable into kernels.
/// Extents fit `int`; every offset is computed in 64 bits.
template <class T, int kRank>
class TensorView {
  static_assert(kRank >= 1 && kRank <= 5, "rank 1 to 5");

 public:
  TensorView() = default;

  template <class... Extents>
  DPA4_HD TensorView(T* data, Extents... extents)
      : data_(data), extents_{static_cast<int>(extents)...} {
    static_assert(sizeof...(Extents) == kRank, "one extent for each dimension");
  }

  /// A view of mutable data is also a view of constant data.
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T> && !std::is_const_v<U>>>
  DPA4_HD TensorView(const TensorView<U, kRank>& other) : data_(other.data()) {
    for (int i = 0; i < kRank; ++i) extents_[i] = other.extent(i);
  }

  DPA4_HD T* data() const { return data_; }
  DPA4_HD int extent(int dimension) const { return extents_[dimension]; }
  DPA4_HD std::int64_t size() const {
    std::int64_t product = 1;
    for (int i = 0; i < kRank; ++i) product *= extents_[i];
    return product;
  }
  DPA4_HD bool empty() const { return size() == 0; }

  template <class... Indices>
  DPA4_HD T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == kRank, "one index for each dimension");
    const std::int64_t list[] = {static_cast<std::int64_t>(indices)...};
    std::int64_t offset = 0;
    for (int i = 0; i < kRank; ++i) offset = offset * extents_[i] + list[i];
    return data_[offset];
  }

 private:
  T* data_ = nullptr;
  int extents_[kRank] = {};
};

}  // namespace dpa4
