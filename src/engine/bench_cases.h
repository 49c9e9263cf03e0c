// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/logger.h"
#include "src/io/checkpoint.h"
#include "src/model/evaluator.h"
#include "src/model/model_config.h"
#include "src/model/weights.h"

/// What the benches of steps run.
namespace dpa4::engine {

/// A model, preset or checkpoint file, on so many atoms.
struct BenchCase {
  std::string model;
  int atoms = 0;
};

/// Reads "PRESET:ATOMS" or "FILE.pt:ATOMS"; nothing if the word is neither.
std::optional<BenchCase> parse_bench_case(const std::string& word);

/// The cases of the tables in doc/performance.md; few and small ones for CPUs.
std::vector<BenchCase> usual_bench_cases(model::Device device);

struct BenchModel {
  model::ModelConfig config;
  model::Weights weights;
};

/// A preset for carbon with random weights, or the model of a file. Throws InputError.
BenchModel open_bench_model(const std::string& model, const io::CheckpointOptions& options,
                            Logger& log);

}  // namespace dpa4::engine
