// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>

namespace dpa4::testing {

/// Bytes the program holds through operator new right now, and the most it has held since
/// reset_peak_bytes. Linking allocation_counter.cpp replaces operator new of the whole program.
std::size_t live_bytes();
std::size_t peak_bytes();
void reset_peak_bytes();

}  // namespace dpa4::testing
