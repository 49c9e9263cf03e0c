// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/pair_settings.h"

#include <gtest/gtest.h>

#include <sstream>

namespace dpa4::lammps {
namespace {

PairSettings parse(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return parse_pair_settings(words);
}

/// The sentence, and the number of the argument it blames.
std::pair<std::string, int> failure(const std::string& line) {
  try {
    parse(line);
  } catch (const ArgumentError& error) {
    return {error.what(), error.argument()};
  }
  return {"", -1};
}

TEST(PairSettings, HaveDefaults) {
  const PairSettings settings = parse("");
  EXPECT_EQ(settings.engine.engine, engine::Engine::kAuto);
  EXPECT_TRUE(settings.engine.auto_device);
  EXPECT_EQ(settings.engine.evaluator.precision, model::Precision::kFloat32);
  EXPECT_EQ(settings.engine.evaluator.cohort, 0);
  EXPECT_FALSE(settings.engine.evaluator.memory.has_value());
  EXPECT_FALSE(settings.engine.checkpoint.head.has_value());
  EXPECT_FALSE(settings.engine.checkpoint.use_ema);
}

TEST(PairSettings, TakeEveryKeyword) {
  const PairSettings settings = parse(
      "engine native precision float64 device cuda cohort 37 memory 1.5G head water ema yes "
      "charge -1 spin 2 fparam 1 -2e3 aparam 0.5");
  EXPECT_EQ(settings.engine.engine, engine::Engine::kNative);
  EXPECT_EQ(settings.engine.evaluator.precision, model::Precision::kFloat64);
  EXPECT_FALSE(settings.engine.auto_device);
  EXPECT_EQ(settings.engine.evaluator.device, model::Device::kCuda);
  EXPECT_EQ(settings.engine.evaluator.cohort, 37);
  EXPECT_EQ(settings.engine.evaluator.memory, 1610612736);
  EXPECT_EQ(settings.engine.checkpoint.head, "water");
  EXPECT_TRUE(settings.engine.checkpoint.use_ema);
  EXPECT_EQ(settings.charge, -1);
  EXPECT_EQ(settings.spin, 2);
  EXPECT_EQ(settings.fparam, (std::vector<double>{1, -2000}));
  EXPECT_EQ(settings.aparam, (std::vector<double>{0.5}));
}

TEST(PairSettings, TakeMemoryInBytesAndUnits) {
  EXPECT_EQ(parse("memory 4096").engine.evaluator.memory, 4096);
  EXPECT_EQ(parse("memory 2K").engine.evaluator.memory, 2048);
  EXPECT_EQ(parse("memory 3M").engine.evaluator.memory, 3145728);
  EXPECT_EQ(parse("memory min").engine.evaluator.memory, 0);
  EXPECT_EQ(parse("memory 1G memory auto").engine.evaluator.memory, std::nullopt);
}

TEST(PairSettings, TakeConditionsFromComputesOrValuesWhicheverComesLast) {
  const PairSettings settings =
      parse("fparam 1 2 fparam_from_compute f aparam_from_compute a aparam 3");
  EXPECT_EQ(settings.fparam_compute, "f");
  EXPECT_TRUE(settings.fparam.empty());
  EXPECT_EQ(settings.aparam_compute, "");
  EXPECT_EQ(settings.aparam, (std::vector<double>{3}));
}

TEST(PairSettings, NameTheArgumentThatIsWrong) {
  EXPECT_EQ(failure("precision float64 cohrt 3").second, 2);
  EXPECT_EQ(failure("precision half"),
            std::make_pair(std::string("pair_style dpa4: 'precision' takes float32 or float64, not "
                                       "'half'"),
                           1));
  EXPECT_EQ(failure("device").second, 0);
  for (const char* line :
       {"cohort 0", "cohort 1.5", "cohort many", "memory -1", "memory 3Q", "memory 0", "memory 0.5",
        "memory 1e3", "memory G", "fparam x", "charge nan", "ema maybe", "spin", "head"}) {
    EXPECT_NE(failure(line).second, -1) << line;
  }
}

TEST(MapElements, FollowsTheNamesInAnyOrder) {
  EXPECT_EQ(map_elements({"C", "NULL", "Si", "C"}, 4, {"Si", "C"}),
            (std::vector<int>{1, -1, 0, 1}));
}

TEST(Conditions, FillAMissingSpinFromTheModel) {
  model::ModelConfig config;
  config.add_chg_spin_ebd = true;
  config.default_chg_spin = {{0, 1}};
  EXPECT_EQ(*resolve_conditions(parse("charge 2"), config).charge_spin,
            (std::array<double, 2>{2, 1}));
  EXPECT_FALSE(resolve_conditions(parse(""), config).charge_spin.has_value());
  config.add_chg_spin_ebd = false;
  EXPECT_THROW(resolve_conditions(parse("charge 2"), config), InputError);
}

}  // namespace
}  // namespace dpa4::lammps
