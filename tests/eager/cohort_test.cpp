// SPDX-License-Identifier: GPL-2.0-or-later
// The cut of the edges into cohorts is not part of the model.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "src/eager/eager_evaluator.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"
#include "tests/native/model_case.h"

namespace dpa4::eager {
namespace {

using model::Evaluation;
using native::testing::expect_same_bits;
using native::testing::ModelCase;

std::unique_ptr<model::Evaluator> make(const model::ModelConfig& config,
                                       const model::Weights& weights, int cohort,
                                       model::Precision precision) {
  model::EvaluatorOptions options;
  options.cohort = cohort;
  options.precision = precision;
  return make_evaluator(config, weights, options);
}

/// Rounding only: a few hundred units in the last place of the largest element.
void expect_close(const Evaluation& a, const Evaluation& b, double relative,
                  const std::string& what) {
  const auto compare = [&](const std::vector<double>& x, const std::vector<double>& y,
                           const char* name) {
    ASSERT_EQ(x.size(), y.size());
    double scale = 0, worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      scale = std::max(scale, std::abs(y[i]));
      worst = std::max(worst, std::abs(x[i] - y[i]));
      ASSERT_TRUE(std::isfinite(x[i])) << what << " " << name;
    }
    EXPECT_LE(worst, relative * scale + 1e-15) << what << " " << name;
  };
  compare({a.energy}, {b.energy}, "energy");
  compare(a.atom_energy, b.atom_energy, "atom energy");
  compare(a.force, b.force, "force");
  compare({a.virial.begin(), a.virial.end()}, {b.virial.begin(), b.virial.end()}, "virial");
  compare(a.atom_virial, b.atom_virial, "atom virial");
}

class Cohorts : public ::testing::TestWithParam<const char*> {};

TEST_P(Cohorts, DoNotChangeTheResult) {
  ModelCase model(std::string("golden/") + GetParam() + ".json");
  for (const auto precision : {model::Precision::kFloat64, model::Precision::kFloat32}) {
    const double relative = precision == model::Precision::kFloat64 ? 1e-12 : 2e-5;
    const auto whole = make(model.config(), model.weights(), 1 << 30, precision);
    for (const tools::ReferenceFrame& frame : model.frames()) {
      const Evaluation expected = model.evaluate(*whole, frame);
      for (int cohort : {37, 8192}) {
        const auto evaluator = make(model.config(), model.weights(), cohort, precision);
        expect_close(model.evaluate(*evaluator, frame), expected, relative,
                     frame.structure.name + ", cohort " + std::to_string(cohort));
      }
    }
  }
}

TEST_P(Cohorts, OfOneEdgeWork) {
  ModelCase model(std::string("golden/") + GetParam() + ".json");
  const tools::ReferenceFrame& frame = model.frames().back();  // a few edges and an isolated atom
  const auto whole = make(model.config(), model.weights(), 1 << 30, model::Precision::kFloat64);
  const auto single = make(model.config(), model.weights(), 1, model::Precision::kFloat64);
  expect_close(model.evaluate(*single, frame), model.evaluate(*whole, frame), 1e-12, "cohort 1");
}

// Attention, no attention, bridging, per-edge grids, depth attention, focus streams.
INSTANTIATE_TEST_SUITE_P(Models, Cohorts,
                         ::testing::Values("neo", "noatten", "zbl", "nodewise_so3", "fullattn",
                                           "heads"),
                         [](const auto& info) { return std::string(info.param); });

/// The first n edges of a random cloud of atoms: any number of edges, including ones that break
/// tilings.
class Cloud {
 public:
  explicit Cloud(double rcut) : graph_(rcut, 2) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> inside(0, 14);
    for (int i = 0; i < kAtoms; ++i) {
      type_.push_back(i % 2);
      for (int a = 0; a < 3; ++a) x_.push_back(inside(random));
    }
    edges_ = graph_.build({x_.data(), kAtoms, 3}, {type_.data(), kAtoms}, graph::Cell::open());
  }

  int n_edges() const { return edges_.n_edges(); }

  Evaluation evaluate(model::Evaluator& evaluator, int n_edges) {
    EXPECT_LE(n_edges, edges_.n_edges());
    std::vector<int> dst_begin, src_begin(kAtoms + 1, 0), by_src;
    for (int i = 0; i <= kAtoms; ++i) dst_begin.push_back(std::min(edges_.dst_begin(i), n_edges));
    for (int i = 0; i < kAtoms; ++i) {
      for (int k = edges_.src_begin(i); k < edges_.src_begin(i + 1); ++k) {
        if (edges_.by_src(k) < n_edges) by_src.push_back(edges_.by_src(k));
      }
      src_begin[static_cast<std::size_t>(i) + 1] = static_cast<int>(by_src.size());
    }
    model::Structure structure;
    structure.type = {type_.data(), kAtoms};
    structure.edges = edges_;
    structure.edges.src = {edges_.src.data(), n_edges};
    structure.edges.dst = {edges_.dst.data(), n_edges};
    structure.edges.vec = {edges_.vec.data(), n_edges, 3};
    structure.edges.dst_begin = {dst_begin.data(), kAtoms + 1};
    structure.edges.src_begin = {src_begin.data(), kAtoms + 1};
    structure.edges.by_src = {by_src.data(), n_edges};
    model::NoHalo halo;
    Evaluation result;
    evaluator.evaluate(structure, {}, halo, {true}, result);
    return result;
  }

 private:
  static constexpr int kAtoms = 420;
  graph::PeriodicGraph graph_;
  std::vector<double> x_;
  std::vector<int> type_;
  graph::EdgeList edges_;
};

TEST(EdgeCounts, OfEarlierCallsLeaveNoTrace) {
  model::ModelConfig config = model::preset("nano", {"Si", "C"});
  const model::Weights weights = model::random_weights(config, 3);
  Cloud cloud(config.rcut);
  ASSERT_GE(cloud.n_edges(), 16385);
  const auto used = make(config, weights, 8192, model::Precision::kFloat64);
  for (int n_edges : {37, 8193, 16385, 0, 1, 31, 32, 33, 4097}) {
    const Evaluation result = cloud.evaluate(*used, n_edges);
    const auto fresh = make(config, weights, 8192, model::Precision::kFloat64);
    expect_same_bits(result, cloud.evaluate(*fresh, n_edges));
    const auto whole = make(config, weights, 1 << 30, model::Precision::kFloat64);
    expect_close(result, cloud.evaluate(*whole, n_edges), 1e-12,
                 std::to_string(n_edges) + " edges");
  }
}

}  // namespace
}  // namespace dpa4::eager
