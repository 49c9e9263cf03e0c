// SPDX-License-Identifier: GPL-2.0-or-later
// Every checkpoint the project ships is read completely: its options, exactly the arrays they need,
// and nothing that is not understood.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/model/weight_schema.h"
#include "tests/support/checkpoint_reading.h"

namespace dpa4::io {
namespace {

const std::string kRoot = DPA4_SOURCE_DIR;

using dpa4::testing::RecordingLogger;

std::vector<std::string> shipped_files() {
  std::vector<std::string> files;
  for (const char* folder : {"tests/data/golden", "tests/data/golden/pt_expt", "potentials"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/" + folder)) {
      if (entry.path().extension() == ".pt")
        files.push_back(std::string(folder) + "/" + entry.path().stem().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

Checkpoint read(const std::string& file, Logger& log) {
  return read_checkpoint(kRoot + "/" + file + ".pt", {}, log);
}

class ShippedCheckpoint : public ::testing::TestWithParam<std::string> {};

TEST_P(ShippedCheckpoint, HoldsExactlyTheArraysItsOptionsNeed) {
  RecordingLogger log;
  const Checkpoint checkpoint = read(GetParam(), log);
  EXPECT_EQ(log.warnings, std::vector<std::string>{});

  std::set<std::string> expected;
  for (const auto& spec : model::weight_schema(checkpoint.config)) {
    EXPECT_TRUE(expected.insert(spec.name).second) << spec.name << " twice";
    EXPECT_EQ(checkpoint.weights.at(spec.name).shape(), spec.shape) << spec.name;
  }
  std::set<std::string> actual;
  const bool pt_expt = checkpoint.info.dialect == "pt_expt";
  for (const auto& [name, tensor] : checkpoint.weights.all()) {
    // The grid matrices that pt_expt files carry are kept; pt files never have any.
    const bool grid_matrix = name.find(".projector.") != std::string::npos;
    if (!pt_expt || !grid_matrix) actual.insert(name);
  }
  EXPECT_EQ(actual, expected);
}

TEST_P(ShippedCheckpoint, CarriesGridMatricesInPairsInOneDialect) {
  RecordingLogger log;
  const Checkpoint checkpoint = read(GetParam(), log);
  const std::string to = ".projector.to_grid_mat";
  int matrices = 0;
  for (const auto& [name, tensor] : checkpoint.weights.all()) {
    if (!name.ends_with(to)) continue;
    ++matrices;
    const std::string stem = name.substr(0, name.size() - to.size());
    const auto& back = checkpoint.weights.at(stem + ".projector.from_grid_mat");
    ASSERT_EQ(tensor.shape().size(), 2u) << name;
    EXPECT_EQ(back.shape(), (std::vector<std::int64_t>{tensor.shape()[1], tensor.shape()[0]}));
  }
  EXPECT_EQ(matrices > 0, checkpoint.info.dialect == "pt_expt");
}

TEST_P(ShippedCheckpoint, SaysWhatItIs) {
  RecordingLogger log;
  const CheckpointInfo info = read(GetParam(), log).info;
  const bool pt_expt = GetParam().find("pt_expt") != std::string::npos;
  EXPECT_EQ(info.dialect, pt_expt ? "pt_expt" : "pt");
  EXPECT_EQ(info.has_optimizer, GetParam().find("with_optimizer") != std::string::npos);
  EXPECT_FALSE(info.has_ema);
  EXPECT_FALSE(info.lora_folded);
  EXPECT_EQ(info.heads, std::vector<std::string>{});
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ShippedCheckpoint, ::testing::ValuesIn(shipped_files()), test_name);

}  // namespace
}  // namespace dpa4::io
