// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace dpa4::model {

/// 1 for "H" ... 118 for "Og"; 0 when `symbol` is no element.
int atomic_number(const std::string& symbol);

/// Unpaired electrons of the ground-state configuration (Hund's first rule in every subshell); 0 <
/// z <= 118.
int unpaired_electrons(int atomic_number);

}  // namespace dpa4::model
