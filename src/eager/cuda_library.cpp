// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/cuda_library.h"

#include <ATen/Context.h>
#include <dlfcn.h>

namespace dpa4::eager {

int load_cuda(std::string& reason) {
  // Loading the library registers its kernels; it sits beside libtorch_cpu.so, whose search path
  // finds it.
  static const std::string load_error = [] {
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return std::string();
    Dl_info cpu_library{};
    std::string error = dlerror();
    if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &cpu_library) != 0) {
      std::string path = cpu_library.dli_fname;
      path = path.substr(0, path.find_last_of('/') + 1) + "libtorch_cuda.so";
      if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return std::string();
      error = dlerror();
    }
    return error;
  }();
  if (!load_error.empty()) {
    reason = "LibTorch's CUDA library cannot be loaded: " + load_error;
    return 0;
  }
  const int count = at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
  if (count == 0) reason = "no CUDA device is visible";
  return count;
}

}  // namespace dpa4::eager
