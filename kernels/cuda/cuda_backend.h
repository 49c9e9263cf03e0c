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

/// How float32 matrices are multiplied.
enum class Arithmetic {
  kPlain,  // fused multiply-adds of float32
  kSplit,  // tensor cores, each number as a pair of float16: the accuracy of float32,
           // split_gemm.cuh
};

/// The operations. float64 has one arithmetic.
template <class Real>
const kernels::KernelTable<Real>& table(Arithmetic arithmetic = Arithmetic::kSplit);

/// A device with the given stream of it, or with one of its own. The calling thread uses the device
/// from then on. Throws InputError when there is no device of that number.
std::unique_ptr<kernels::Machine> make_machine(int device, kernels::Stream stream = nullptr);

}  // namespace dpa4::cuda
