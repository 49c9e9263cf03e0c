// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

/// What operations have made of weights and remember: matrices in other forms, tables.
namespace dpa4::cuda {

/// Forgets what was made from matrices that touch [data, data + bytes): their memory is about to be
/// released or overwritten.
void forget_weights(const void* data, std::size_t bytes);

/// Bytes of device memory in all that.
std::int64_t derived_weight_bytes();

}  // namespace dpa4::cuda
