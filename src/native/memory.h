// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/api/kernel_table.h"
#include "src/base/error.h"

namespace dpa4::native {

/// A growing array in the memory of a machine. Its contents are lost when it grows.
template <class T>
class Memory {
 public:
  explicit Memory(kernels::Machine& machine) : machine_(&machine) {}
  Memory(Memory&& other) noexcept
      : machine_(other.machine_),
        data_(std::exchange(other.data_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(machine_, other.machine_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { release(); }

  /// At least `count` elements.
  T* reserve(std::int64_t count) {
    if (count > capacity_) {
      release();
      data_ = static_cast<T*>(machine_->allocate(static_cast<std::size_t>(count) * sizeof(T)));
      capacity_ = count;
    }
    return data_;
  }

  T* data() const { return data_; }
  std::int64_t size() const { return capacity_; }
  std::int64_t bytes() const { return capacity_ * static_cast<std::int64_t>(sizeof(T)); }

  void release() {
    if (data_ != nullptr) machine_->release(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

 private:
  kernels::Machine* machine_;
  T* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

/// Hands out the buffers of one lane one behind the other. Without memory it only counts: the
/// layouts of the stages are constructed once to find how much they need, and again at every use.
template <class Real>
class Arena {
 public:
  Arena() = default;
  Arena(Real* base, std::int64_t capacity) : base_(base), capacity_(capacity) {}

  /// `count` elements, aligned to a cache line.
  Real* take(std::int64_t count) {
    constexpr std::int64_t kStep = 64 / sizeof(Real);
    Real* result = base_ != nullptr ? base_ + used_ : nullptr;
    used_ += (count + kStep - 1) / kStep * kStep;
    DPA4_EXPECTS(base_ == nullptr || used_ <= capacity_);
    return result;
  }
  std::int64_t used() const { return used_; }

 private:
  Real* base_ = nullptr;
  std::int64_t capacity_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace dpa4::native
