// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/kernel_table.h"

namespace dpa4::cpu {

/// Names of the instruction sets in this build that this processor has, best first.
std::vector<std::string> instruction_sets();

/// The operations compiled for an instruction set (the best one where the name is empty).
/// Throws InputError for a name that is not in instruction_sets().
template <class Real>
const kernels::KernelTable<Real>& table(const std::string& instruction_set = "");

/// This processor: host memory, as many lanes as OpenMP would start threads.
std::unique_ptr<kernels::Machine> make_machine();

}  // namespace dpa4::cpu
