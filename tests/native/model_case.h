// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/graph/periodic.h"
#include "src/io/checkpoint.h"
#include "src/model/acceptance.h"
#include "src/native/native_evaluator.h"
#include "tools/reference_file.h"

namespace dpa4::native::testing {

inline std::string data_path(const std::string& relative) {
  return std::string(DPA4_SOURCE_DIR) + "/" + relative;
}

/// Every model of tests/data/golden that the engine covers.
inline constexpr const char* kCoveredGolden[] = {"air",
                                                 "chgspin",
                                                 "exclude",
                                                 "fit2",
                                                 "fparam",
                                                 "gridmlp",
                                                 "max",
                                                 "mini",
                                                 "mini_prenorm",
                                                 "mptrj_pro",
                                                 "mptrj_pro2",
                                                 "nano",
                                                 "neo",
                                                 "neo_edgenorm",
                                                 "noatten",
                                                 "noseed",
                                                 "plus",
                                                 "pro",
                                                 "ultra",
                                                 "zbl",
                                                 "zeroblocks",
                                                 "pt_expt/chgspin",
                                                 "pt_expt/exclude",
                                                 "pt_expt/fit2",
                                                 "pt_expt/fparam",
                                                 "pt_expt/mini",
                                                 "pt_expt/nano",
                                                 "pt_expt/neo"};

/// A model file and structures with known results.
class ModelCase {
 public:
  /// `reference`: a file of tests/data, for example "golden/mini.json".
  explicit ModelCase(const std::string& reference);

  const model::ModelConfig& config() const { return checkpoint_.config; }
  const model::Weights& weights() const { return checkpoint_.weights; }
  const std::vector<tools::ReferenceFrame>& frames() const { return file_.frames; }

  std::unique_ptr<model::Evaluator> make(const model::EvaluatorOptions& options) const;
  model::Evaluation evaluate(model::Evaluator& evaluator, const tools::ReferenceFrame& frame);
  int last_edges() const { return n_edges_; }

 private:
  tools::ReferenceFile file_;
  io::Checkpoint checkpoint_;
  graph::PeriodicGraph graph_;
  int n_edges_ = 0;
};

/// Fails the running test where a result is outside the acceptance of its precision.
void expect_accepted(const model::Evaluation& result, const tools::ReferenceResult& reference,
                     model::Precision precision, const std::string& what);

/// Fails the running test unless all results have the same bits.
void expect_same_bits(const model::Evaluation& a, const model::Evaluation& b);

}  // namespace dpa4::native::testing
