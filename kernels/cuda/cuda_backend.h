// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>

#include "kernels/api/kernel_table.h"

namespace dpa4::cuda {

/// Usable CUDA devices of this machine; 0 where there is no driver.
int device_count();

/// Why there is none, or an empty string.
std::string unavailable_reason();

/// The operations. Every element of a result is computed with sums in Real.
template <class Real>
const kernels::KernelTable<Real>& table();

/// A device with a stream of its own. The calling thread uses the device from then on.
/// Throws InputError when there is no device of that number.
std::unique_ptr<kernels::Machine> make_machine(int device);

}  // namespace dpa4::cuda
