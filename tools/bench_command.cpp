// SPDX-License-Identifier: GPL-2.0-or-later
// dpa4 bench: time and memory of steps.
#include <fstream>

#include "src/eager/eager_evaluator.h"
#include "src/engine/bench_cases.h"
#include "src/model/step_bench.h"
#include "src/native/choice.h"
#include "src/native/native_evaluator.h"
#include "tools/commands.h"

namespace dpa4::tools {
namespace {

std::vector<engine::BenchCase> cases_of(const BenchOptions& options, model::Device device) {
  std::vector<engine::BenchCase> cases;
  for (const std::string& word : options.cases) {
    const auto found = engine::parse_bench_case(word);
    if (!found) throw UsageError("PRESET:ATOMS or FILE.pt:ATOMS expected, not " + word);
    cases.push_back(*found);
  }
  return cases.empty() ? engine::usual_bench_cases(device) : cases;
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
  for (const engine::BenchCase& each : cases_of(options, base.device)) {
    const engine::BenchModel model =
        engine::open_bench_model(each.model, engine_options.checkpoint, log);
    model::EvaluatorOptions own = base;
    if (!eager) {
      const native::Choice choice =
          native::choose_arithmetic(model.config, model.weights, base, /*fresh=*/false);
      if (const auto refusal = choice.refusal(base)) throw InputError(each.model + ": " + *refusal);
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
    if (!eager) rows.push_back(bench_step(each.model, model.config, each.atoms, make_native, step));
    if (eager || options.compare_eager) {
      step.operations = false;
      rows.push_back(bench_step(each.model, model.config, each.atoms, make_eager, step));
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
