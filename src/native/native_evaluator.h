// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/model/evaluator.h"
#include "src/model/model_config.h"
#include "src/model/weights.h"

namespace dpa4::native {

/// Whether this build has kernels for the device.
bool serves(model::Device device);

/// CUDA devices the kernels of this build can use; 0 without kernels, driver or device.
int cuda_devices();

/// The kernels that this build and machine offer for a device and precision, by name, the usual
/// winner first: on a CUDA device "split" (float32 by compensated products on tensor cores) and
/// "fp32", or "fp64"; on a processor its instruction sets.
std::vector<std::string> candidates(const model::EvaluatorOptions& options);

/// The device of the options. Throws InputError if there is none.
struct MachineInfo {
  std::string name;
  std::string driver;
  std::int64_t free_bytes = 0;
};
MachineInfo machine_info(const model::EvaluatorOptions& options);

/// The first option of a model that this engine does not cover, as "name = value", or nothing.
std::optional<std::string> unsupported_option(const model::ModelConfig& config);

/// Engine 2: our own kernels. Throws InputError if unsupported_option names one, if the build has
/// no kernels for the device or precision, or if there is not enough memory.
std::unique_ptr<model::Evaluator> make_evaluator(const model::ModelConfig& config,
                                                 const model::Weights& weights,
                                                 const model::EvaluatorOptions& options);

}  // namespace dpa4::native
