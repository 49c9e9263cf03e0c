// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

/// Other forms of weight matrices that operations have made and remember.
namespace dpa4::cuda {

/// Forgets what was made from matrices that touch [data, data + bytes): their memory is about to be
/// released or overwritten.
void forget_weights(const void* data, std::size_t bytes);

/// Bytes of device memory in remembered weights.
std::int64_t split_weight_bytes();

}  // namespace dpa4::cuda
