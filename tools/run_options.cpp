// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>

#include "src/base/error.h"
#include "src/engine/memory_option.h"
#include "tools/commands.h"

namespace dpa4::tools {
namespace {

bool is_digits(const std::string& text) {
  return !text.empty() && text.size() < 18 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

void set_device(const std::string& text, engine::EngineOptions& options) {
  options.auto_device = text == "auto";
  if (text == "auto") return;
  model::EvaluatorOptions& evaluator = options.evaluator;
  if (text == "cpu") {
    evaluator.device = model::Device::kCpu;
  } else if (text == "cuda") {
    evaluator.device = model::Device::kCuda;
  } else if (text.rfind("cuda:", 0) == 0 && is_digits(text.substr(5)) && text.size() <= 9) {
    evaluator.device = model::Device::kCuda;
    evaluator.device_index = std::stoi(text.substr(5));
  } else {
    throw UsageError("--device " + text + ": must be auto, cpu, cuda or cuda:N");
  }
}

}  // namespace

engine::EngineOptions to_engine_options(const RunOptions& options) {
  engine::EngineOptions result;
  if (options.engine == "auto") {
    result.engine = engine::Engine::kAuto;
  } else if (options.engine == "eager") {
    result.engine = engine::Engine::kEager;
  } else if (options.engine == "native") {
    result.engine = engine::Engine::kNative;
  } else {
    throw UsageError("--engine " + options.engine + ": must be auto, eager or native");
  }
  if (options.precision == "float32") {
    result.evaluator.precision = model::Precision::kFloat32;
  } else if (options.precision == "float64") {
    result.evaluator.precision = model::Precision::kFloat64;
  } else {
    throw UsageError("--precision " + options.precision + ": must be float32 or float64");
  }
  set_device(options.device, result);
  if (options.cohort && *options.cohort < 1) throw UsageError("--cohort: must be at least 1");
  result.evaluator.cohort = options.cohort.value_or(0);
  if (!engine::parse_memory(options.memory, result.evaluator.memory)) {
    throw UsageError("--memory " + options.memory + ": must be " + engine::kMemoryValues);
  }
  result.evaluator.arithmetic = options.arithmetic;
  result.checkpoint.head = options.head;
  result.checkpoint.use_ema = options.ema;
  return result;
}

std::string format(const char* pattern, ...) {
  std::va_list arguments;
  va_start(arguments, pattern);
  std::va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

}  // namespace dpa4::tools
