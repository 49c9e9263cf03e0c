// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/support/allocation_counter.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace dpa4::testing {
namespace {

std::size_t live = 0;
std::size_t peak = 0;

/// Each block is preceded by its size, in a header that keeps the alignment of operator new.
constexpr std::size_t kHeader = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

void* counted_new(std::size_t size) {
  auto* block = static_cast<unsigned char*>(std::malloc(size + kHeader));
  if (block == nullptr) throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(block) = size;
  live += size;
  peak = std::max(peak, live);
  return block + kHeader;
}

void counted_delete(void* pointer) noexcept {
  if (pointer == nullptr) return;
  auto* block = static_cast<unsigned char*>(pointer) - kHeader;
  live -= *reinterpret_cast<std::size_t*>(block);
  std::free(block);
}

}  // namespace

std::size_t live_bytes() { return live; }
std::size_t peak_bytes() { return peak; }
void reset_peak_bytes() { peak = live; }

}  // namespace dpa4::testing

void* operator new(std::size_t size) { return dpa4::testing::counted_new(size); }
void* operator new[](std::size_t size) { return dpa4::testing::counted_new(size); }
void operator delete(void* pointer) noexcept { dpa4::testing::counted_delete(pointer); }
void operator delete[](void* pointer) noexcept { dpa4::testing::counted_delete(pointer); }
void operator delete(void* pointer, std::size_t) noexcept {
  dpa4::testing::counted_delete(pointer);
}
void operator delete[](void* pointer, std::size_t) noexcept {
  dpa4::testing::counted_delete(pointer);
}
