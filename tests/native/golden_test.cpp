// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <tuple>

#include "tests/native/model_case.h"

namespace dpa4::native::testing {
namespace {

using model::Precision;

/// The others, with the option that is to blame.
const std::pair<const char*, const char*> kUncovered[] = {
    {"blockattn", "block_attn_res = dependent"},
    {"cartesian", "edge_cartesian = true"},
    {"fullattn", "so2_attn_res = dependent"},
    {"gatedffn", "s2_activation[1] = false"},
    {"glu_off", "activation_function other than silu"},
    {"gridbranch_kmax2", "node_wise_so3 = true"},
    {"heads", "atten_f_mix = true"},
    {"heads_nofmix", "atten_o_proj = true"},
    {"mixing0", "mixing_layers = 0"},
    {"mmax2", "mmax = 2"},
    {"mmaxfull_degree", "mmax = 2"},
    {"nodecart_parity", "node_cartesian = parity:2"},
    {"nodewise_s2", "node_wise_s2 = true"},
    {"nodewise_so3", "node_wise_so3 = true"},
    {"rank0", "radial_so2_rank = 0"},
    {"readout2", "activation_function other than silu"},
    {"s2act", "s2_activation[0] = true"},
    {"schedule_gauss", "mmax = 2"},
    {"silut_bias", "activation_function other than silu"},
};

std::string printable(const std::string& name) {
  std::string result = name;
  for (char& c : result) {
    if (c == '/') c = '_';
  }
  return result;
}

class Golden : public ::testing::TestWithParam<std::tuple<const char*, Precision>> {};

TEST_P(Golden, AgreesWithTheReference) {
  const auto [name, precision] = GetParam();
  ModelCase model(std::string("golden/") + name + ".json");
  model::EvaluatorOptions options;
  options.precision = precision;
  const auto evaluator = model.make(options);
  for (const tools::ReferenceFrame& frame : model.frames()) {
    const model::Evaluation result = model.evaluate(*evaluator, frame);
    // The reference counts edges before it drops those of excluded pairs of types.
    if (frame.float64.n_edges && model.config().exclude_types.empty()) {
      EXPECT_EQ(model.last_edges(), *frame.float64.n_edges);
    }
    expect_accepted(result, frame.float64, precision, frame.structure.name);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         ::testing::Combine(::testing::ValuesIn(kCoveredGolden),
                                            ::testing::Values(Precision::kFloat64,
                                                              Precision::kFloat32)),
                         [](const auto& info) {
                           return printable(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == Precision::kFloat64 ? "_float64"
                                                                                  : "_float32");
                         });

class Potential : public ::testing::TestWithParam<std::tuple<const char*, Precision>> {};

/// The shipped potentials on the structures of their reference trajectories.
TEST_P(Potential, AgreesWithTheReference) {
  const auto [name, precision] = GetParam();
  ModelCase model(std::string("reference/") + name + ".json");
  model::EvaluatorOptions options;
  options.precision = precision;
  const auto evaluator = model.make(options);
  for (const tools::ReferenceFrame& frame : model.frames()) {
    expect_accepted(model.evaluate(*evaluator, frame), frame.float64, precision, name);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Potential,
    ::testing::Combine(::testing::Values("cu_nano", "water_mini", "sic_mini", "c_neo"),
                       ::testing::Values(Precision::kFloat64, Precision::kFloat32)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) +
             (std::get<1>(info.param) == Precision::kFloat64 ? "_float64" : "_float32");
    });

TEST(Golden, NamesTheOptionThatIsNotCovered) {
  for (const auto& [name, option] : kUncovered) {
    const ModelCase model(std::string("golden/") + name + ".json");
    const auto found = unsupported_option(model.config());
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_EQ(*found, option) << name;
  }
}

TEST(Golden, EveryModelIsEitherCoveredOrNamesItsOption) {
  for (const char* name : kCoveredGolden) {
    const ModelCase model(std::string("golden/") + name + ".json");
    EXPECT_EQ(unsupported_option(model.config()).value_or(""), "") << name;
  }
}

}  // namespace
}  // namespace dpa4::native::testing
