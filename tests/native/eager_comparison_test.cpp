// SPDX-License-Identifier: GPL-2.0-or-later
// The native engine against the eager one, float64, random weights: combinations of options that no
// golden file has.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "src/eager/eager_evaluator.h"
#include "src/graph/periodic.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"
#include "src/native/native_evaluator.h"

namespace dpa4::native::testing {
namespace {

using model::GridKind;
using model::GridOpKind;
using model::ModelConfig;

struct Variant {
  const char* name;
  const char* preset;
  std::function<void(ModelConfig&)> change;
};

void set_degrees(ModelConfig& config, const std::vector<int>& degrees, int kmax) {
  config.blocks.clear();
  for (int l : degrees) config.blocks.push_back({l, 1, std::min(kmax, l), l});
  config.init_lmax = degrees.front();
  config.readout_lmax = degrees.back();
  config.readout_kmax = std::min(kmax, degrees.back());
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> list = {
      {"plain_mini", "mini", [](ModelConfig&) {}},
      {"decreasing_degrees", "mini",
       [](ModelConfig& c) {
         set_degrees(c, {4, 3, 1}, 1);
       }},
      {"frame_order_2", "mini",
       [](ModelConfig& c) {
         set_degrees(c, {3, 2}, 2);
       }},
      {"frame_order_0", "mini",
       [](ModelConfig& c) {
         set_degrees(c, {2, 2}, 0);
       }},
      {"three_streams_of_eight_channels_two_heads", "neo",
       [](ModelConfig& c) {
         c.n_focus = 3;
         c.focus_dim = 8;
         c.n_heads = 2;
       }},
      {"one_stream_narrower_than_the_node", "mini",
       [](ModelConfig& c) {
         c.focus_dim = 24;
         c.n_heads = 3;
       }},
      {"no_attention_two_streams", "neo", [](ModelConfig& c) { c.n_heads = 0; }},
      {"mixer_rank_3", "mini", [](ModelConfig& c) { c.radial_rank = 3; }},
      {"no_mixer_one_layer", "mini",
       [](ModelConfig& c) {
         c.radial_mode = model::RadialMode::kNone;
         c.mixing_layers = 1;
       }},
      {"mixer_without_layers", "mini", [](ModelConfig& c) { c.mixing_layers = 0; }},
      {"branches_everywhere", "mini",
       [](ModelConfig& c) {
         c.ffn_op = {GridOpKind::kBranch, 3};
         c.message_node_op = {GridOpKind::kBranch, 2};
       }},
      {"mlp_everywhere", "neo",
       [](ModelConfig& c) {
         c.ffn_op = {GridOpKind::kMlp, 0};
         c.message_node_op = {GridOpKind::kMlp, 0};
       }},
      {"s2_grids", "mini",
       [](ModelConfig& c) {
         c.ffn_grid = GridKind::kS2;
         c.ffn_op = {GridOpKind::kBranch, 2};
         c.message_node = GridKind::kNone;
       }},
      {"s2_product_grid", "mini",
       [](ModelConfig& c) {
         c.ffn_grid = GridKind::kS2;
         c.ffn_op = {GridOpKind::kGlu, 0};
         c.lebedev_ffn = false;
       }},
      {"two_ffns_all_norms", "mini",
       [](ModelConfig& c) {
         c.ffn_blocks = 2;
         c.sandwich_norm = {true, true, true, true};
       }},
      {"no_norms", "mini",
       [](ModelConfig& c) {
         c.sandwich_norm = {false, false, false, false};
       }},
      {"post_norms_only", "mini",
       [](ModelConfig& c) {
         c.sandwich_norm = {false, true, false, true};
       }},
      {"edge_norms_all", "neo",
       [](ModelConfig& c) { c.edge_norm_radial = c.edge_norm_film = c.edge_norm_focus = true; }},
      {"edge_norm_focus_only", "neo",
       [](ModelConfig& c) {
         c.edge_norm_radial = c.edge_norm_film = false;
         c.edge_norm_focus = true;
       }},
      {"scalar_readout_two_layers", "mini",
       [](ModelConfig& c) {
         c.readout_grid = GridKind::kNone;
         c.readout_layers = 2;
       }},
      {"scalar_readout_without_gate", "mini",
       [](ModelConfig& c) {
         c.readout_grid = GridKind::kNone;
         c.glu_activation = false;
         c.readout_neurons = 128;
       }},
      {"glu_readout_three_layers", "mini",
       [](ModelConfig& c) {
         c.readout_op = {GridOpKind::kGlu, 0};
         c.readout_layers = 3;
       }},
      {"gaussian_basis_bare", "mini",
       [](ModelConfig& c) {
         c.basis = model::Basis::kGaussian;
         c.basis_env_exp = 0;
         c.edge_env_exp = 3;
       }},
      {"two_radial_layers", "mini",
       [](ModelConfig& c) {
         c.radial_mlp = {24, 40};
       }},
      {"no_radial_layers", "mini", [](ModelConfig& c) { c.radial_mlp = {}; }},
      {"format_1_0", "mini", [](ModelConfig& c) { c.format_version = 1.0; }},
      {"no_seed", "mini", [](ModelConfig& c) { c.use_env_seed = false; }},
      {"wide_seed", "mini",
       [](ModelConfig& c) {
         c.channels = 72;
         c.focus_dim = 72;
       }},
      {"excluded_types", "mini",
       [](ModelConfig& c) {
         c.exclude_types = {{0, 1}};
         c.atom_exclude_types = {1};
         c.fitting_exclude_types = {0};
       }},
      {"bridged", "neo",
       [](ModelConfig& c) {
         c.bridging_zbl = true;
         c.bridging_r_inner = 1.2;
         c.bridging_r_outer = 2.2;
         c.atom_exclude_types = {1};
       }},
      {"deep_fitting_with_case_and_bias", "mini",
       [](ModelConfig& c) {
         c.fitting_neuron = {40, 24, 16};
         c.dim_case_embd = 3;
         c.bias_out = true;
       }},
      {"isolated_atoms_are_zero", "mini", [](ModelConfig& c) { c.vacuum_ref = true; }},
      {"isolated_atoms_with_charge", "mini",
       [](ModelConfig& c) {
         c.vacuum_ref = true;
         c.add_chg_spin_ebd = true;
         c.default_chg_spin = {{-1, 2}};
       }},
      {"pro_of_few_channels", "pro",
       [](ModelConfig& c) {
         c.channels = c.focus_dim = 16;
         c.ffn_neurons = c.readout_neurons = 32;
         c.blocks.resize(2);
       }},
      {"ultra_of_few_channels", "ultra",
       [](ModelConfig& c) {
         c.channels = c.focus_dim = 16;
         c.ffn_neurons = c.readout_neurons = 32;
         c.blocks.resize(2);
       }},
  };
  return list;
}

class EagerComparison : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EagerComparison, EnginesAgree) {
  const Variant& variant = variants()[GetParam()];
  ModelConfig config = model::preset(variant.preset, {"Si", "C", "O"});
  config.rcut = 4.5;
  variant.change(config);
  ASSERT_EQ(unsupported_option(config).value_or(""), "");
  const model::Weights weights = model::random_weights(config, 17);
  constexpr int kAtoms = 11;
  std::vector<double> x;
  std::vector<int> type;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> shift(-0.4, 0.4);
  for (int i = 0; i < kAtoms; ++i) {
    for (int a = 0; a < 3; ++a)
      x.push_back(2.1 * ((i >> a) & 1) + (a == 0 ? 4.2 * (i / 8) : 0) + shift(random));
    type.push_back(i % 3);
  }
  graph::PeriodicGraph graph(config.rcut, 3, config.exclude_types);
  model::Structure structure;
  structure.type = {type.data(), kAtoms};
  structure.edges =
      graph.build({x.data(), kAtoms, 3}, structure.type,
                  graph::Cell::periodic_3d({{{7.1, 0, 0}, {0.4, 4.9, 0}, {-0.3, 0.2, 5.2}}}));
  model::EvaluatorOptions options;
  options.precision = model::Precision::kFloat64;
  model::NoHalo halo;
  model::Evaluation expected, result;
  eager::make_evaluator(config, weights, options)->evaluate(structure, {}, halo, {true}, expected);
  make_evaluator(config, weights, options)->evaluate(structure, {}, halo, {true}, result);

  const auto near = [](const std::vector<double>& a, const std::vector<double>& b,
                       const char* what) {
    ASSERT_EQ(a.size(), b.size());
    double scale = 1;
    for (double v : b) scale = std::max(scale, std::abs(v));
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 1e-10 * scale) << what << " " << i;
    }
  };
  EXPECT_NEAR(result.energy, expected.energy, 1e-10 * (1 + std::abs(expected.energy)));
  near(result.atom_energy, expected.atom_energy, "atom energy");
  near(result.force, expected.force, "force");
  near({result.virial.begin(), result.virial.end()},
       {expected.virial.begin(), expected.virial.end()}, "virial");
  near(result.atom_virial, expected.atom_virial, "atom virial");
}

INSTANTIATE_TEST_SUITE_P(All, EagerComparison, ::testing::Range(std::size_t{0}, variants().size()),
                         [](const auto& info) { return std::string(variants()[info.param].name); });

}  // namespace
}  // namespace dpa4::native::testing
