// SPDX-License-Identifier: GPL-2.0-or-later
// Whole models on the device: the covered golden files, and what may not change a result.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/native/model_case.h"

namespace dpa4::native::testing {
namespace {

using model::Precision;

model::EvaluatorOptions on_device(Precision precision) {
  model::EvaluatorOptions options;
  options.precision = precision;
  options.device = model::Device::kCuda;
  return options;
}

class CudaModel : public ::testing::TestWithParam<std::tuple<const char*, Precision>> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device: " << cuda::unavailable_reason();
    }
  }
};

TEST_P(CudaModel, AgreesWithTheReference) {
  const auto [name, precision] = GetParam();
  ModelCase model(std::string("golden/") + name + ".json");
  const auto evaluator = model.make(on_device(precision));
  for (const tools::ReferenceFrame& frame : model.frames()) {
    expect_accepted(model.evaluate(*evaluator, frame), frame.float64, precision,
                    frame.structure.name);
  }
}

/// Kept or recomputed, in one cohort or in many: the bits of a step depend on the cohorts only
/// through the order of sums over edges, and not at all on what is kept.
TEST_P(CudaModel, MemoryBudgetAndRepetitionKeepTheBits) {
  const auto [name, precision] = GetParam();
  ModelCase model(std::string("golden/") + name + ".json");
  for (const int cohort : {37, 8192}) {
    model::EvaluatorOptions options = on_device(precision);
    options.cohort = cohort;
    const auto plenty = model.make(options);
    options.memory = 0;
    const auto minimal = model.make(options);
    for (const tools::ReferenceFrame& frame : model.frames()) {
      const model::Evaluation kept = model.evaluate(*plenty, frame);
      expect_same_bits(kept, model.evaluate(*minimal, frame));
      expect_same_bits(kept, model.evaluate(*plenty, frame));
      expect_accepted(kept, frame.float64, precision, frame.structure.name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, CudaModel,
    ::testing::Combine(::testing::ValuesIn(kCoveredGolden),
                       ::testing::Values(Precision::kFloat64, Precision::kFloat32)),
    [](const auto& info) {
      std::string name = std::get<0>(info.param);
      for (char& c : name) {
        if (c == '/') c = '_';
      }
      return name + (std::get<1>(info.param) == Precision::kFloat64 ? "_float64" : "_float32");
    });

}  // namespace
}  // namespace dpa4::native::testing
