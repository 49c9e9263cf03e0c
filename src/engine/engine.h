// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>

#include "src/base/logger.h"
#include "src/io/checkpoint.h"
#include "src/model/evaluator.h"

namespace dpa4::engine {

enum class Engine { kAuto, kEager, kNative };

/// What a user can choose; every field has a working default.
struct EngineOptions {
  Engine engine = Engine::kAuto;
  bool auto_device =
      true;  // true: CUDA where a usable device and LibTorch's CUDA library are found
  model::EvaluatorOptions evaluator;
  io::CheckpointOptions checkpoint;
};

/// A model read from its file and ready to run.
struct LoadedModel {
  model::ModelConfig config;
  io::CheckpointInfo info;
  model::EvaluatorOptions options;  // as resolved
  std::string engine;               // "eager" or "native"
  std::string reason;               // why this engine, in a few words
  std::string arithmetic;           // what the choice of kernels was based on, or empty
  std::unique_ptr<model::Evaluator> evaluator;
};

/// Opens a model file, chooses engine and device. Throws InputError. Collective over nothing: every
/// rank reads the file itself.
LoadedModel load(const std::string& path, const EngineOptions& options, Logger& log);

/// The short block printed at start: model, preset, parameters, elements, cutoff, format, engine
/// and why, precision, device, memory plan. One string a line.
std::vector<std::string> start_report(const LoadedModel& model);

}  // namespace dpa4::engine
