// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "src/base/error.h"
#include "src/model/weight_schema.h"

namespace dpa4::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t parameters_of(const ModelConfig& config) {
  return count_parameters(weight_schema(config));
}

struct Size {
  const char* name;
  std::int64_t august;     // normalised edges, norms behind the convolution
  std::int64_t september;  // radial norm removed, norms before the convolution; 0: not released
};

class PublishedSize : public ::testing::TestWithParam<Size> {};

/// The counts published for the released models, 118 elements.
TEST_P(PublishedSize, IsReproduced) {
  ModelConfig config = preset(GetParam().name, all_elements());
  if (GetParam().august > 0) {
    EXPECT_EQ(parameters_of(config), GetParam().august);
  }
  config.edge_norm_radial = false;
  config.sandwich_norm = {true, false, true, false};
  EXPECT_EQ(parameters_of(config), GetParam().september);
}

TEST_P(PublishedSize, IsFoundAgain) {
  ModelConfig config = preset(GetParam().name, {"Si", "C"});
  EXPECT_EQ(find_preset(config), GetParam().name);
  config.rcut = 5;
  config.edge_norm_radial = false;
  config.sandwich_norm = {true, false, true, false};
  config.basis_env_exp = 0;
  config.add_chg_spin_ebd = true;
  EXPECT_EQ(find_preset(config), GetParam().name);
  config.mixing_layers += 1;
  EXPECT_EQ(find_preset(config), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishedSize,
    ::testing::Values(Size{"nano", 480'364, 480'332}, Size{"mini", 655'084, 655'052},
                      Size{"neo", 1'124'910, 1'124'878}, Size{"air", 5'148'101, 5'148'037},
                      Size{"plus", 8'848'710, 8'848'646}, Size{"pro", 25'210'702, 25'210'638},
                      Size{"max", 0, 99'009'450}, Size{"ultra", 0, 281'122'224}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Presets, AreListedBySize) {
  EXPECT_THAT(preset_names(),
              ElementsAre("nano", "mini", "neo", "air", "plus", "pro", "max", "ultra"));
}

TEST(Presets, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    preset("tiny", {"C"});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nano, mini, neo"));
  }
}

TEST(Presets, TheElementsAreThePeriodicTable) {
  const auto& elements = all_elements();
  EXPECT_EQ(elements.size(), 118u);
  EXPECT_EQ(std::set<std::string>(elements.begin(), elements.end()).size(), 118u);
  EXPECT_EQ(elements[5], "C");
  EXPECT_EQ(elements[28], "Cu");
  EXPECT_EQ(elements[78], "Au");
  EXPECT_EQ(elements[117], "Og");
}

TEST(Presets, DifferencesOfArchitectureAreNotOverlooked) {
  const ModelConfig neo = preset("neo", {"C"});
  const auto differs = [&](auto change) {
    ModelConfig config = neo;
    change(config);
    return find_preset(config).empty();
  };
  EXPECT_TRUE(differs([](ModelConfig& c) { c.blocks[1].lmax = 2; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.blocks.pop_back(); }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.radial_rank = 2; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.n_focus = 1; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.message_node = GridKind::kNone; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.ffn_op.branches = 2; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.ffn_blocks = 2; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.readout_grid = GridKind::kNone; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.mlp_bias = true; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.bridging_zbl = true; }));
}

}  // namespace
}  // namespace dpa4::model
