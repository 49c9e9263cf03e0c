// SPDX-License-Identifier: GPL-2.0-or-later
// What training can leave in a file besides one plain model: several heads, averaged weights,
// adapters, optimizer state, other number types, shared and strided storages, older and newer
// formats.
#include "src/io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "tests/support/checkpoint_reading.h"
#include "tests/support/checkpoint_writer.h"

namespace dpa4::io {
namespace {

using dpa4::testing::CheckpointWriter;
using dpa4::testing::Py;
using dpa4::testing::read_bytes;
using dpa4::testing::refusal_of;
using dpa4::testing::tiny_params;
using dpa4::testing::tiny_state;
using dpa4::testing::tiny_tree;
using dpa4::testing::tiny_weights;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CheckpointOptions kAveraged{std::nullopt, true};
const std::string kPrefix = "model.Default.atomic_model.";
const std::string kTable = "descriptor.type_embedding.adam_type_embedding";            // (3, 4)
const std::string kMix = "descriptor.blocks.0.so2_conv.pre_focus_mix.weight";          // (2, 4, 4)
const std::string kLinear0 = "descriptor.blocks.0.so2_conv.so2_linears.0.weight_m0";   // (8, 8)
const std::string kLinear1 = "descriptor.blocks.0.so2_conv.so2_linears.0.weight_m.0";  // (4, 8)

std::vector<float> floats(const Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.weights.at(name).to<float>();
}

void expect_same_weights(const model::Weights& actual, const model::Weights& expected) {
  ASSERT_EQ(actual.all().size(), expected.all().size());
  for (const auto& [name, tensor] : expected.all()) {
    EXPECT_EQ(actual.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(actual.at(name).to<double>(), tensor.to<double>()) << name;
  }
}

/// A tiny checkpoint whose state dict a test may change before it is written.
struct Draft {
  CheckpointWriter writer;
  Py tree = tiny_tree(writer, tiny_params());
  Py& state() { return tree["model"]; }
  Py& params() { return tree["model"]["_extra_state"]["model_params"]; }
  Py& array(const std::string& name) { return tree["model"][kPrefix + name]; }
  std::vector<std::byte> bytes() const { return writer.finish(tree); }
};

TEST(Checkpoint, WeightsAreThoseOfTheFile) {
  Draft draft;
  const Checkpoint checkpoint = read_bytes(draft.bytes());
  expect_same_weights(checkpoint.weights, tiny_weights(tiny_params()));
  EXPECT_EQ(checkpoint.config.format_version, 1.2);
  EXPECT_EQ(checkpoint.info.dialect, "pt");
  EXPECT_EQ(checkpoint.info.file_bytes, static_cast<std::int64_t>(draft.bytes().size()));
}

TEST(Checkpoint, EveryPickleProtocolGivesTheSame) {
  Draft draft;
  for (int protocol : {3, 4, 5}) {
    expect_same_weights(read_bytes(draft.writer.finish(draft.tree, protocol)).weights,
                        tiny_weights(tiny_params()));
  }
}

TEST(Checkpoint, ABareStateDictIsAccepted) {
  Draft draft;
  const Checkpoint checkpoint = read_bytes(draft.writer.finish(draft.state()));
  expect_same_weights(checkpoint.weights, tiny_weights(tiny_params()));
  EXPECT_FALSE(checkpoint.info.has_optimizer);
}

TEST(Checkpoint, FormatComesFromTheFile) {
  const auto format_of = [](double format) {
    Draft draft;
    draft.array("descriptor.version_tensor") = draft.writer.add(std::vector<double>{format}, {});
    return draft.bytes();
  };
  for (double format : {1.0, 1.1, 1.2, 1.3}) {
    EXPECT_EQ(read_bytes(format_of(format)).config.format_version, format);
  }
  EXPECT_THAT(refusal_of(format_of(1.4)), HasSubstr("version_tensor = 1.4"));
  EXPECT_THAT(refusal_of(format_of(0.5)), HasSubstr("formats 1.0 to 1.3"));
  EXPECT_THAT(refusal_of(format_of(std::nan(""))), HasSubstr("version_tensor"));

  Draft without;
  without.state().erase(kPrefix + "descriptor.version_tensor");
  EXPECT_EQ(read_bytes(without.bytes()).config.format_version, 1.0);
}

// ----- numbers

std::vector<char> half_bytes(const std::vector<std::uint16_t>& bits) {
  std::vector<char> bytes(bits.size() * 2);
  std::memcpy(bytes.data(), bits.data(), bytes.size());
  return bytes;
}

TEST(Checkpoint, HalfPrecisionBecomesFloat) {
  // 1, -2, 65504, smallest normal, smallest subnormal, -0, ...
  const std::vector<std::uint16_t> half = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000,
                                           0x3555, 0x3c01, 0x0000, 0x3800, 0x03ff, 0xfbff};
  Draft draft;
  const Py storage = draft.writer.add_storage(half_bytes(half), "HalfStorage", 12, "cuda:1");
  draft.array(kTable) = CheckpointWriter::view(storage, 0, {3, 4}, {4, 1});
  EXPECT_THAT(floats(read_bytes(draft.bytes()), kTable),
              ElementsAre(1, -2, 65504, 0x1p-14f, 0x1p-24f, -0.0f, 0x1.554p-2f, 1 + 0x1p-10f, 0,
                          0.5, 1023 * 0x1p-24f, -65504));
}

TEST(Checkpoint, BFloat16BecomesFloat) {
  const std::vector<std::uint16_t> bits = {0x3f80, 0xc000, 0x7f7f, 0x0080, 0x0001, 0x8000,
                                           0x3eab, 0x3f81, 0x0000, 0x3f00, 0x007f, 0xff7f};
  Draft draft;
  const Py storage = draft.writer.add_storage(half_bytes(bits), "BFloat16Storage", 12);
  draft.array(kTable) = CheckpointWriter::view(storage, 0, {3, 4}, {4, 1});
  const std::vector<float> values = floats(read_bytes(draft.bytes()), kTable);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::uint32_t wide = 0;
    std::memcpy(&wide, &values[i], sizeof wide);
    EXPECT_EQ(wide, static_cast<std::uint32_t>(bits[i]) << 16);
  }
}

TEST(Checkpoint, DoublesStayDoubles) {
  Draft draft;
  const std::vector<double> values(12, 1.0 / 3.0);
  draft.array(kTable) = draft.writer.add(values, {3, 4});
  EXPECT_EQ(read_bytes(draft.bytes()).weights.at(kTable).to<double>(), values);
}

TEST(Checkpoint, ViewsOfASharedStorageAreFollowed) {
  // One storage of 40 numbers 0, 1, 2, ...: a slice, and a transposed slice of it.
  std::vector<float> numbers(40);
  for (int i = 0; i < 40; ++i) numbers[i] = static_cast<float>(i);
  std::vector<char> bytes(160);
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  Draft draft;
  const Py storage = draft.writer.add_storage(bytes, "FloatStorage", 40, "cuda:7");
  draft.array(kTable) = CheckpointWriter::view(storage, 5, {3, 4}, {4, 1});
  draft.array("descriptor.radial_embedding.net.0.matrix") =
      CheckpointWriter::view(storage, 2, {3, 4}, {1, 3});
  const Checkpoint checkpoint = read_bytes(draft.bytes());
  EXPECT_THAT(floats(checkpoint, kTable), ElementsAre(5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16));
  EXPECT_THAT(floats(checkpoint, "descriptor.radial_embedding.net.0.matrix"),
              ElementsAre(2, 5, 8, 11, 3, 6, 9, 12, 4, 7, 10, 13));
}

TEST(Checkpoint, NumbersThatAreNotFiniteAreNamed) {
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Draft draft;
    std::vector<float> values(12, 1);
    values[7] = static_cast<float>(bad);
    draft.array(kTable) = draft.writer.add(values, {3, 4});
    EXPECT_THAT(refusal_of(draft.bytes()),
                HasSubstr(kPrefix + kTable + " holds a NaN or infinite"));
  }
}

TEST(Checkpoint, BrokenViewsAreRefused) {
  const auto refuse = [](std::int64_t numel, std::int64_t offset,
                         std::vector<std::int64_t> stride) {
    Draft draft;
    const Py storage = draft.writer.add_storage(std::vector<char>(64), "FloatStorage", numel);
    draft.array(kTable) = CheckpointWriter::view(storage, offset, {3, 4}, stride);
    return refusal_of(draft.bytes());
  };
  EXPECT_EQ(refuse(16, 0, {4, 1}), "accepted");
  EXPECT_THAT(refuse(16, 5, {4, 1}), HasSubstr("beyond its storage"));
  EXPECT_THAT(refuse(16, -1, {4, 1}), HasSubstr("beyond its storage"));
  EXPECT_THAT(refuse(16, 0, {4, -1}), HasSubstr("beyond its storage"));
  EXPECT_THAT(refuse(16, 0, {0, 1}), HasSubstr("beyond its storage"));
  EXPECT_THAT(refuse(16, 0, {INT64_MAX, INT64_MAX}), HasSubstr("beyond its storage"));
  EXPECT_THAT(refuse(16, INT64_MAX, {4, 1}), HasSubstr("beyond its storage"));
  EXPECT_THAT(refuse(16, 0, {1}), HasSubstr("beyond its storage"));
  EXPECT_THAT(refuse(11, 0, {4, 1}), HasSubstr("too few elements"));
  EXPECT_THAT(refuse(-1, 0, {4, 1}), HasSubstr("too few elements"));
  EXPECT_THAT(refuse(17, 0, {4, 1}), HasSubstr("not the number announced"));
  EXPECT_THAT(refuse(INT64_MAX, 0, {4, 1}), HasSubstr("not the number announced"));
}

TEST(Checkpoint, IntegersInPlaceOfWeightsAreRefused) {
  Draft draft;
  const Py storage = draft.writer.add_storage(std::vector<char>(96), "LongStorage", 12);
  draft.array(kTable) = CheckpointWriter::view(storage, 0, {3, 4}, {4, 1});
  EXPECT_THAT(refusal_of(draft.bytes()), HasSubstr("type int64"));
}

// ----- completeness

TEST(Checkpoint, AMissingArrayIsNamedWithItsShape) {
  Draft draft;
  draft.state().erase(kPrefix + kTable);
  EXPECT_THAT(refusal_of(draft.bytes()), HasSubstr("'" + kTable + "' of shape (3, 4) is missing"));
}

TEST(Checkpoint, AWrongShapeIsNamedWithTheRightOne) {
  Draft draft;
  draft.array(kTable) = draft.writer.add(std::vector<float>(12, 1), {4, 3});
  EXPECT_THAT(refusal_of(draft.bytes()),
              HasSubstr("has shape (4, 3), but the model's options need (3, 4)"));
}

TEST(Checkpoint, AnObjectInPlaceOfAWeightIsNamed) {
  Draft draft;
  draft.array(kTable) = Py::call(Py::global("foreign.module", "Thing"), {});
  EXPECT_THAT(refusal_of(draft.bytes()), HasSubstr("foreign.module.Thing"));
}

TEST(Checkpoint, UnknownTrainedArraysAreMentionedOnce) {
  Draft draft;
  draft.array("descriptor.new_feature.weight") = draft.writer.add(std::vector<float>(2, 1), {2});
  draft.array("descriptor.blocks.0.so2_conv.pre_focus_mix.expand_index") =
      draft.writer.add(std::vector<float>(2, 1), {2});
  dpa4::testing::RecordingLogger log;
  const auto bytes = draft.bytes();
  read_checkpoint(*view_bytes(bytes), "model.pt", {}, log);
  ASSERT_EQ(log.warnings.size(), 1u);
  EXPECT_THAT(log.warnings[0], HasSubstr("new_feature"));
  EXPECT_THAT(log.warnings[0], ::testing::Not(HasSubstr("expand_index")));
}

TEST(Checkpoint, AStorageThatIsMissingIsNamed) {
  Draft draft;
  draft.array(kTable) = CheckpointWriter::view(
      Py::persistent({"storage", Py::global("torch", "FloatStorage"), "999", "cpu", 12}), 0, {3, 4},
      {4, 1});
  EXPECT_THAT(refusal_of(draft.bytes()), HasSubstr("no member 'data/999'"));
}

// ----- heads

/// Two branches with the same options but different weights.
std::vector<std::byte> two_heads(const std::string& first_alias) {
  CheckpointWriter writer;
  Py first = tiny_params();
  first["model_branch_alias"] = Py::list({first_alias});
  Py second = tiny_params();
  second["model_branch_alias"] = Py::list({"molecules"});
  Py state = tiny_state(writer, first, "OMat24", 1);
  const Py other = tiny_state(writer, second, "SPICE2", 2);
  state.items.insert(state.items.end(), other.items.begin(), other.items.end());
  state["_extra_state"] = Py::dict(
      {{"model_params", Py::dict({{"model_dict", Py::dict({{"OMat24", first}, {"SPICE2", second}})},
                                  {"shared_dict", Py::dict()}})}});
  return writer.finish(Py::dict({{"model", state}}));
}

TEST(Checkpoint, AHeadIsChosenByNameAliasOrCase) {
  const auto bytes = two_heads("solids");
  for (const char* name : {"SPICE2", "spice2", "molecules", "Molecules"}) {
    const Checkpoint checkpoint = read_bytes(bytes, {.head = name});
    EXPECT_EQ(checkpoint.info.head, "SPICE2") << name;
    expect_same_weights(checkpoint.weights, tiny_weights(tiny_params(), 2));
  }
  const Checkpoint checkpoint = read_bytes(bytes, {.head = "solids"});
  EXPECT_EQ(checkpoint.info.head, "OMat24");
  EXPECT_THAT(checkpoint.info.heads, ElementsAre("OMat24", "SPICE2"));
  expect_same_weights(checkpoint.weights, tiny_weights(tiny_params(), 1));
}

TEST(Checkpoint, WithoutAHeadDefaultIsTaken) {
  EXPECT_EQ(read_bytes(two_heads("Default")).info.head, "OMat24");
  EXPECT_THAT(refusal_of(two_heads("solids")), HasSubstr("choose a head: OMat24, SPICE2"));
  EXPECT_THAT(refusal_of(two_heads("solids"), {.head = "x"}), HasSubstr("no head 'x'"));
}

TEST(Checkpoint, AHeadOfASingleModelIsRefused) {
  Draft draft;
  EXPECT_THAT(refusal_of(draft.bytes(), {.head = "OMat24"}), HasSubstr("single model"));
  EXPECT_EQ(refusal_of(draft.bytes(), {.head = "Default"}), "accepted");
}

// ----- averages, adapters, optimizer

TEST(Checkpoint, AveragedWeightsAreTakenOnRequest) {
  Draft draft;
  const model::Weights averages = tiny_weights(tiny_params(), 3);
  Py entries = Py::dict();
  for (const auto& [name, tensor] : averages.all()) {
    const bool parameter = name != "out_bias" && name != "fitting_net.bias_atom_e";
    if (parameter) entries["atomic_model." + name] = draft.writer.add(tensor);
  }
  draft.tree["ema"] =
      Py::dict({{"decay", 0.999}, {"model", entries}, {"validation_state", Py::dict()}});

  const Checkpoint plain = read_bytes(draft.bytes());
  EXPECT_TRUE(plain.info.has_ema);
  expect_same_weights(plain.weights, tiny_weights(tiny_params()));

  const Checkpoint averaged = read_bytes(draft.bytes(), kAveraged);
  EXPECT_EQ(floats(averaged, kTable), averages.at(kTable).to<float>());
  EXPECT_EQ(averaged.weights.at("out_bias").to<double>(),
            tiny_weights(tiny_params()).at("out_bias").to<double>());

  draft.tree["ema"]["model"].erase("atomic_model." + kTable);
  EXPECT_THAT(refusal_of(draft.bytes(), kAveraged), HasSubstr(kTable));
}

TEST(Checkpoint, AveragedWeightsThatAreNotThereAreRefused) {
  Draft draft;
  EXPECT_FALSE(read_bytes(draft.bytes()).info.has_ema);
  EXPECT_THAT(refusal_of(draft.bytes(), kAveraged), HasSubstr("no averaged weights"));
}

TEST(Checkpoint, AdaptersAreFoldedIntoTheirWeights) {
  constexpr double kScaling = 0.5;
  Draft draft;
  const std::string mix = kMix.substr(0, kMix.size() - 6);
  const std::string linear = kLinear0.substr(0, kLinear0.size() - 9);
  std::vector<float> a(8), b(8), a0(8), b0(8), a1(4), b1(8);
  for (std::size_t i = 0; i < 8; ++i) {
    a[i] = 0.1f * static_cast<float>(i) - 0.3f;
    b[i] = 0.2f * static_cast<float>(i) - 0.5f;
    a0[i] = a[i] + 1;
    b0[i] = b[i] - 1;
    b1[i] = b[i] + 2;
    if (i < 4) a1[i] = a[i] - 2;
  }
  draft.array(mix + "A_by_l") = draft.writer.add(a, {2, 1, 4});
  draft.array(mix + "B_by_l") = draft.writer.add(b, {2, 4, 1});
  draft.array(mix + "lora_scaling") = draft.writer.add(std::vector<float>{kScaling}, {});
  draft.array(linear + "A_m0") = draft.writer.add(a0, {1, 8});
  draft.array(linear + "B_m0") = draft.writer.add(b0, {8, 1});
  draft.array(linear + "A_m.0") = draft.writer.add(a1, {1, 4});
  draft.array(linear + "B_m.0") = draft.writer.add(b1, {8, 1});

  const Checkpoint checkpoint = read_bytes(draft.bytes());
  EXPECT_TRUE(checkpoint.info.lora_folded);
  const model::Weights base = tiny_weights(tiny_params());
  const auto expect = [&](const std::string& name, std::size_t at, double change) {
    // one rounding to float32
    EXPECT_NEAR(floats(checkpoint, name)[at], base.at(name).to<double>()[at] + change, 3e-7);
  };
  for (std::size_t l = 0; l < 2; ++l) {
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t o = 0; o < 4; ++o) {
        expect(kMix, (l * 4 + i) * 4 + o, kScaling * a[l * 4 + i] * b[l * 4 + o]);
      }
    }
  }
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t o = 0; o < 8; ++o) {
      expect(kLinear0, i * 8 + o, double{a0[i]} * b0[o]);
      if (i < 4) expect(kLinear1, i * 8 + o, double{a1[i]} * b1[o]);
    }
  }
}

TEST(Checkpoint, AnAdapterWithoutItsCounterpartIsRefused) {
  Draft draft;
  const std::string mix = kMix.substr(0, kMix.size() - 6);
  draft.array(mix + "A_by_l") = draft.writer.add(std::vector<float>(8, 1), {2, 1, 4});
  EXPECT_THAT(refusal_of(draft.bytes()), HasSubstr("A_by_l has no counterpart"));
  draft.array(mix + "B_by_l") = draft.writer.add(std::vector<float>(8, 1), {2, 2, 2});
  EXPECT_THAT(refusal_of(draft.bytes()), HasSubstr("B_by_l has shape"));
}

/// Adds up what is read of a source.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  std::uint64_t size() const override { return source_->size(); }
  void read(std::uint64_t offset, void* to, std::size_t n) const override {
    bytes_read_ += n;
    source_->read(offset, to, n);
  }
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::unique_ptr<ByteSource> source_;
  mutable std::uint64_t bytes_read_ = 0;
};

TEST(Checkpoint, OptimizerStateIsNotRead) {
  const std::string folder = std::string(DPA4_SOURCE_DIR) + "/potentials/";
  NullLogger log;
  const CountingSource plain(open_file(folder + "cu_nano.pt"));
  const CountingSource training(open_file(folder + "cu_nano_with_optimizer.pt"));
  const Checkpoint expected = read_checkpoint(plain, "cu_nano.pt", {}, log);
  const Checkpoint actual = read_checkpoint(training, "cu_nano_with_optimizer.pt", {}, log);
  EXPECT_TRUE(actual.info.has_optimizer);
  EXPECT_FALSE(expected.info.has_optimizer);
  expect_same_weights(actual.weights, expected.weights);

  // The object tree and the archive's directory list the optimizer's arrays; their numbers, more
  // than the weights, are left alone.
  std::uint64_t weights = 0;
  for (const auto& [name, tensor] : expected.weights.all()) weights += 4 * tensor.size();
  EXPECT_GT(training.size() - plain.size(), weights);
  EXPECT_LT(training.bytes_read(), plain.bytes_read() + 150'000);
}

TEST(Checkpoint, ForeignObjectsInIgnoredPartsAreSkipped) {
  Draft draft;
  draft.tree["optimizer"] =
      Py::dict({{"state", Py::call(Py::global("some.package", "State"), {1})}});
  draft.tree["scheduler"] = Py::call(Py::global("torch.optim.lr_scheduler", "LambdaLR"), {});
  EXPECT_EQ(refusal_of(draft.bytes()), "accepted");
}

// ----- conditions

TEST(Checkpoint, TheStoredDefaultOfFparamWins) {
  Draft draft;
  draft.params()["fitting_net"]["numb_fparam"] = 2;
  draft.params()["fitting_net"]["default_fparam"] = Py::list({0.1, 0.2});
  const Py params = draft.params();
  CheckpointWriter writer;
  Py tree = tiny_tree(writer, params);
  EXPECT_EQ(read_bytes(writer.finish(tree)).config.default_fparam, (std::vector<double>{0.1, 0.2}));
  tree["model"][kPrefix + "fitting_net.default_fparam_tensor"] =
      writer.add(std::vector<float>{0.25f, 0.5f}, {2});
  EXPECT_EQ(read_bytes(writer.finish(tree)).config.default_fparam,
            (std::vector<double>{0.25, 0.5}));
}

}  // namespace
}  // namespace dpa4::io
