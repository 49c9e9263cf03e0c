// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "src/eager/eager_evaluator.h"
#include "tests/native/model_case.h"

namespace dpa4::eager {
namespace {

using model::Precision;
using native::testing::data_path;
using native::testing::expect_accepted;
using native::testing::ModelCase;

/// Every reference file of a folder of tests/data, without its ending: a file added there is
/// tested.
std::vector<std::string> reference_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("tests/data/" + folder))) {
    if (entry.path().extension() == ".json")
      names.push_back(folder + "/" + entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> golden_files() {
  std::vector<std::string> names = reference_files("golden");
  for (const std::string& name : reference_files("golden/pt_expt")) names.push_back(name);
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<std::string, Precision>>& info) {
  std::string name = std::get<0>(info.param);
  std::replace(name.begin(), name.end(), '/', '_');
  return name + (std::get<1>(info.param) == Precision::kFloat64 ? "_float64" : "_float32");
}

class EagerGolden : public ::testing::TestWithParam<std::tuple<std::string, Precision>> {};

TEST_P(EagerGolden, AgreesWithTheReference) {
  const auto& [name, precision] = GetParam();
  ModelCase model(name + ".json");
  model::EvaluatorOptions options;
  options.precision = precision;
  const auto evaluator = make_evaluator(model.config(), model.weights(), options);
  ASSERT_FALSE(model.frames().empty());
  for (const tools::ReferenceFrame& frame : model.frames()) {
    const model::Evaluation result = model.evaluate(*evaluator, frame);
    if (frame.float64.n_edges && model.config().exclude_types.empty()) {
      EXPECT_EQ(model.last_edges(), *frame.float64.n_edges);  // counted before exclusion
    }
    expect_accepted(result, frame.float64, precision, frame.structure.name);
  }
}

TEST(EagerGoldenFiles, AreAllThere) { EXPECT_GE(golden_files().size(), 48u); }

const auto kBothPrecisions = ::testing::Values(Precision::kFloat64, Precision::kFloat32);

INSTANTIATE_TEST_SUITE_P(Models, EagerGolden,
                         ::testing::Combine(::testing::ValuesIn(golden_files()), kBothPrecisions),
                         test_name);

// Weights of no particular scale: forces reach 1e8 eV/Angstrom, where float32 says nothing.
INSTANTIATE_TEST_SUITE_P(Options, EagerGolden,
                         ::testing::Combine(::testing::ValuesIn(reference_files("options")),
                                            ::testing::Values(Precision::kFloat64)),
                         test_name);

// The first step of the trained potentials' trajectories. The largest one is left to float32: in
// float64 it takes as long as all others together, and the LAMMPS tests run it.
INSTANTIATE_TEST_SUITE_P(Potentials, EagerGolden,
                         ::testing::Combine(::testing::Values("reference/cu_nano",
                                                              "reference/sic_mini",
                                                              "reference/water_mini"),
                                            kBothPrecisions),
                         test_name);
INSTANTIATE_TEST_SUITE_P(LargestPotential, EagerGolden,
                         ::testing::Combine(::testing::Values("reference/c_neo"),
                                            ::testing::Values(Precision::kFloat32)),
                         test_name);

}  // namespace
}  // namespace dpa4::eager
