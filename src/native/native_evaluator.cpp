// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/native_evaluator.h"

#include "src/base/error.h"
#include "src/native/step_engine.h"

namespace dpa4::native {

namespace {

template <class Real>
std::unique_ptr<model::Evaluator> make(const model::ModelConfig& config,
                                       const model::Weights& weights,
                                       const model::EvaluatorOptions& options) {
  return std::make_unique<StepEngine<Real>>(config, weights, options, open_backend<Real>(options));
}

}  // namespace

std::unique_ptr<model::Evaluator> make_evaluator(const model::ModelConfig& config,
                                                 const model::Weights& weights,
                                                 const model::EvaluatorOptions& options) {
  if (const auto option = unsupported_option(config)) {
    throw InputError("engine native does not cover " + *option + "; use 'engine eager'");
  }
  if (options.cohort < 0) throw InputError("cohort must be at least 1");
  return options.precision == model::Precision::kFloat32 ? make<float>(config, weights, options)
                                                         : make<double>(config, weights, options);
}

}  // namespace dpa4::native
