// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace dpa4::cuda {

/// A call of the CUDA runtime failed: out of memory apart, a bug of ours or a broken device.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail_device(const char* what, cudaError_t error) {
  throw DeviceError(std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
}

}  // namespace dpa4::cuda

/// Throws DeviceError unless the call of the CUDA runtime succeeds.
#define DPA4_CUDA_TRY(call)                                                      \
  do {                                                                           \
    const cudaError_t dpa4_error = (call);                                       \
    if (dpa4_error != cudaSuccess) ::dpa4::cuda::fail_device(#call, dpa4_error); \
  } while (false)
