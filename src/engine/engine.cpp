// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/engine/engine.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/eager/cuda_library.h"
#include "src/eager/eager_evaluator.h"
#include "src/native/choice.h"
#include "src/native/native_evaluator.h"

namespace dpa4::engine {
namespace {

std::string megabytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// What a step may take beyond the plan's formula, and how large it may be.
std::string kept_line(const model::MemoryPlan& plan) {
  constexpr double kNeighbors = 100;
  std::string line;
  if (plan.kept_bytes_per_edge > 0 && !(plan.budget && *plan.budget == 0)) {
    line = "up to " + std::to_string(plan.kept_bytes_per_edge) + " bytes per edge more, " +
           (plan.budget ? megabytes(*plan.budget) + " in all"
                        : "at most " + megabytes(plan.kept_limit)) +
           ", save making them again";
  }
  if (plan.available > 0) {
    std::int64_t bytes = plan.available;
    if (plan.budget && *plan.budget > 0) bytes = std::min(bytes, *plan.budget);
    line += (line.empty() ? "" : "; ") + std::string("room for about ") +
            std::to_string(plan.most_atoms(bytes, kNeighbors)) + " atoms with 100 neighbors each";
  }
  return line;
}

/// Why the native engine cannot run this model here, or nothing.
std::optional<std::string> obstacle(const model::ModelConfig& config, model::Device device) {
  if (!native::serves(device)) return "this build has no native kernels for CUDA";
  if (const auto option = native::unsupported_option(config)) {
    return "the native engine does not cover " + *option;
  }
  return std::nullopt;
}

/// Takes CUDA where the engine that will run can use it, if the user leaves the choice; processes
/// share devices evenly.
void choose_device(const EngineOptions& given, const model::ModelConfig& config,
                   model::EvaluatorOptions& options, Logger& log) {
  if (!given.auto_device && options.device == model::Device::kCpu) return;
  const std::optional<std::string> reason = obstacle(config, model::Device::kCuda);
  const bool with_torch = given.engine == Engine::kEager || reason;
  std::string missing;
  const int devices = with_torch ? eager::load_cuda(missing) : native::cuda_devices();
  if (given.auto_device) {
    options.device = devices > 0 ? model::Device::kCuda : model::Device::kCpu;
    if (with_torch && devices == 0 && native::cuda_devices() > 0) {
      log.warning("device auto: the CPU, as " + reason.value_or("the engine is eager") +
                  " and LibTorch cannot use the CUDA device: " + missing);
    }
  }
  if (options.device != model::Device::kCuda || devices == 0) return;
  options.device_index %= devices;
  options.sharers = (options.sharers + devices - 1) / devices;
}

}  // namespace

LoadedModel load(const std::string& path, const EngineOptions& options, Logger& log) {
  io::Checkpoint checkpoint = io::read_checkpoint(path, options.checkpoint, log);
  LoadedModel model;
  model.config = std::move(checkpoint.config);
  model.info = std::move(checkpoint.info);
  model.options = options.evaluator;
  choose_device(options, model.config, model.options, log);
  const std::optional<std::string> reason = obstacle(model.config, model.options.device);
  if (options.engine == Engine::kNative && reason) {
    throw InputError(path + ": engine native: " + *reason +
                     "; use 'engine eager' or 'engine auto'");
  }
  if (options.engine == Engine::kEager || reason) {
    model.engine = "eager";
    model.reason = options.engine == Engine::kEager ? "as asked" : *reason;
    model.evaluator = eager::make_evaluator(model.config, checkpoint.weights, model.options);
  } else {
    model.engine = "native";
    model.reason =
        options.engine == Engine::kNative ? "as asked" : "covers every option of this model";
    const native::Choice choice =
        native::choose_arithmetic(model.config, checkpoint.weights, model.options, false);
    if (const auto refusal = choice.refusal(model.options)) {
      throw InputError(path + ": " + *refusal);
    }
    model.options.arithmetic = choice.name;
    model.arithmetic = choice.summary();
    model.evaluator = native::make_evaluator(model.config, checkpoint.weights, model.options);
  }
  return model;
}

std::vector<std::string> start_report(const LoadedModel& model) {
  const model::ModelConfig& config = model.config;
  const io::CheckpointInfo& info = model.info;
  std::string elements;
  for (const std::string& symbol : config.type_map) {
    elements += (elements.empty() ? "" : " ") + symbol;
    if (elements.size() > 60) {
      elements += " ... (" + std::to_string(config.n_types()) + " types)";
      break;
    }
  }
  const model::MemoryPlan plan = model.evaluator->memory_plan();
  std::vector<std::string> lines;
  lines.push_back("DPA4 model " + info.path + (info.head.empty() ? "" : ", head " + info.head));
  lines.push_back("  shape:     " + (info.preset.empty() ? std::string("custom") : info.preset) +
                  ", " + std::to_string(info.n_parameters) + " parameters, " +
                  std::to_string(config.blocks.size()) + " blocks, " +
                  std::to_string(config.channels) + " channels, format " +
                  number(config.format_version) + " (" + info.dialect + ")");
  lines.push_back("  elements:  " + elements);
  lines.push_back("  cutoff:    " + number(config.rcut) + " Angstrom");
  lines.push_back("  engine:    " + model.evaluator->description() + " (" + model.reason + ")");
  if (!model.arithmetic.empty()) lines.push_back("  kernels:   " + model.arithmetic);
  lines.push_back("  memory:    " + megabytes(plan.fixed_bytes) + " fixed + " +
                  std::to_string(plan.bytes_per_atom) + " bytes per atom + " +
                  std::to_string(plan.bytes_per_edge) + " bytes per edge, cohorts of " +
                  std::to_string(plan.cohort) + " edges");
  const std::string kept = kept_line(plan);
  if (!kept.empty()) lines.push_back("             " + kept);
  return lines;
}

}  // namespace dpa4::engine
