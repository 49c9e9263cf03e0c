// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>

#include "src/model/evaluator.h"
#include "src/model/model_config.h"
#include "src/model/weights.h"

namespace dpa4::eager {

/// The reference engine: every DPA4 option, float32 or float64, on the CPU or a CUDA device,
/// through LibTorch. Memory is bounded by `options.cohort` edges at a time. Throws InputError when
/// the device or the model cannot be served.
std::unique_ptr<model::Evaluator> make_evaluator(const model::ModelConfig& config,
                                                 const model::Weights& weights,
                                                 const model::EvaluatorOptions& options);

}  // namespace dpa4::eager
