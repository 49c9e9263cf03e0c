// SPDX-License-Identifier: GPL-2.0-or-later
// The only file of the engine that names backends.
#include "src/native/backends.h"

#include "kernels/cpu/cpu_backend.h"
#include "src/base/error.h"
#include "src/native/native_evaluator.h"
#ifdef DPA4_HAVE_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace dpa4::native {

template <class Real>
Backend<Real> open_backend(const model::EvaluatorOptions& options) {
  if (options.device != model::Device::kCpu) {
#ifdef DPA4_HAVE_CUDA
    return {cuda::make_machine(options.device_index), &cuda::table<Real>()};
#else
    throw InputError("engine native: this build has no CUDA kernels; use 'device cpu'");
#endif
  }
  return {cpu::make_machine(), &cpu::table<Real>()};
}

bool serves(model::Device device) {
#ifdef DPA4_HAVE_CUDA
  return device == model::Device::kCpu || device == model::Device::kCuda;
#else
  return device == model::Device::kCpu;
#endif
}

int cuda_devices() {
#ifdef DPA4_HAVE_CUDA
  return cuda::device_count();
#else
  return 0;
#endif
}

template Backend<float> open_backend<float>(const model::EvaluatorOptions&);
template Backend<double> open_backend<double>(const model::EvaluatorOptions&);

}  // namespace dpa4::native
