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

namespace {

/// The first candidate for "auto"; throws InputError for a name that is not offered.
std::string resolved_arithmetic(const model::EvaluatorOptions& options) {
  const std::vector<std::string> names = candidates(options);
  if (options.arithmetic == "auto") return names.front();
  std::string offered = "auto";
  for (const std::string& name : names) {
    if (name == options.arithmetic) return name;
    offered += ", " + name;
  }
  throw InputError("arithmetic '" + options.arithmetic + "' is not available here: choose one of " +
                   offered);
}

}  // namespace

std::vector<std::string> candidates(const model::EvaluatorOptions& options) {
  if (options.device == model::Device::kCpu) return cpu::instruction_sets();
  if (options.precision == model::Precision::kFloat64) return {"fp64"};
  return {"split", "fp32"};
}

template <class Real>
Backend<Real> open_backend(const model::EvaluatorOptions& options) {
  const std::string arithmetic = resolved_arithmetic(options);
  if (options.device != model::Device::kCpu) {
#ifdef DPA4_HAVE_CUDA
    const cuda::Arithmetic products =
        arithmetic == "split" ? cuda::Arithmetic::kSplit : cuda::Arithmetic::kPlain;
    return {cuda::make_machine(options.device_index, options.stream), &cuda::table<Real>(products),
            arithmetic};
#else
    throw InputError("engine native: this build has no CUDA kernels; use 'device cpu'");
#endif
  }
  return {cpu::make_machine(), &cpu::table<Real>(arithmetic), arithmetic};
}

MachineInfo machine_info(const model::EvaluatorOptions& options) {
  const auto machine = open_backend<float>(options).machine;
  return {machine->name(), machine->driver(), machine->free_bytes()};
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
