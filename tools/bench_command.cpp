// SPDX-License-Identifier: GPL-2.0-or-later
// dpa4 bench: time and memory of steps.
#include <algorithm>
#include <fstream>

#include "src/eager/eager_evaluator.h"
#include "src/io/checkpoint.h"
#include "src/model/presets.h"
#include "src/model/step_bench.h"
#include "src/model/weight_schema.h"
#include "src/native/choice.h"
#include "src/native/native_evaluator.h"
#include "tools/commands.h"

namespace dpa4::tools {
namespace {

struct Case {
  std::string name;  // preset or file
  int atoms = 0;
};

std::vector<Case> cases_of(const BenchOptions& options, bool cuda) {
  std::vector<Case> cases;
  for (const std::string& word : options.cases) {
    const std::size_t colon = word.rfind(':');
    const std::string digits = colon == std::string::npos ? "" : word.substr(colon + 1);
    if (digits.empty() || digits.size() > 8 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      throw UsageError("PRESET:ATOMS or FILE.pt:ATOMS expected, not " + word);
    }
    cases.push_back({word.substr(0, colon), std::max(1, std::stoi(digits))});
  }
  if (!cases.empty()) return cases;
  if (!cuda) return {{"nano", 216}, {"mini", 216}, {"neo", 216}};
  return {{"nano", 8000}, {"mini", 8000}, {"neo", 4096}, {"air", 4096},
          {"plus", 1728}, {"pro", 1000},  {"neo", 1000}, {"nano", 64},
          {"mini", 64},   {"neo", 64},    {"air", 64}};
}

struct Model {
  model::ModelConfig config;
  model::Weights weights;
};

Model open(const std::string& name, const io::CheckpointOptions& options, Logger& log) {
  const auto& presets = model::preset_names();
  if (std::find(presets.begin(), presets.end(), name) == presets.end()) {
    io::Checkpoint checkpoint = io::read_checkpoint(name, options, log);
    return {std::move(checkpoint.config), std::move(checkpoint.weights)};
  }
  Model made{model::preset(name, {"C"}), {}};
  made.weights = model::random_weights(made.config, 1);
  return made;
}

}  // namespace

ExitCode run_bench(const BenchOptions& options, std::ostream& out, Logger& log) {
  const engine::EngineOptions engine_options = to_engine_options(options.run);
  model::EvaluatorOptions base = engine_options.evaluator;
  if (engine_options.auto_device) {
    base.device = native::cuda_devices() > 0 ? model::Device::kCuda : model::Device::kCpu;
  }
  const bool cuda = base.device == model::Device::kCuda;
  const bool eager = engine_options.engine == engine::Engine::kEager;
  const std::string machine = native::machine_info(base).name;
  std::vector<model::StepBench> rows;
  std::string arithmetic = eager ? "eager" : base.arithmetic;
  for (const Case& each : cases_of(options, cuda)) {
    const Model model = open(each.name, engine_options.checkpoint, log);
    model::EvaluatorOptions own = base;
    if (!eager) {
      const native::Choice choice =
          native::choose_arithmetic(model.config, model.weights, base, /*fresh=*/false);
      if (const auto refusal = choice.refusal(base)) throw InputError(each.name + ": " + *refusal);
      arithmetic = own.arithmetic = choice.name;
    }
    model::StepBenchOptions step;
    step.repeats = options.repeat;
    step.operations = options.operations && !eager;
    step.used_bytes = [&] {
      return cuda ? -native::machine_info(base).free_bytes : model::resident_bytes();
    };
    const auto make_native = [&](bool profile) {
      own.profile = profile;
      return native::make_evaluator(model.config, model.weights, own);
    };
    const auto make_eager = [&](bool) {
      return eager::make_evaluator(model.config, model.weights, own);
    };
    if (!eager) rows.push_back(bench_step(each.name, model.config, each.atoms, make_native, step));
    if (eager || options.compare_eager) {
      step.operations = false;
      rows.push_back(bench_step(each.name, model.config, each.atoms, make_eager, step));
      rows.back().model += eager ? "" : " (eager)";
    }
  }
  const model::MachinePeak peak = model::machine_peak(
      machine, base.precision == model::Precision::kFloat64, arithmetic == "split");
  out << machine << ", " << options.run.precision << ", " << arithmetic << ", memory "
      << options.run.memory << "\n";
  print_table(out, rows, peak);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    print_json(file, machine, options.run.precision + " " + arithmetic, options.run.memory, rows,
               peak);
    if (!file) throw InputError("cannot write " + options.json);
  }
  return kSuccess;
}

}  // namespace dpa4::tools
