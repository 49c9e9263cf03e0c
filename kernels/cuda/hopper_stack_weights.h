// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

namespace dpa4::cuda {

/// Forgets the weights of mixing stacks that were made from numbers in [begin, end).
void forget_stack_weights(const float* begin, const float* end);

/// Bytes of device memory in remembered weights of mixing stacks.
std::int64_t stack_weight_bytes();

}  // namespace dpa4::cuda
