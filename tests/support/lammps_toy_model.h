// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/engine/engine.h"
#include "src/model/evaluator.h"

namespace dpa4::test {

/// A small potential with everything that makes a message-passing model hard for a pair style:
/// features of neighbors' neighbors (so one exchange of node rows forward and its transpose
/// backward), forces that are not along the edges, three elements, conditions, any row width.
/// Derivatives are analytic.
///
///   d_n = sum_e a(src) w(r_e),  q_n = sum_e a(src) w(r_e) vec_e       edges e into n, w = (1 -
///   r2/rc2)^3 E_n = e0(n) + d_n^2 / 2 + sum_e b(n) w(r_e) (d_src + q_src . vec_e)
///
/// e0 also holds the conditions: fparam[0] + 10 fparam[1] + charge + 100 spin + aparam[0].
class ToyEvaluator final : public model::Evaluator {
 public:
  /// @param copies  how often the four features of a node stand in its row: the row width is
  ///                4 copies + 1, and every column matters
  ToyEvaluator(double rcut, model::Precision precision, int copies, bool fails);

  void evaluate(const model::Structure& structure, const model::Conditions& conditions,
                model::HaloExchange& halo, model::Request request,
                model::Evaluation& result) override;
  std::string description() const override { return "toy"; }
  model::MemoryPlan memory_plan() const override;

 private:
  template <class Real>
  void evaluate_as(const model::Structure& structure, const model::Conditions& conditions,
                   model::HaloExchange& halo, model::Request request, model::Evaluation& result);

  double squared_cutoff_;
  model::Precision precision_;
  int copies_;
  bool fails_;
};

/// Elements of every toy model, and its cutoff [Angstrom].
inline const std::vector<std::string> kToyElements{"Aa", "Bb", "Cc"};
inline constexpr double kToyCutoff = 4.0;

/// engine::load for toys. The last part of the path names the model:
///   toy        rows of 161 numbers           toy.wide       rows of 805: several slices
///   toy.exclude  no edges between Aa and Bb   toy.fparam     wants two fparam
///   toy.aparam   wants one aparam             toy.charge     depends on charge (default 0) and
///   spin (no default) toy.throw    evaluate throws              others         InputError
engine::LoadedModel load_toy(const std::string& path, const engine::EngineOptions& options,
                             Logger& log);

std::vector<std::string> toy_start_report(const engine::LoadedModel& model);

}  // namespace dpa4::test
