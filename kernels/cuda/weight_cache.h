// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/devices.h"

namespace dpa4::cuda {

struct FreeDevice {
  // The driver may be gone when a program ends.
  void operator()(void* memory) const { static_cast<void>(cudaFree(memory)); }
};

/// What an operation has made of weights: another form of a matrix, a table.
class DerivedWeights {
 public:
  /// Takes memory for it. Throws InputError if there is not enough.
  void* allocate(std::int64_t bytes) {
    memory_.reset(allocate_bytes(static_cast<std::size_t>(bytes), "a form of the model's weights"));
    bytes_ = bytes;
    return memory_.get();
  }
  /// Gives the memory back.
  void release() {
    memory_.reset();
    bytes_ = 0;
  }
  /// Says what it is made from.
  void made_from(const float* data, std::int64_t count) {
    if (data != nullptr) sources_.emplace_back(data, data + count);
  }

  std::int64_t bytes() const { return bytes_; }
  bool touches(const float* begin, const float* end) const {
    for (const auto& [from, to] : sources_) {
      if (from < end && begin < to) return true;
    }
    return false;
  }

 private:
  std::unique_ptr<void, FreeDevice> memory_;
  std::int64_t bytes_ = 0;
  std::vector<std::pair<const float*, const float*>> sources_;
};

/// Remembers derived weights until the weights are forgotten (weight_memory.h). Any thread may ask.
template <class Key, class Entry>  // Entry: a DerivedWeights with what the kernels take
class WeightCache {
 public:
  /// make(entry) fills one that is not there yet. The result is valid until it is forgotten.
  template <class Make>
  const Entry& find(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    if (found == entries_.end()) {
      Entry entry;
      make(entry);
      found = entries_.emplace(key, std::move(entry)).first;
      bytes_ += found->second.bytes();
    }
    return found->second;
  }

  /// Forgets what was made from numbers in [begin, end).
  void forget(const float* begin, const float* end) {
    const std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      const bool touched = it->second.touches(begin, end);
      if (touched) bytes_ -= it->second.bytes();
      it = touched ? entries_.erase(it) : std::next(it);
    }
  }

  /// Bytes of device memory.
  std::int64_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::int64_t bytes_ = 0;
};

}  // namespace dpa4::cuda
