// SPDX-License-Identifier: GPL-2.0-or-later
// How options become a ModelConfig: defaults, automatic values, every accepted spelling, and what
// is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/io/checkpoint.h"
#include "src/io/config_reader.h"
#include "src/io/pickle.h"
#include "src/model/presets.h"
#include "tests/support/pickle_writer.h"

namespace dpa4::io {
namespace {

using dpa4::testing::Py;
using model::ModelConfig;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kTensors = 200;

ModelConfig config_of(const Py& params, double format = 1.2) {
  const auto document = pickle::parse(dpa4::testing::pickle(params), "model.pt");
  const Options options("model.pt", "", &document->root().dict());
  require_dpa4_energy_model(options);
  return read_config(options, format, kTensors);
}

std::string refusal_of(const Py& params, double format = 1.2) {
  try {
    config_of(params, format);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

/// The shortest options that make a model.
Py minimal() { return Py::dict({{"type", "dpa4"}, {"type_map", Py::list({"Si", "C", "O"})}}); }

Py with_descriptor(const std::string& key, const Py& value) {
  Py params = minimal();
  params["descriptor"] = Py::dict({{key, value}});
  return params;
}

Py with_fitting(const std::string& key, const Py& value) {
  Py params = minimal();
  params["fitting_net"] = Py::dict({{key, value}});
  return params;
}

Py with_model(const std::string& key, const Py& value) {
  Py params = minimal();
  params[key] = value;
  return params;
}

ModelConfig descriptor(const std::string& key, const Py& value) {
  return config_of(with_descriptor(key, value));
}

// ----- defaults

TEST(ConfigDefaults, AreThoseOfTheReference) {
  const ModelConfig c = config_of(minimal());
  EXPECT_THAT(c.type_map, ElementsAre("Si", "C", "O"));
  EXPECT_EQ(c.rcut, 6.0);
  EXPECT_EQ(c.basis_env_exp, 7);
  EXPECT_EQ(c.edge_env_exp, 5);
  EXPECT_EQ(c.basis, model::Basis::kBessel);
  EXPECT_EQ(c.n_radial, 16);
  EXPECT_THAT(c.radial_mlp, ElementsAre(64));
  EXPECT_TRUE(c.edge_norm_radial && c.edge_norm_film && c.edge_norm_focus);
  EXPECT_EQ(c.eps, 1e-7);
  EXPECT_EQ(c.channels, 64);
  ASSERT_EQ(c.blocks.size(), 3u);
  for (const model::BlockShape& block : c.blocks) {
    EXPECT_EQ(block.lmax, 3);
    EXPECT_EQ(block.mmax, 1);
    EXPECT_EQ(block.kmax, 1);
    EXPECT_EQ(block.node_lmax, 3);
  }
  EXPECT_EQ(c.init_lmax, 3);
  EXPECT_EQ(c.readout_lmax, 3);
  EXPECT_EQ(c.readout_kmax, 1);
  EXPECT_EQ(c.precision, model::FloatType::kFloat32);
  EXPECT_EQ(c.activation.kind, model::ActivationKind::kSilu);
  EXPECT_FALSE(c.mlp_bias || c.layer_scale);
  EXPECT_TRUE(c.use_env_seed);
  EXPECT_EQ(c.mixing_layers, 4);
  EXPECT_EQ(c.radial_mode, model::RadialMode::kDegreeChannel);
  EXPECT_EQ(c.radial_rank, 1);
  EXPECT_EQ(c.n_focus, 1);
  EXPECT_EQ(c.focus_dim, 64);
  EXPECT_EQ(c.n_heads, 1);
  EXPECT_EQ(c.node_wise, model::GridKind::kNone);
  EXPECT_EQ(c.message_node, model::GridKind::kNone);
  EXPECT_THAT(c.sandwich_norm, ElementsAre(false, true, true, false));
  EXPECT_EQ(c.ffn_grid, model::GridKind::kS2);
  EXPECT_FALSE(c.s2_activation_so2);
  EXPECT_EQ(c.ffn_neurons, 192);
  EXPECT_EQ(c.readout_neurons, 192);
  EXPECT_EQ(c.readout_grid, model::GridKind::kNone);
  EXPECT_TRUE(c.lebedev_so2 && c.lebedev_ffn && c.glu_activation);
  EXPECT_THAT(c.exclude_types, IsEmpty());
  EXPECT_FALSE(c.bridging_zbl);
  EXPECT_THAT(c.fitting_neuron, ElementsAre(192));
  EXPECT_EQ(c.fitting_precision, model::FloatType::kFloat32);
  EXPECT_FALSE(c.vacuum_ref || c.subtract_zero_descriptor || c.bias_out);
}

TEST(ConfigDefaults, NoneMeansAbsent) {
  const std::vector<std::string> keys = {
      "env_exp",          "radial_mlp",    "l_schedule", "m_schedule",
      "sandwich_norm",    "s2_activation", "so2_layers", "lebedev_quadrature",
      "default_chg_spin", "exclude_types", "channels"};
  Py params = with_descriptor("seed", Py());
  for (const std::string& key : keys) params["descriptor"][key] = Py();
  const ModelConfig c = config_of(params);
  EXPECT_EQ(c.channels, 64);
  EXPECT_EQ(c.mixing_layers, 4);
  EXPECT_EQ(c.blocks.size(), 3u);
}

// ----- spellings

TEST(ConfigForms, EnvelopeExponents) {
  const auto exponents = [](const Py& value) {
    const ModelConfig c = descriptor("env_exp", value);
    return std::vector<int>{c.basis_env_exp, c.edge_env_exp};
  };
  EXPECT_THAT(exponents(Py::list({6, 4})), ElementsAre(6, 4));
  EXPECT_THAT(exponents(Py::list({0, 5})), ElementsAre(0, 5));
  EXPECT_THAT(exponents(5), ElementsAre(0, 5));
  EXPECT_THAT(refusal_of(with_descriptor("env_exp", 5), 1.0), HasSubstr("env_exp = 5"));
  EXPECT_EQ(refusal_of(with_descriptor("env_exp", 5), 1.1), "accepted");
}

TEST(ConfigForms, EdgeNorm) {
  const auto norms = [](const Py& value) {
    const ModelConfig c = descriptor("edge_norm", value);
    return std::vector<bool>{c.edge_norm_radial, c.edge_norm_film, c.edge_norm_focus};
  };
  EXPECT_THAT(norms(true), ElementsAre(true, true, true));
  EXPECT_THAT(norms(false), ElementsAre(false, false, false));
  EXPECT_THAT(norms(Py::list({false, true, true})), ElementsAre(false, true, true));
}

TEST(ConfigForms, Basis) {
  EXPECT_EQ(descriptor("basis_type", "Gaussian").basis, model::Basis::kGaussian);
  EXPECT_EQ(descriptor("basis_type", "gaussian/fix").basis, model::Basis::kGaussian);
  EXPECT_EQ(descriptor("basis_type", "bessel/fix").basis, model::Basis::kBessel);
}

TEST(ConfigForms, OlderNameOfMixingLayersWins) {
  Py params = with_descriptor("mixing_layers", 2);
  EXPECT_EQ(config_of(params).mixing_layers, 2);
  params["descriptor"]["so2_layers"] = 3;
  EXPECT_EQ(config_of(params).mixing_layers, 3);
}

TEST(ConfigForms, GridOperations) {
  const auto ops = [](const std::string& key, const Py& value) {
    Py params = with_descriptor(key, value);
    params["descriptor"]["node_wise_s2"] = true;
    params["descriptor"]["message_node_so3"] = true;
    const ModelConfig c = config_of(params);
    return std::vector<model::GridOpKind>{c.node_wise_op.kind, c.message_node_op.kind,
                                          c.ffn_op.kind};
  };
  const auto glu = model::GridOpKind::kGlu;
  const auto mlp = model::GridOpKind::kMlp;
  const auto branch = model::GridOpKind::kBranch;
  EXPECT_THAT(ops("grid_mlp", true), ElementsAre(mlp, mlp, mlp));
  EXPECT_THAT(ops("grid_mlp", Py::list({false, true, false})), ElementsAre(glu, mlp, glu));
  EXPECT_THAT(ops("grid_branch", 2), ElementsAre(branch, branch, branch));
  EXPECT_THAT(ops("grid_branch", Py::list({0, 0, 1})), ElementsAre(glu, glu, branch));
}

TEST(ConfigForms, BranchesWinOverGridMlp) {
  Py params = with_descriptor("grid_mlp", true);
  params["descriptor"]["grid_branch"] = 3;
  const ModelConfig c = config_of(params);
  EXPECT_EQ(c.ffn_op.kind, model::GridOpKind::kBranch);
  EXPECT_EQ(c.ffn_op.branches, 3);
}

TEST(ConfigForms, NodeCartesian) {
  const auto parse = [](const Py& value) {
    const ModelConfig c = descriptor("node_cartesian", value);
    return std::pair(c.node_cartesian, c.node_cartesian_layers);
  };
  using model::NodeCartesian;
  EXPECT_EQ(parse("none"), std::pair(NodeCartesian::kNone, 0));
  EXPECT_EQ(parse(""), std::pair(NodeCartesian::kNone, 0));
  EXPECT_EQ(parse(0), std::pair(NodeCartesian::kNone, 0));
  EXPECT_EQ(parse("parity:0"), std::pair(NodeCartesian::kNone, 0));
  EXPECT_EQ(parse(2), std::pair(NodeCartesian::kDefault, 2));
  EXPECT_EQ(parse("2"), std::pair(NodeCartesian::kDefault, 2));
  EXPECT_EQ(parse("default:3"), std::pair(NodeCartesian::kDefault, 3));
  EXPECT_EQ(parse("Parity : 2"), std::pair(NodeCartesian::kParity, 2));
  EXPECT_EQ(parse("parity"), std::pair(NodeCartesian::kParity, 1));
}

TEST(ConfigForms, Activations) {
  using model::ActivationKind;
  const auto parse = [](const char* name) {
    return descriptor("activation_function", name).activation;
  };
  EXPECT_EQ(parse("SiLU").kind, ActivationKind::kSilu);
  EXPECT_EQ(parse("gelu_tf").kind, ActivationKind::kGelu);
  EXPECT_EQ(parse("none").kind, ActivationKind::kLinear);
  EXPECT_EQ(parse("silut").threshold, 3.0);
  EXPECT_EQ(parse("silut:2.5").threshold, 2.5);
  EXPECT_EQ(parse("custom_silu:10").kind, ActivationKind::kSilut);
}

TEST(ConfigForms, Precisions) {
  using model::FloatType;
  const auto parse = [](const char* name) { return descriptor("precision", name).precision; };
  EXPECT_EQ(parse("single"), FloatType::kFloat32);
  EXPECT_EQ(parse("default"), FloatType::kFloat64);
  EXPECT_EQ(parse("double"), FloatType::kFloat64);
  EXPECT_EQ(parse("half"), FloatType::kFloat16);
  EXPECT_EQ(parse("bfloat16"), FloatType::kBFloat16);
}

TEST(ConfigForms, LebedevQuadrature) {
  const ModelConfig off = descriptor("lebedev_quadrature", false);
  EXPECT_FALSE(off.lebedev_so2 || off.lebedev_ffn);
  const ModelConfig mixed = descriptor("lebedev_quadrature", Py::list({true, false}));
  EXPECT_TRUE(mixed.lebedev_so2);
  EXPECT_FALSE(mixed.lebedev_ffn);
}

TEST(ConfigForms, TypeNamesAreComparedWithoutCase) {
  for (const char* name : {"dpa4", "DPA4", "SeZM", "sezm", "dpa4_ener"}) {
    EXPECT_EQ(refusal_of(with_model("type", name)), "accepted") << name;
  }
  Py standard = minimal();
  standard["type"] = "standard";
  standard["descriptor"] = Py::dict({{"type", "SeZM"}});
  standard["fitting_net"] = Py::dict({{"type", "sezm_ener"}});
  EXPECT_EQ(refusal_of(standard), "accepted");
  standard.erase("type");
  EXPECT_EQ(refusal_of(standard), "accepted");
}

TEST(ConfigForms, LeftoversOfTrainingAreIgnored) {
  Py params = minimal();
  for (const char* key : {"use_compile", "enable_tf32", "hessian_mode"}) params[key] = false;
  for (const char* key : {"use_srtab", "modifier", "compress", "type_embedding", "lora", "spin"}) {
    params[key] = Py();
  }
  params["info"] = Py::dict();
  params["bridging_method"] = "None";
  params["bridging_r_inner"] = 0.5;
  params["descriptor"] = Py::dict({{"sel", "auto"},
                                   {"random_gamma", true},
                                   {"seed", Py::list({1, 2})},
                                   {"s2_grid_resolution", Py::list({4, 4})}});
  EXPECT_EQ(refusal_of(params), "accepted");
}

// ----- automatic values

TEST(ConfigResolution, Schedules) {
  Py params = with_descriptor("l_schedule", Py::list({4, 2, 0}));
  params["descriptor"]["extra_node_l"] = 1;
  params["descriptor"]["kmax"] = 3;
  params["descriptor"]["mmax"] = 2;
  const ModelConfig c = config_of(params);
  ASSERT_EQ(c.blocks.size(), 3u);
  EXPECT_EQ(c.blocks[0].mmax, 2);
  EXPECT_EQ(c.blocks[0].kmax, 3);
  EXPECT_EQ(c.blocks[0].node_lmax, 5);
  EXPECT_EQ(c.blocks[1].kmax, 2);
  EXPECT_EQ(c.blocks[2].lmax, 0);
  EXPECT_EQ(c.blocks[2].mmax, 0);
  EXPECT_EQ(c.blocks[2].node_lmax, 1);
  EXPECT_EQ(c.init_lmax, 5);
  EXPECT_EQ(c.readout_lmax, 1);
  EXPECT_EQ(c.readout_kmax, 1);
}

TEST(ConfigResolution, FullOrderIsAskedForByNone) {
  EXPECT_EQ(descriptor("mmax", Py()).blocks[0].mmax, 3);
  EXPECT_EQ(config_of(minimal()).blocks[0].mmax, 1);
}

TEST(ConfigResolution, NoBlocksKeepTheConfiguredDegree) {
  const ModelConfig c = descriptor("n_blocks", 0);
  EXPECT_THAT(c.blocks, IsEmpty());
  EXPECT_EQ(c.init_lmax, 3);
  EXPECT_EQ(c.readout_lmax, 3);
}

TEST(ConfigResolution, FeedForwardWidths) {
  Py params = with_descriptor("glu_activation", false);
  params["descriptor"]["channels"] = 32;
  // The block's grid is gated whatever the option says; the read-out follows the option.
  EXPECT_EQ(config_of(params).ffn_neurons, 96);
  EXPECT_EQ(config_of(params).readout_neurons, 128);
  params["descriptor"]["s2_activation"] = Py::list({false, false});
  EXPECT_EQ(config_of(params).ffn_neurons, 128);
  params["descriptor"]["ffn_so3_grid"] = true;
  EXPECT_EQ(config_of(params).ffn_neurons, 96);
  EXPECT_EQ(config_of(params).ffn_grid, model::GridKind::kSO3);
  params["descriptor"]["ffn_neurons"] = 7;
  EXPECT_EQ(config_of(params).ffn_neurons, 7);
  for (const auto& [channels, width] :
       {std::pair(64, 192), std::pair(96, 256), std::pair(128, 352)}) {
    EXPECT_EQ(descriptor("channels", channels).ffn_neurons, width);
  }
}

TEST(ConfigResolution, FittingWidths) {
  Py params = with_fitting("neuron", Py::list({0, 7, 0}));
  EXPECT_THAT(config_of(params).fitting_neuron, ElementsAre(192, 7, 192));
  params["fitting_net"]["numb_fparam"] = 30;
  params["fitting_net"]["numb_aparam"] = 2;
  params["fitting_net"]["dim_case_embd"] = 4;
  EXPECT_THAT(config_of(params).fitting_neuron, ElementsAre(288, 7, 288));  // 8/3 * 100
  params["fitting_net"]["case_film_embd"] = true;
  params["fitting_net"]["use_aparam_as_mask"] = true;
  EXPECT_THAT(config_of(params).fitting_neuron, ElementsAre(256, 7, 256));  // 8/3 * 94
  EXPECT_THAT(config_of(with_fitting("neuron", Py::list())).fitting_neuron, IsEmpty());
}

TEST(ConfigResolution, So3GridsWinOverS2Grids) {
  Py params = with_descriptor("node_wise_s2", true);
  params["descriptor"]["node_wise_so3"] = true;
  params["descriptor"]["message_node_s2"] = true;
  const ModelConfig c = config_of(params);
  EXPECT_EQ(c.node_wise, model::GridKind::kSO3);
  EXPECT_EQ(c.message_node, model::GridKind::kS2);
}

TEST(ConfigResolution, Exclusions) {
  Py params = with_descriptor("exclude_types", Py::list({Py::list({0, 1})}));
  EXPECT_THAT(config_of(params).exclude_types, ElementsAre(std::pair(0, 1)));
  params["pair_exclude_types"] = Py::list({Py::list({0, 1})});
  EXPECT_THAT(config_of(params).exclude_types, ElementsAre(std::pair(0, 1)));
  params["pair_exclude_types"] = Py::list();
  EXPECT_THAT(refusal_of(params), HasSubstr("pair_exclude_types"));
  EXPECT_THAT(config_of(with_model("atom_exclude_types", Py::list({2}))).atom_exclude_types,
              ElementsAre(2));
}

TEST(ConfigResolution, ZeroDescriptorIsSubtractedOnlyWithAnEntry) {
  EXPECT_FALSE(config_of(with_fitting("atom_ener", Py::list())).subtract_zero_descriptor);
  EXPECT_FALSE(
      config_of(with_fitting("atom_ener", Py::list({Py(), Py()}))).subtract_zero_descriptor);
  EXPECT_TRUE(config_of(with_fitting("atom_ener", Py::list({Py(), 0.5}))).subtract_zero_descriptor);
}

TEST(ConfigResolution, VacuumReferenceNeedsAPresetBias) {
  Py params = with_fitting("vacuum_ref", true);
  EXPECT_FALSE(config_of(params).vacuum_ref);
  params["preset_out_bias"] = Py::dict({{"energy", Py::list({Py(), Py(), Py()})}});
  EXPECT_FALSE(config_of(params).vacuum_ref);
  params["preset_out_bias"] = Py::dict({{"energy", Py::list({Py(), -3.0, Py()})}});
  EXPECT_TRUE(config_of(params).vacuum_ref);
}

TEST(ConfigResolution, ChargeAndSpin) {
  Py params = with_descriptor("add_chg_spin_ebd", true);
  EXPECT_FALSE(config_of(params).default_chg_spin.has_value());
  params["descriptor"]["default_chg_spin"] = Py::list({-1, 2});
  EXPECT_THAT(*config_of(params).default_chg_spin, ElementsAre(-1, 2));
}

// ----- bridging

Py bridged(const char* method) {
  Py params = minimal();
  params["bridging_method"] = method;
  params["bridging_r_inner"] = 0.7;
  params["bridging_r_outer"] = 1.1;
  return params;
}

TEST(ConfigBridging, ZblUpToFormat12) {
  const ModelConfig c = config_of(bridged("zbl"));
  EXPECT_TRUE(c.bridging_zbl);
  EXPECT_EQ(c.bridging_r_inner, 0.7);
  EXPECT_EQ(c.bridging_r_outer, 1.1);
  EXPECT_TRUE(config_of(bridged("ZBL"), 1.0).bridging_zbl);
  EXPECT_THAT(refusal_of(bridged("zbl"), 1.3), HasSubstr("format 1.3"));
  EXPECT_EQ(refusal_of(bridged("none"), 1.3), "accepted");
  EXPECT_THAT(refusal_of(bridged("NLH")), HasSubstr("bridging_method = 'NLH'"));
}

TEST(ConfigBridging, NeedsElementsAndAWindow) {
  Py params = bridged("zbl");
  params["bridging_r_inner"] = 1.1;
  EXPECT_THAT(refusal_of(params), HasSubstr("inner radius"));
  params = bridged("zbl");
  params["type_map"] = Py::list({"Si", "X1"});
  EXPECT_THAT(refusal_of(params), HasSubstr("'X1'"));
}

Py composition() {
  Py learned = minimal();
  Py pair =
      Py::dict({{"type", "inner_potential"}, {"mode", "zbl"}, {"r_inner", 0.7}, {"r_outer", 1.1}});
  return Py::dict({{"type", "linear_ener"},
                   {"weights", "sum"},
                   {"type_map", Py::list({"Si", "C", "O"})},
                   {"pair_exclude_types", Py::list({Py::list({0, 2})})},
                   {"models", Py::list({learned, pair})}});
}

TEST(ConfigBridging, TheStoredSumOfAModelAndItsZblTermIsTheSameModel) {
  const ModelConfig c = config_of(composition());
  EXPECT_TRUE(c.bridging_zbl);
  EXPECT_EQ(c.bridging_r_inner, 0.7);
  EXPECT_EQ(c.bridging_r_outer, 1.1);
  EXPECT_THAT(c.exclude_types, ElementsAre(std::pair(0, 2)));
  EXPECT_EQ(c.channels, 64);
}

TEST(ConfigBridging, OtherCompositionsAreRefused) {
  EXPECT_THAT(refusal_of(composition(), 1.3), HasSubstr("format 1.3"));
  Py params = composition();
  params["weights"] = "mean";
  EXPECT_THAT(refusal_of(params), HasSubstr("linear_ener"));
  params = composition();
  params["models"] = Py::list({minimal(), minimal()});
  EXPECT_THAT(refusal_of(params), HasSubstr("linear_ener"));
  params = composition();
  params["models"].items[1]["mode"] = "nlh";
  EXPECT_THAT(refusal_of(params), HasSubstr("models.1.mode = 'nlh'"));
}

// ----- what is refused

struct Bad {
  const char* name;
  Py params;
  const char* message;
};

class BadOption : public ::testing::TestWithParam<Bad> {};

TEST_P(BadOption, IsNamedWithItsValue) {
  const std::string message = refusal_of(GetParam().params);
  EXPECT_THAT(message, ::testing::StartsWith("model.pt: "));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadOption,
    ::testing::Values(
        Bad{"NegativeChannels", with_descriptor("channels", -4), "descriptor.channels = -4"},
        Bad{"HugeChannels", with_descriptor("channels", std::int64_t{1} << 40),
            "descriptor.channels"},
        Bad{"TextChannels", with_descriptor("channels", "many"), "descriptor.channels = 'many'"},
        Bad{"HalfChannels", with_descriptor("channels", 4.5), "descriptor.channels = 4.5"},
        Bad{"RcutZero", with_descriptor("rcut", 0), "descriptor.rcut = 0"},
        Bad{"RcutNegative", with_descriptor("rcut", -1.5), "descriptor.rcut = -1.5"},
        Bad{"RcutNan", with_descriptor("rcut", std::nan("")), "descriptor.rcut"},
        Bad{"RcutInfinite", with_descriptor("rcut", HUGE_VAL), "descriptor.rcut"},
        Bad{"EpsZero", with_descriptor("eps", 0.0), "descriptor.eps"},
        Bad{"HeadsDoNotDivide", with_descriptor("n_atten_head", 5),
            "divisor of the attention width 64"},
        Bad{"HeadsNegative", with_descriptor("n_atten_head", -1), "descriptor.n_atten_head = -1"},
        Bad{"LmaxNegative", with_descriptor("lmax", -1), "descriptor.lmax = -1"},
        Bad{"LmaxHuge", with_descriptor("lmax", 50), "descriptor.lmax = 50"},
        Bad{"KmaxAboveLmax", with_descriptor("kmax", 4), "descriptor.kmax = 4"},
        Bad{"MmaxNegative", with_descriptor("mmax", -1), "descriptor.mmax = -1"},
        Bad{"ScheduleIncreases", with_descriptor("l_schedule", Py::list({1, 2})), "never increase"},
        Bad{"ScheduleText", with_descriptor("l_schedule", "3,2"), "l_schedule = '3,2'"},
        Bad{"OrdersOfWrongLength", with_descriptor("m_schedule", Py::list({1})),
            "m_schedule = [1]"},
        Bad{"OrdersTooLarge", with_descriptor("m_schedule", Py::list({4, 1, 1})), "m_schedule"},
        Bad{"BlocksHuge", with_descriptor("n_blocks", 60000), "n_blocks = 60000"},
        Bad{"BlocksBeyondFile", with_descriptor("n_blocks", 100), "needs at least 400 arrays"},
        Bad{"LayersBeyondFile", with_descriptor("mixing_layers", 60000), "mixing_layers = 60000"},
        Bad{"FfnBlocksZero", with_descriptor("ffn_blocks", 0), "ffn_blocks = 0"},
        Bad{"FfnBlocksBeyondFile", with_descriptor("ffn_blocks", 60000), "ffn_blocks = 60000"},
        Bad{"ReadoutLayersBeyondFile", with_descriptor("readout_layers", 60000), "readout_layers"},
        Bad{"RadialSizeZero", with_descriptor("n_radial", 0), "n_radial = 0"},
        Bad{"EnvExpZero", with_descriptor("env_exp", 0), "env_exp = 0"},
        Bad{"EnvExpThree", with_descriptor("env_exp", Py::list({7, 5, 3})), "env_exp = [7, 5, 3]"},
        Bad{"EdgeExponentZero", with_descriptor("env_exp", Py::list({7, 0})), "env_exp = [7, 0]"},
        Bad{"EdgeNormTwo", with_descriptor("edge_norm", Py::list({true, true})), "edge_norm"},
        Bad{"BasisUnknown", with_descriptor("basis_type", "chebyshev"), "basis_type = 'chebyshev'"},
        Bad{"BasisSuffix", with_descriptor("basis_type", "bessel/free"), "basis_type"},
        Bad{"ModeUnknown", with_descriptor("radial_so2_mode", "full"), "radial_so2_mode = 'full'"},
        Bad{"RankNegative", with_descriptor("radial_so2_rank", -1), "radial_so2_rank"},
        Bad{"FocusZero", with_descriptor("n_focus", 0), "n_focus = 0"},
        Bad{"ActivationUnknown", with_descriptor("activation_function", "mish"), "'mish'"},
        Bad{"SilutWithoutNumber", with_descriptor("activation_function", "silut:x"), "silut"},
        Bad{"PrecisionUnknown", with_descriptor("precision", "int8"), "precision = 'int8'"},
        Bad{"NodeCartesianUnknown", with_descriptor("node_cartesian", "full:2"), "'full:2'"},
        Bad{"NodeCartesianNegative", with_descriptor("node_cartesian", "default:-1"), "default:-1"},
        Bad{"ReadoutUnknown", with_descriptor("so3_readout", "big"), "so3_readout = 'big'"},
        Bad{"ResidualUnknown", with_descriptor("so2_attn_res", "both"), "so2_attn_res = 'both'"},
        Bad{"SandwichThree", with_descriptor("sandwich_norm", Py::list({true, true, true})),
            "4 booleans"},
        Bad{"SandwichSingle", with_descriptor("sandwich_norm", true), "sandwich_norm = true"},
        Bad{"GridBranchTwo", with_descriptor("grid_branch", Py::list({1, 1})),
            "grid_branch = [1, 1]"},
        Bad{"ChargeSpinFraction", with_descriptor("default_chg_spin", Py::list({0.5, 1})),
            "default_chg_spin"},
        Bad{"ChargeTooLarge", with_descriptor("default_chg_spin", Py::list({100, 1})),
            "default_chg_spin"},
        Bad{"SpinNegative", with_descriptor("default_chg_spin", Py::list({0, -1})),
            "default_chg_spin"},
        Bad{"ExcludedTypeUnknown", with_descriptor("exclude_types", Py::list({Py::list({0, 3})})),
            "exclude_types"},
        Bad{"DescriptorIsAList", with_model("descriptor", Py::list()), "descriptor = []"},
        Bad{"NoElements", with_model("type_map", Py::list()), "type_map = []"},
        Bad{"ElementTwice", with_model("type_map", Py::list({"C", "C"})), "'C' twice"},
        Bad{"ElementNumber", with_model("type_map", Py::list({1})), "type_map = [1]"},
        Bad{"NeuronNegative", with_fitting("neuron", Py::list({-3})), "fitting_net.neuron = [-3]"},
        Bad{"FparamNegative", with_fitting("numb_fparam", -1), "fitting_net.numb_fparam = -1"},
        Bad{"DefaultFparamLength", with_fitting("default_fparam", Py::list({1.0})),
            "default_fparam"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadOption,
    ::testing::Values(
        Bad{"Dpa4c", with_descriptor("type", "dpa4c"), "DPA4C is a strictly local model"},
        Bad{"Dpa3", with_descriptor("type", "dpa3"), "descriptor.type = 'dpa3'"},
        Bad{"Dpa1", with_descriptor("type", "se_atten"), "descriptor.type = 'se_atten'"},
        Bad{"Property", with_fitting("type", "property"), "fitting_net.type = 'property'"},
        Bad{"PropertyModel", with_model("type", "sezm_property"), "type = 'sezm_property'"},
        Bad{"OrdinaryFitting", with_fitting("type", "ener"), "fitting_net.type = 'ener'"},
        Bad{"OtherModel", with_model("type", "frozen"), "type = 'frozen'"},
        Bad{"NoType", with_model("type", "standard"), "type = 'standard'"},
        Bad{"DeepSpin", with_model("spin", Py::dict({{"use_spin", Py::list({true})}})), "deepspin"},
        Bad{"NativeSpin",
            with_model("spin",
                       Py::dict({{"use_spin", Py::list({true, false})}, {"scheme", "native"}})),
            "scheme native"},
        Bad{"SpinBySymbol",
            with_model("spin", Py::dict({{"use_spin", Py::list({"Fe"})}, {"scheme", "native"}})),
            "scheme native"},
        Bad{"PairTable", with_model("use_srtab", "table.txt"), "use_srtab = 'table.txt'"}),
    [](const auto& info) { return info.param.name; });

TEST(ConfigRefusals, NativeSpinWithoutMagneticTypesIsAPlainModel) {
  EXPECT_EQ(refusal_of(with_model(
                "spin", Py::dict({{"use_spin", Py::list({false, false})}, {"scheme", "native"}}))),
            "accepted");
}

TEST(ConfigRefusals, ContradictoryOptions) {
  Py params = with_descriptor("full_attn_res", "dependent");
  params["descriptor"]["block_attn_res"] = "independent";
  EXPECT_THAT(refusal_of(params), HasSubstr("full_attn_res"));
  params = with_descriptor("edge_cartesian", true);
  params["descriptor"]["message_node_so3"] = true;
  EXPECT_EQ(refusal_of(params), "accepted");  // no block of degree 1 or 2
  params["descriptor"]["lmax"] = 2;
  EXPECT_THAT(refusal_of(params), HasSubstr("edge_cartesian"));
}

// ----- the shipped models

ModelConfig shipped(const std::string& file) {
  NullLogger log;
  return read_checkpoint(std::string(DPA4_SOURCE_DIR) + "/" + file, {}, log).config;
}

TEST(ShippedConfigs, PotentialsHaveTheirPresets) {
  const auto preset_of = [](const std::string& file) {
    return model::find_preset(shipped("potentials/" + file));
  };
  EXPECT_EQ(preset_of("cu_nano.pt"), "nano");
  EXPECT_EQ(preset_of("sic_mini.pt"), "mini");
  EXPECT_EQ(preset_of("water_mini.pt"), "mini");
  EXPECT_EQ(preset_of("c_neo.pt"), "neo");
}

TEST(ShippedConfigs, Options) {
  const ModelConfig zbl = shipped("tests/data/golden/zbl.pt");
  EXPECT_TRUE(zbl.bridging_zbl);
  EXPECT_EQ(zbl.bridging_r_inner, 0.9);
  EXPECT_EQ(zbl.bridging_r_outer, 1.6);

  const ModelConfig fparam = shipped("tests/data/golden/fparam.pt");
  EXPECT_EQ(fparam.numb_fparam, 2);
  EXPECT_EQ(fparam.numb_aparam, 1);
  EXPECT_THAT(fparam.fitting_neuron, ElementsAre(24));

  const ModelConfig full_order = shipped("tests/data/golden/mmaxfull_degree.pt");
  EXPECT_EQ(full_order.blocks[0].mmax, full_order.blocks[0].lmax);
  EXPECT_EQ(full_order.radial_mode, model::RadialMode::kDegree);

  const ModelConfig pro = shipped("tests/data/golden/mptrj_pro.pt");
  EXPECT_FALSE(pro.lebedev_ffn);
  EXPECT_EQ(pro.radial_mode, model::RadialMode::kNone);

  EXPECT_THAT(shipped("tests/data/golden/zeroblocks.pt").blocks, IsEmpty());
  EXPECT_FALSE(shipped("tests/data/golden/noseed.pt").use_env_seed);
  EXPECT_EQ(shipped("tests/data/golden/noatten.pt").n_heads, 0);
  EXPECT_EQ(shipped("tests/data/golden/silut_bias.pt").activation.kind,
            model::ActivationKind::kSilut);
  EXPECT_EQ(shipped("tests/data/golden/schedule_gauss.pt").basis, model::Basis::kGaussian);
  EXPECT_EQ(shipped("tests/data/golden/readout2.pt").readout_layers, 2);
  EXPECT_EQ(shipped("tests/data/golden/nodecart_parity.pt").node_cartesian,
            model::NodeCartesian::kParity);
  EXPECT_THAT(shipped("tests/data/golden/exclude.pt").exclude_types, ::testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace dpa4::io
