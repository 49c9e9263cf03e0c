// SPDX-License-Identifier: GPL-2.0-or-later
// dpa4 tune: measures the kernels that could run a model here, and records which one won.
#include "src/io/checkpoint.h"
#include "src/native/choice.h"
#include "src/native/native_evaluator.h"
#include "tools/commands.h"

namespace dpa4::tools {

ExitCode run_tune(const TuneOptions& options, std::ostream& out, Logger& log) {
  const engine::EngineOptions engine_options = to_engine_options(options.run);
  const io::Checkpoint checkpoint =
      io::read_checkpoint(options.model, engine_options.checkpoint, log);
  if (const auto option = native::unsupported_option(checkpoint.config)) {
    throw InputError(options.model + ": nothing to tune: the native engine does not cover " +
                     *option);
  }
  model::EvaluatorOptions evaluator = engine_options.evaluator;
  if (engine_options.auto_device) {
    evaluator.device = native::cuda_devices() > 0 ? model::Device::kCuda : model::Device::kCpu;
  }
  const native::Choice choice =
      native::choose_arithmetic(checkpoint.config, checkpoint.weights, evaluator, /*fresh=*/true);
  out << format("%-10s %12s %18s\n", "kernels", "ms/step", "error / accepted");
  for (const native::Measured& one : choice.measured) {
    out << format("%-10s %12.3f %18.3g%s\n", one.name.c_str(), 1e3 * one.seconds, one.error,
                  one.name == choice.name ? "  chosen"
                  : one.accepted()        ? ""
                                          : "  refused");
  }
  const std::string path = native::ChoiceRecord().path();
  out << (path.empty() ? "not recorded: no cache folder" : "recorded in " + path) << "\n";
  if (const auto refusal = choice.refusal(evaluator)) {
    throw InputError(options.model + ": " + *refusal);
  }
  return kSuccess;
}

}  // namespace dpa4::tools
