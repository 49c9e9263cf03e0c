// SPDX-License-Identifier: GPL-2.0-or-later
// Steps on the device that are recorded and replayed, against steps that are issued one operation
// after another; and the memory that they take, against the plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "src/graph/periodic.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"
#include "src/native/native_evaluator.h"

namespace dpa4::native::testing {
namespace {

/// Carbon on a distorted cubic lattice.
class Crystal {
 public:
  Crystal(double rcut, int cells) : graph_(rcut, 1), cells_(cells) {
    std::uniform_real_distribution<double> shift(-0.2, 0.2);
    for (int i = 0; i < cells * cells * cells; ++i) {
      for (int a : {i / cells / cells, i / cells % cells, i % cells}) {
        x_.push_back(kLattice * a + shift(random_));
      }
    }
    type_.assign(x_.size() / 3, 0);
  }

  /// Moves every atom a little and builds the edges again.
  void move(double distance) {
    std::uniform_real_distribution<double> shift(-distance, distance);
    for (double& x : x_) x += shift(random_);
  }

  model::Structure structure() {
    const double side = kLattice * cells_;
    const int n = static_cast<int>(type_.size());
    model::Structure result;
    result.type = {type_.data(), n};
    result.edges =
        graph_.build({x_.data(), n, 3}, result.type,
                     graph::Cell::periodic_3d({{{side, 0, 0}, {0, side, 0}, {0, 0, side}}}));
    return result;
  }

 private:
  static constexpr double kLattice = 1.8;
  std::mt19937 random_{3};
  graph::PeriodicGraph graph_;
  int cells_;
  std::vector<double> x_;
  std::vector<int> type_;
};

model::Evaluation evaluate(model::Evaluator& evaluator, const model::Structure& structure) {
  model::NoHalo halo;
  model::Evaluation result;
  evaluator.evaluate(structure, {}, halo, {true}, result);
  return result;
}

/// Large arrays go up in pieces; the caller may change them at once.
TEST(CudaUpload, ArrivesWholeAndAtOnce) {
  if (cuda::device_count() == 0) {
    GTEST_SKIP() << "no CUDA device: " << cuda::unavailable_reason();
  }
  const auto machine = cuda::make_machine(0);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20, (std::size_t{4} << 20) + 1,
                                  (std::size_t{37} << 20) + 3}) {
    std::vector<unsigned char> sent(bytes), expected(bytes), received(bytes);
    void* memory = machine->allocate(bytes);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < bytes; ++i) {
        sent[i] = expected[i] = static_cast<unsigned char>(i * 2654435761u >> 13) + round;
      }
      machine->upload(memory, sent.data(), bytes);
      std::fill(sent.begin(), sent.end(), 0);
      machine->download(received.data(), memory, bytes);
      ASSERT_TRUE(received == expected) << bytes << " bytes, round " << round;
    }
    // From memory of the device.
    void* copy = machine->allocate(bytes);
    machine->upload(copy, memory, bytes);
    std::fill(received.begin(), received.end(), 0);
    machine->download(received.data(), copy, bytes);
    EXPECT_TRUE(received == expected);
    machine->release(copy);
    machine->release(memory);
  }
}

class CudaReplay : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) {
      GTEST_SKIP() << "no CUDA device: " << cuda::unavailable_reason();
    }
    options_.device = model::Device::kCuda;
    options_.precision = model::Precision::kFloat32;
  }
  model::EvaluatorOptions options_;
};

TEST_P(CudaReplay, HasTheBitsOfIssuedSteps) {
  const model::ModelConfig config = model::preset(GetParam(), {"C"});
  const model::Weights weights = model::random_weights(config, 1);
  const auto replaying = make_evaluator(config, weights, options_);
  model::EvaluatorOptions issued = options_;
  issued.profile = true;  // never records
  const auto issuing = make_evaluator(config, weights, issued);
  for (const int cells : {4, 8}) {
    Crystal crystal(config.rcut, cells);
    for (int step = 0; step < 6; ++step) {
      const model::Structure structure = crystal.structure();
      const model::Evaluation a = evaluate(*replaying, structure);
      const model::Evaluation b = evaluate(*issuing, structure);
      issuing->take_profile();
      ASSERT_TRUE(std::isfinite(a.energy));
      EXPECT_EQ(a.energy, b.energy) << step;
      EXPECT_EQ(a.force, b.force) << step;
      EXPECT_EQ(a.atom_virial, b.atom_virial) << step;
      // Twice the same positions, then others: the same edges first, then more or fewer.
      if (step >= 2) crystal.move(step >= 4 ? 0.05 : 1e-7);
    }
  }
}

TEST_P(CudaReplay, StepsTakeThePlannedMemory) {
  const model::ModelConfig config = model::preset(GetParam(), {"C"});
  const model::Weights weights = model::random_weights(config, 1);
  Crystal crystal(config.rcut, 16);
  const model::Structure structure = crystal.structure();
  for (const bool least : {true, false}) {
    model::EvaluatorOptions options = options_;
    if (least) options.memory = 0;
    evaluate(*make_evaluator(config, weights, options), structure);  // the driver loads code
    const std::int64_t before = machine_info(options).free_bytes;
    const auto evaluator = make_evaluator(config, weights, options);
    const auto planned = static_cast<double>(
        evaluator->memory_plan().peak(structure.edges.n_nodes, structure.edges.n_edges()));
    for (int step = 0; step < 3; ++step) evaluate(*evaluator, structure);
    const auto taken = static_cast<double>(before - machine_info(options).free_bytes);
    EXPECT_NEAR(taken / planned, 1.0, 0.05) << (least ? "min" : "auto");
    EXPECT_LE(evaluator->memory_plan().bytes_per_edge, 64);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaReplay, ::testing::Values("nano", "neo", "air"));

}  // namespace
}  // namespace dpa4::native::testing
