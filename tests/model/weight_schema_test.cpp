// SPDX-License-Identifier: GPL-2.0-or-later
// The names and shapes themselves are tested against real checkpoints in tests/io; here: what
// follows from single options, and the random weights.
#include "src/model/weight_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "src/model/presets.h"

namespace dpa4::model {
namespace {

using ::testing::ElementsAre;

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

Shapes shapes_of(const ModelConfig& config) {
  Shapes shapes;
  for (const WeightSpec& spec : weight_schema(config)) shapes[spec.name] = spec.shape;
  return shapes;
}

ModelConfig neo() { return preset("neo", {"Si", "C"}); }

const std::string kConv = "descriptor.blocks.1.so2_conv.";

TEST(WeightSchema, NamesAreUnique) {
  for (const std::string& name : preset_names()) {
    const auto schema = weight_schema(preset(name, {"C"}));
    EXPECT_EQ(shapes_of(preset(name, {"C"})).size(), schema.size()) << name;
  }
}

TEST(WeightSchema, ShapesOfNeo) {
  const Shapes shapes = shapes_of(neo());
  EXPECT_THAT(shapes.at("descriptor.type_embedding.adam_type_embedding"), ElementsAre(3, 32));
  EXPECT_THAT(shapes.at(kConv + "pre_focus_mix.weight"), ElementsAre(4, 32, 64));
  EXPECT_THAT(shapes.at(kConv + "radial_hidden_proj.weight"), ElementsAre(32, 64));
  EXPECT_THAT(shapes.at(kConv + "so2_linears.2.weight_m0"), ElementsAre(128, 256));
  EXPECT_THAT(shapes.at(kConv + "so2_linears.2.weight_m.0"), ElementsAre(96, 384));
  EXPECT_THAT(shapes.at(kConv + "non_linearities.1.gate_linear.weight"), ElementsAre(32, 192));
  EXPECT_EQ(shapes.count(kConv + "non_linearities.2.gate_linear.weight"), 0u);
  EXPECT_THAT(shapes.at(kConv + "radial_degree_mixer.weight"), ElementsAre(256, 25));
  EXPECT_THAT(shapes.at(kConv + "adamw_focus_compete_w"), ElementsAre(32, 2));
  EXPECT_THAT(shapes.at("descriptor.output_ffn.so3_linear_1.weight"), ElementsAre(4, 32, 576));
  EXPECT_THAT(shapes.at("out_bias"), ElementsAre(1, 2, 1));
}

TEST(WeightSchema, NormsFollowTheirOptions) {
  ModelConfig config = neo();
  config.edge_norm_radial = false;
  config.edge_norm_film = false;
  config.edge_norm_focus = false;
  config.sandwich_norm = {true, false, false, true};
  const Shapes shapes = shapes_of(config);
  EXPECT_EQ(shapes.count("descriptor.radial_embedding.net.1.adam_scale"), 0u);
  EXPECT_EQ(shapes.count("descriptor.radial_embedding.net.2.matrix"), 1u);
  EXPECT_EQ(shapes.count("descriptor.film_scale_norm.adam_scale"), 0u);
  EXPECT_EQ(shapes.count(kConv + "focus_compete_norm.adam_scale"), 0u);
  EXPECT_EQ(shapes.count("descriptor.blocks.0.pre_so2_norm.bias"), 1u);
  EXPECT_EQ(shapes.count("descriptor.blocks.0.post_so2_norm.bias"), 0u);
  EXPECT_EQ(shapes.count("descriptor.blocks.0.pre_ffn_norms.0.bias"), 0u);
  EXPECT_EQ(shapes.count("descriptor.blocks.0.post_ffn_norms.0.bias"), 1u);
}

TEST(WeightSchema, StatisticsAreNotCountedAsParameters) {
  ModelConfig config = neo();
  const std::int64_t before = count_parameters(weight_schema(config));
  config.dim_case_embd = 3;
  config.case_film_embd = true;
  const auto schema = weight_schema(config);
  const auto find = [&](const std::string& name) {
    return std::find_if(schema.begin(), schema.end(),
                        [&](const auto& spec) { return spec.name == name; });
  };
  ASSERT_NE(find("fitting_net.case_embd"), schema.end());
  EXPECT_FALSE(find("fitting_net.case_embd")->trainable);
  EXPECT_FALSE(find("out_bias")->trainable);
  // FiLM: 3*32 + 32*128 + 128*64 + 128*192 + 2*2
  EXPECT_EQ(count_parameters(schema) - before, 96 + 4096 + 8192 + 24'576 + 4);
}

TEST(RandomWeights, AreReproducibleAndDependOnTheSeed) {
  const Weights first = random_weights(neo(), 1);
  const Weights again = random_weights(neo(), 1);
  const Weights other = random_weights(neo(), 2);
  ASSERT_EQ(first.all().size(), again.all().size());
  for (const auto& [name, tensor] : first.all()) {
    EXPECT_EQ(tensor.to<float>(), again.at(name).to<float>()) << name;
    if (name == "descriptor.radial_basis.adam_freqs") continue;
    EXPECT_NE(tensor.to<float>(), other.at(name).to<float>()) << name;
  }
}

TEST(RandomWeights, AreFilledWithSensibleNumbers) {
  ModelConfig config = neo();
  config.mlp_bias = true;
  config.layer_scale = true;
  config.so2_norm = true;
  config.so2_attn_res = AttnResidual::kDependent;
  config.full_attn_res = AttnResidual::kIndependent;
  config.dim_case_embd = 2;
  config.case_film_embd = true;
  config.numb_fparam = 2;
  const Weights weights = random_weights(config, 3);
  const auto schema = weight_schema(config);
  EXPECT_EQ(weights.all().size(), schema.size());
  for (const WeightSpec& spec : schema) {
    ASSERT_EQ(weights.at(spec.name).shape(), spec.shape);
    for (float value : weights.at(spec.name).to<float>()) {
      ASSERT_NE(value, 0) << spec.name;
      ASSERT_LE(std::abs(value), 10) << spec.name;  // the largest are Bessel frequencies, 16 pi / 6
    }
  }
}

TEST(RandomWeights, KeepTheSizeOfFeatures) {
  // A linear map of fan-in n has variance 1/n.
  const std::vector<double> w =
      random_weights(neo(), 4).at("descriptor.blocks.0.ffns.0.so3_linear_1.weight").to<double>();
  double sum = 0;
  for (double x : w) sum += x * x;
  EXPECT_NEAR(sum / static_cast<double>(w.size()), 1.0 / 32,
              0.001);  // 73,728 numbers: 0.3 % deviation
}

}  // namespace
}  // namespace dpa4::model
