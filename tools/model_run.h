// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "src/base/logger.h"
#include "src/engine/engine.h"
#include "src/graph/periodic.h"
#include "src/model/evaluator.h"
#include "tools/structure.h"

namespace dpa4::tools {

struct RunResult {
  model::Evaluation evaluation;
  int n_edges = 0;
};

/// A model and the edges of the structures it is given, one structure at a time.
class ModelRun {
 public:
  /// Throws InputError.
  ModelRun(const std::string& path, const engine::EngineOptions& options, Logger& log);

  /// Throws InputError: an element the model does not know; conditions it lacks or does not take.
  RunResult evaluate(const Structure& structure, model::Request request);

  const engine::LoadedModel& model() const { return model_; }

 private:
  std::vector<int> types_of(const Structure& structure) const;
  model::Conditions conditions_of(const Structure& structure) const;
  TensorView<const double, 2> aparam_of(const Structure& structure) const;

  std::string path_;
  engine::LoadedModel model_;
  graph::PeriodicGraph graph_;
};

}  // namespace dpa4::tools
