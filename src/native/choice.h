// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/model/evaluator.h"
#include "src/model/model_config.h"
#include "src/model/weights.h"

namespace dpa4::native {

/// A candidate, as measured: kernels of one name on a synthetic structure.
struct Measured {
  std::string name;
  double seconds = 0;  // of a step
  double error = 0;    // largest deviation from float64 over what is accepted of this precision
  bool accepted() const { return error <= 1; }
};

struct Choice {
  std::string name;                // the winner; empty if none is accurate enough
  std::vector<Measured> measured;  // empty if there was nothing to choose
  bool recorded = false;           // taken from the record of an earlier choice
  /// One line for the log: what won and by how much; empty if there was nothing to choose.
  std::string summary() const;
  /// Why there is no winner and what the user can do; nothing if there is one.
  std::optional<std::string> refusal(const model::EvaluatorOptions& options) const;
};

/// Chooses the kernels for a model: those that `options.arithmetic` names, the recorded winner, or
/// on a device the fastest of those whose error is accepted, which the first time takes seconds,
/// and on a processor the widest instructions. `fresh` measures whatever there is. Where none is
/// accepted the choice has a refusal in place of a name: the model must not run with these.
Choice choose_arithmetic(const model::ModelConfig& config, const model::Weights& weights,
                         const model::EvaluatorOptions& options, bool fresh);

/// The fastest accepted one, or null.
const Measured* best_of(const std::vector<Measured>& measured);

/// Choices of earlier runs, one line each in a small file of the user. Reading and writing never
/// fail: a file that is not there, not ours or being written by others is as good as an empty one.
class ChoiceRecord {
 public:
  /// `path` empty: the default, in the user's cache folder.
  explicit ChoiceRecord(std::string path = "");

  std::optional<std::vector<Measured>> find(const std::string& key) const;
  void store(const std::string& key, const std::vector<Measured>& measured) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dpa4::native
