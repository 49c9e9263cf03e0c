// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "src/base/error.h"
#include "tests/support/pickle_writer.h"

namespace dpa4::io::pickle {
namespace {

using dpa4::testing::Py;
using ::testing::HasSubstr;

std::vector<char> raw(const std::string& text) { return {text.begin(), text.end()}; }

std::string error_of(std::vector<char> bytes) {
  try {
    parse(std::move(bytes), "model.pt");
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

Py storage(const std::string& type = "FloatStorage") {
  return Py::persistent({"storage", Py::global("torch", type), "7", "cuda:3", 12});
}

Py tensor(std::vector<Py> arguments) {
  return Py::call(Py::global("torch._utils", "_rebuild_tensor_v2"), std::move(arguments));
}

class EveryProtocol : public ::testing::TestWithParam<int> {};

TEST_P(EveryProtocol, PlainObjectsComeBack) {
  const Py object = Py::dict({{"none", Py()},
                              {"yes", true},
                              {"small", 200},
                              {"negative", -70000},
                              {"wide", std::int64_t{1} << 40},
                              {"real", 0.1},
                              {"text", "Si"},
                              {"list", Py::list({1, "a", Py::list()})},
                              {"tuple", Py::tuple({1, 2, 3, 4})}});
  const auto document = parse(dpa4::testing::pickle(object, GetParam()), "model.pt");
  const Dict& dict = document->root().dict();
  EXPECT_TRUE(dict.find("none")->is(Kind::kNone));
  EXPECT_TRUE(dict.find("yes")->is(Kind::kBool) && dict.find("yes")->boolean());
  EXPECT_EQ(dict.find("small")->integer(), 200);
  EXPECT_EQ(dict.find("negative")->integer(), -70000);
  EXPECT_EQ(dict.find("wide")->integer(), std::int64_t{1} << 40);
  EXPECT_EQ(dict.find("real")->real(), 0.1);
  EXPECT_EQ(dict.find("text")->text(), "Si");
  EXPECT_EQ(dict.find("list")->items().size(), 3u);
  EXPECT_EQ(dict.find("tuple")->items()[3].integer(), 4);
  EXPECT_EQ(dict.find("absent"), nullptr);
}

TEST_P(EveryProtocol, TensorsAreDescribedAndNotRead) {
  const Py object = tensor({storage(), 2, Py::ints({3, 2}), Py::ints({2, 1}), false, Py::dict()});
  const auto document = parse(dpa4::testing::pickle(object, GetParam()), "model.pt");
  const Tensor& read = document->root().tensor();
  EXPECT_EQ(read.type, ScalarType::kFloat32);
  EXPECT_EQ(read.storage->key, "7");
  EXPECT_EQ(read.storage->numel, 12);
  EXPECT_EQ(read.offset, 2);
  EXPECT_EQ(read.shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(read.stride, (std::vector<std::int64_t>{2, 1}));
}

INSTANTIATE_TEST_SUITE_P(Protocols, EveryProtocol, ::testing::Values(2, 3, 4, 5));

TEST(Pickle, ParametersAndTypedViewsAreTensors) {
  const Py plain = tensor({storage(), 0, Py::ints({12}), Py::ints({1}), false, Py()});
  const Py parameter =
      Py::call(Py::global("torch._utils", "_rebuild_parameter"), {plain, true, Py()});
  const auto first = parse(dpa4::testing::pickle(parameter), "model.pt");
  EXPECT_EQ(first->root().tensor().shape, std::vector<std::int64_t>{12});

  const Py typed = Py::call(Py::global("torch._utils", "_rebuild_tensor_v3"),
                            {storage("UntypedStorage"), 0, Py::ints({6}), Py::ints({1}), false,
                             Py(), Py::global("torch", "bfloat16")});
  const auto second = parse(dpa4::testing::pickle(typed), "model.pt");
  EXPECT_EQ(second->root().tensor().type, ScalarType::kBFloat16);
}

TEST(Pickle, OrderedDictKeepsItsEntriesAndIgnoresAttributes) {
  // OrderedDict() with {"a": 1} set, then BUILD with an attribute dict, as a state dict is written.
  const std::string text = std::string("\x80\x02") + "ccollections\nOrderedDict\n)R(X\x01" +
                           std::string(3, '\0') + "aK\x01u" + "}X\x09" + std::string(3, '\0') +
                           "_metadataNsb.";
  const auto document = parse(raw(text), "model.pt");
  ASSERT_TRUE(document->root().is(Kind::kDict));
  EXPECT_EQ(document->root().dict().find("a")->integer(), 1);
}

TEST(Pickle, ForeignClassesBecomeOpaqueAndAreNotBuilt) {
  const Py object = Py::call(Py::global("some.optimizer", "State"), {1, "x"});
  const auto document = parse(dpa4::testing::pickle(object), "model.pt");
  EXPECT_TRUE(document->root().is(Kind::kOpaque));
  EXPECT_EQ(document->root().global_name(), "some.optimizer.State");
}

class Forbidden : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Forbidden, IsRefusedByNameWhereverItStands) {
  const auto [module, name] = GetParam();
  for (int protocol : {2, 4}) {
    const Py call = Py::call(Py::global(module, name), {"touch dpa4-was-here"});
    const Py hidden = Py::dict({{"model", Py::dict()}, {"optimizer", Py::list({call})}});
    EXPECT_THAT(error_of(dpa4::testing::pickle(hidden, protocol)),
                HasSubstr(std::string("'") + module + "." + name + "'"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Names, Forbidden,
    ::testing::Values(std::pair{"os", "system"}, std::pair{"posix", "system"},
                      std::pair{"nt", "system"}, std::pair{"subprocess", "Popen"},
                      std::pair{"builtins", "eval"}, std::pair{"__builtin__", "exec"},
                      std::pair{"builtins", "getattr"}, std::pair{"importlib", "import_module"},
                      std::pair{"runpy", "run_path"}, std::pair{"os.path", "join"},
                      std::pair{"torch.hub", "load"}, std::pair{"torch", "load"},
                      std::pair{"operator", "attrgetter"}));

TEST(Pickle, DeepNestingNeedsNoStack) {
  const int depth = 300'000;
  std::string lists = "\x80\x02";
  lists += std::string(depth, ']') + std::string(depth - 1, 'a') + ".";
  EXPECT_TRUE(parse(raw(lists), "model.pt")->root().is(Kind::kList));
  const std::string tuples = std::string("\x80\x02N") + std::string(depth, '\x85') + ".";
  EXPECT_TRUE(parse(raw(tuples), "model.pt")->root().is(Kind::kTuple));
}

TEST(Pickle, ObjectsThatContainThemselvesAreHarmless) {
  const std::string text = std::string("\x80\x02]q\x00h\x00", 7) + "a.";
  const auto document = parse(raw(text), "model.pt");
  EXPECT_EQ(document->root().items()[0].items().size(), 1u);
}

struct Damaged {
  const char* name;
  std::string bytes;
};

class DamagedPickle : public ::testing::TestWithParam<Damaged> {};

TEST_P(DamagedPickle, IsRefused) {
  EXPECT_THAT(error_of(raw(GetParam().bytes)), HasSubstr("data.pkl"));
}

const std::string kStart = "\x80\x02";
INSTANTIATE_TEST_SUITE_P(
    All, DamagedPickle,
    ::testing::Values(
        Damaged{"Empty", ""}, Damaged{"NoProtocol", "N."}, Damaged{"NoStop", kStart + "N"},
        Damaged{"StopOnNothing", kStart + "."}, Damaged{"PopOnNothing", kStart + "0."},
        Damaged{"UnknownOpcode", kStart + "\xff."}, Damaged{"Protocol0Opcode", kStart + "I1\n."},
        Damaged{"MarkMissing", kStart + "Nt."}, Damaged{"MarkAsValue", kStart + "(a."},
        Damaged{"UnknownMemo", kStart + "h\x05."}, Damaged{"OddItems", kStart + "}(Nu."},
        Damaged{"ItemOfNumber", kStart + "K\x01NNs."},
        Damaged{"AppendToNumber", kStart + "K\x01Na."},
        Damaged{"CallOfNumber", kStart + "K\x01)R."},
        Damaged{"CallWithoutTuple", kStart + "ca\nb\nNR."},
        Damaged{"NameWithoutEnd", kStart + "cos"}, Damaged{"PersistentNumber", kStart + "K\x01Q."},
        Damaged{"TextTooLong", kStart + "X\xff\xff\xff\xff" + "abc."},
        Damaged{"TextFarTooLong", kStart + "\x8d" + std::string(8, '\xff') + "abc."},
        Damaged{"BytesTooLong", kStart + "\x8e" + std::string(7, '\xff') + "\x7f" + "abc."},
        Damaged{"LongTooLong", kStart + "\x8b\xff\xff\xff\xff" + "abc."}),
    [](const auto& info) { return info.param.name; });

TEST(Pickle, NewerProtocolIsNamed) {
  EXPECT_THAT(error_of(raw("\x80\x06N.")), HasSubstr("protocol 6"));
}

TEST(Pickle, BrokenTensorsAreRefused) {
  const auto error = [](std::vector<Py> arguments) {
    return error_of(dpa4::testing::pickle(tensor(std::move(arguments))));
  };
  EXPECT_THAT(error({}), HasSubstr("tensor"));
  EXPECT_THAT(error({1, 0, Py::ints({1}), Py::ints({1})}), HasSubstr("tensor"));
  EXPECT_THAT(error({storage(), "x", Py::ints({1}), Py::ints({1})}), HasSubstr("tensor"));
  EXPECT_THAT(error({storage(), 0, 5, Py::ints({1})}), HasSubstr("shape"));
  EXPECT_THAT(error({storage(), 0, Py::tuple({0.5}), Py::ints({1})}), HasSubstr("shape"));
  EXPECT_THAT(error({storage(), 0, Py::ints(std::vector<std::int64_t>(1000, 1)), Py::ints({1})}),
              HasSubstr("shape"));
}

}  // namespace
}  // namespace dpa4::io::pickle
