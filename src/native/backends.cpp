// SPDX-License-Identifier: GPL-2.0-or-later
// The only file of the engine that names backends.
#include "src/native/backends.h"

#include "kernels/cpu/cpu_backend.h"
#include "src/base/error.h"

namespace dpa4::native {

template <class Real>
Backend<Real> open_backend(const model::EvaluatorOptions& options) {
  if (options.device != model::Device::kCpu) {
    throw InputError("engine native: this build has no CUDA kernels; use 'device cpu'");
  }
  return {cpu::make_machine(), &cpu::table<Real>()};
}

template Backend<float> open_backend<float>(const model::EvaluatorOptions&);
template Backend<double> open_backend<double>(const model::EvaluatorOptions&);

}  // namespace dpa4::native
