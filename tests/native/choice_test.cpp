// SPDX-License-Identifier: GPL-2.0-or-later
// The choice of kernels, and the record of earlier choices.
#include "src/native/choice.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/base/error.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"
#include "src/native/native_evaluator.h"

namespace dpa4::native::testing {
namespace {

/// A folder of its own that is gone afterwards, as the user's cache.
class CacheFolder {
 public:
  CacheFolder() : path_(::testing::TempDir() + "dpa4-choice-" + std::to_string(getpid())) {
    std::filesystem::remove_all(path_);
    const char* before = getenv("XDG_CACHE_HOME");
    if (before != nullptr) before_ = before;
    setenv("XDG_CACHE_HOME", path_.c_str(), 1);
  }
  ~CacheFolder() {
    if (before_.empty()) {
      unsetenv("XDG_CACHE_HOME");
    } else {
      setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    }
    std::filesystem::remove_all(path_);
  }
  std::string file() const { return path_ + "/dpa4-lammps/choices"; }

 private:
  std::string path_, before_;
};

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(Choice, TheFastestAccurateCandidateWins) {
  const std::vector<Measured> measured{{"a", 2, 0.1}, {"b", 1, 0.9}, {"c", 0.5, 1.1}};
  EXPECT_EQ(best_of(measured), &measured[1]);
  // A slow one is better than one that is not accurate.
  const std::vector<Measured> strict{{"a", 1, 1.01}, {"b", 9, 1}};
  EXPECT_EQ(best_of(strict), &strict[1]);
  EXPECT_EQ(best_of({{"a", 2, 3}, {"b", 1, HUGE_VAL}}), nullptr);
  EXPECT_EQ(best_of({}), nullptr);
}

TEST(Choice, RefusesWhereNoneIsAccurate) {
  model::EvaluatorOptions options;
  options.precision = model::Precision::kFloat32;
  Choice choice;
  EXPECT_FALSE(choice.refusal(options));  // nothing was measured
  choice.measured = {{"split", 1, 3.5}, {"fp32", 2, HUGE_VAL}};
  EXPECT_EQ(choice.summary(), "");
  EXPECT_EQ(choice.refusal(options),
            "arithmetic auto: no kernels are accurate enough for this model in float32; times the "
            "error that is accepted: split 3.5, fp32 inf; use 'precision float64', or 'arithmetic "
            "fp32' to run unchecked");
  options.precision = model::Precision::kFloat64;
  EXPECT_NE(choice.refusal(options)->find("use 'engine eager'"), std::string::npos);
  choice.measured[1].error = 0.5;
  EXPECT_FALSE(choice.refusal(options));
}

TEST(Choice, SummaryTellsByHowMuch) {
  Choice choice;
  choice.name = "b";
  choice.measured = {{"a", 3, 0.1}, {"b", 1, 0.25}, {"c", 0.5, 7}};
  EXPECT_EQ(choice.summary(),
            "b; error 0.25 of what is accepted, 3.00 times as fast as a, c is not accurate enough "
            "(measured)");
}

TEST(Choice, RecordGivesBackWhatWasStored) {
  const CacheFolder cache;
  const ChoiceRecord record;
  EXPECT_EQ(record.path(), cache.file());
  EXPECT_FALSE(record.find("key"));
  record.store("key", {{"a", 0.25, 0.5}, {"b", 0.125, HUGE_VAL}});
  record.store("other", {{"c", 1, 0}});
  record.store("key", {{"a", 0.5, 0.5}, {"b", 0.125, HUGE_VAL}});
  const auto found = record.find("key");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].name, "a");
  EXPECT_EQ((*found)[0].seconds, 0.5);
  EXPECT_FALSE((*found)[1].accepted());
  EXPECT_TRUE(record.find("other"));
}

TEST(Choice, SpoiledRecordsAreAsGoodAsNone) {
  const CacheFolder cache;
  const ChoiceRecord record;
  for (const char* text : {"", "\n\n", "key", "key 1", "key 1 a", "key 1 a 0.5", "key 1 a 0.5 0.1",
                           "key 1 a x 0.1 end", "key 99999999999 a 1 1 end", "key 2 a 1 1 end",
                           "key 1 a -1 0 end", "\x7f\x45\x4c\x46\x01\xff"}) {
    write(cache.file(), text);
    EXPECT_FALSE(record.find("key")) << text;
    record.store("key", {{"a", 1, 0}});
    EXPECT_TRUE(record.find("key")) << text;
  }
  // A folder that cannot be made.
  const ChoiceRecord nowhere("/proc/none/choices");
  nowhere.store("key", {{"a", 1, 0}});
  EXPECT_FALSE(nowhere.find("key"));
}

TEST(Choice, WritersAtTheSameTimeLeaveAFileThatCanBeRead) {
  const CacheFolder cache;
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([t] {
      const ChoiceRecord record;
      for (int i = 0; i < 20; ++i) record.store("key" + std::to_string(t), {{"a", 1.0 + i, 0}});
    });
  }
  for (std::thread& writer : writers) writer.join();
  const ChoiceRecord record;
  std::ifstream file(record.path());
  std::string line;
  int lines = 0;
  for (; std::getline(file, line); ++lines) {
    EXPECT_EQ(line.substr(0, 3), "key");
    EXPECT_EQ(line.substr(line.size() - 3), "end");
  }
  EXPECT_GE(lines, 1);
}

TEST(Choice, MeasuresEveryInstructionSetAndRemembers) {
  const CacheFolder cache;
  const model::ModelConfig config = model::preset("nano", {"C", "Si"});
  const model::Weights weights = model::random_weights(config, 1);
  model::EvaluatorOptions options;
  options.precision = model::Precision::kFloat32;
  const std::vector<std::string> names = candidates(options);
  const Choice before = choose_arithmetic(config, weights, options, /*fresh=*/false);
  EXPECT_EQ(before.name, names.front());
  EXPECT_TRUE(before.measured.empty());
  const Choice measured = choose_arithmetic(config, weights, options, /*fresh=*/true);
  ASSERT_EQ(measured.measured.size(), names.size());
  for (const Measured& one : measured.measured) {
    EXPECT_GT(one.seconds, 0);
    EXPECT_GT(one.error, 0);  // float32 against float64
    EXPECT_TRUE(one.accepted()) << one.name << " " << one.error;
  }
  const Choice again = choose_arithmetic(config, weights, options, /*fresh=*/false);
  EXPECT_EQ(again.name, measured.name);
  EXPECT_EQ(again.recorded, names.size() > 1);
  options.arithmetic = names.back();
  EXPECT_EQ(choose_arithmetic(config, weights, options, /*fresh=*/false).name, names.back());
  options.arithmetic = "nonsense";
  EXPECT_THROW(make_evaluator(config, weights, options), InputError);
}

TEST(Choice, OfKernelsThatAllFailIsNone) {
  const CacheFolder cache;
  const model::ModelConfig config = model::preset("nano", {"C", "Si"});
  model::Weights weights = model::random_weights(config, 1);
  const std::string name = "fitting_net.filter_layers.networks.0.output_layer.matrix";
  std::vector<double> matrix = weights.at(name).to<double>();
  for (double& element : matrix) element *= 1e60;  // float32 has no such numbers
  weights.set(name, model::HostTensor::from(matrix, weights.at(name).shape()));
  model::EvaluatorOptions options;
  options.precision = model::Precision::kFloat32;
  const Choice measured = choose_arithmetic(config, weights, options, /*fresh=*/true);
  EXPECT_EQ(measured.name, "");
  EXPECT_TRUE(measured.refusal(options));
  // It is remembered, too, where there is more than one set to choose from.
  const Choice again = choose_arithmetic(config, weights, options, /*fresh=*/false);
  EXPECT_EQ(again.refusal(options).has_value(), candidates(options).size() > 1);
  options.arithmetic = candidates(options).front();
  EXPECT_FALSE(choose_arithmetic(config, weights, options, /*fresh=*/false).refusal(options));
}

}  // namespace
}  // namespace dpa4::native::testing
