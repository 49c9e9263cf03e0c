// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/weight_memory.h"

#include "kernels/cuda/hopper_stack_weights.h"
#include "kernels/cuda/radial_table.h"
#include "kernels/cuda/split_weights.h"

namespace dpa4::cuda {

void forget_weights(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const char*>(data);
  const auto* first = reinterpret_cast<const float*>(begin);
  const auto* last = reinterpret_cast<const float*>(begin + bytes);
  forget_split_weights(first, last);
  forget_stack_weights(first, last);
  forget_radial_tables(first, last);
}

std::int64_t derived_weight_bytes() {
  return split_weight_bytes() + stack_weight_bytes() + radial_table_bytes();
}

}  // namespace dpa4::cuda
