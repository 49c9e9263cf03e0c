// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>

/// What the current device can do, and its memory.
namespace dpa4::cuda {

/// True on devices of compute capability 9.0, if the build has code for them.
bool has_hopper_products();

/// True where a kernel can be started while the one before it ends: compute capability 9.0 or
/// newer, if the code that runs there was compiled for that (see begin_kernel).
bool overlaps_launches();

int multiprocessors();

/// Bytes of shared memory that a block may ask for.
std::size_t most_shared_bytes();

/// Throws InputError, naming the operation, if a block may not have so much.
void require_shared_bytes(const char* operation, std::size_t bytes);

/// Memory for `bytes` bytes. Throws InputError if there is not enough: "out of device memory", who
/// needs it, how much is free, and what to do about it.
void* allocate_bytes(std::size_t bytes, const std::string& who);

}  // namespace dpa4::cuda
