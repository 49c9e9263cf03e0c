// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/devices.h"

#include <map>
#include <mutex>

#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "src/base/error.h"

namespace dpa4::cuda {

namespace {

__global__ void empty_kernel() { begin_kernel(); }

struct Device {
  int capability, multiprocessors, shared_bytes;
  bool overlaps;
};

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  DPA4_CUDA_TRY(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

Device describe(int device) {
  // Code for an older architecture, compiled by the driver for this one, does not wait.
  cudaFuncAttributes compiled{};
  DPA4_CUDA_TRY(cudaFuncGetAttributes(&compiled, empty_kernel));
  return {attribute(device, cudaDevAttrComputeCapabilityMajor),
          attribute(device, cudaDevAttrMultiProcessorCount),
          attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin), compiled.ptxVersion >= 90};
}

const Device& current_device() {
  static std::mutex mutex;
  static std::map<int, Device> known;
  int number = 0;
  DPA4_CUDA_TRY(cudaGetDevice(&number));
  const std::lock_guard lock(mutex);
  auto found = known.find(number);
  if (found == known.end()) found = known.emplace(number, describe(number)).first;
  return found->second;
}

}  // namespace

bool has_hopper_products() {
#ifdef DPA4_CUDA_HOPPER
  return current_device().capability == 9;
#else
  return false;
#endif
}

bool overlaps_launches() { return current_device().overlaps; }

int multiprocessors() { return current_device().multiprocessors; }

std::size_t most_shared_bytes() { return static_cast<std::size_t>(current_device().shared_bytes); }

void require_shared_bytes(const char* operation, std::size_t bytes) {
  if (bytes <= most_shared_bytes()) return;
  throw InputError(std::string(operation) + ": a block needs " + std::to_string(bytes) +
                   " bytes of shared memory for this model and the device has " +
                   std::to_string(most_shared_bytes()) + "; use device cpu or engine eager");
}

void* allocate_bytes(std::size_t bytes, const std::string& who) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // the error is handled: later calls must not see it
    std::size_t free = 0, total = 0;
    DPA4_CUDA_TRY(cudaMemGetInfo(&free, &total));
    throw InputError("out of device memory: " + who + " needs " + std::to_string(bytes) +
                     " more bytes and " + std::to_string(free) +
                     " are free; use a smaller system or more ranks");
  }
  if (error != cudaSuccess) fail_device("cudaMalloc", error);
  return memory;
}

}  // namespace dpa4::cuda
