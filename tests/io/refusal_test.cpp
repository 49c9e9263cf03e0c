// SPDX-License-Identifier: GPL-2.0-or-later
// Files that are no DPA4 training checkpoints: each is told what it is, in one sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/io/checkpoint.h"
#include "tests/support/checkpoint_reading.h"
#include "tests/support/checkpoint_writer.h"

namespace dpa4::io {
namespace {

using dpa4::testing::CheckpointWriter;
using dpa4::testing::Py;
using dpa4::testing::refusal_of;
using dpa4::testing::tiny_params;
using dpa4::testing::tiny_tree;
using dpa4::testing::zip_archive;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::vector<char> content(const std::string& text) { return {text.begin(), text.end()}; }

/// One sentence: starts with the file, has no line break, shows nothing of LibTorch's or our
/// insides.
auto is_one_sentence() {
  return AllOf(StartsWith("model.pt: "), Not(HasSubstr("\n")), Not(HasSubstr("c10")),
               Not(HasSubstr("Exception")), Not(HasSubstr("internal error")));
}

struct Foreign {
  const char* name;
  std::vector<std::byte> bytes;
  const char* message;
};

class ForeignFile : public ::testing::TestWithParam<Foreign> {};

TEST_P(ForeignFile, IsRecognized) {
  const std::string message = refusal_of(GetParam().bytes);
  EXPECT_THAT(message, is_one_sentence());
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

std::vector<std::byte> random_bytes(std::size_t n) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  bytes[0] = std::byte{0xf1};
  return bytes;
}

std::vector<std::byte> tar_file() {
  std::vector<std::byte> bytes(1024);
  std::memcpy(bytes.data(), "model", 5);
  std::memcpy(bytes.data() + 257, "ustar", 5);
  return bytes;
}

std::string padded(std::string start) { return start + std::string(300, '\x01'); }

std::vector<std::byte> torchscript() {
  return zip_archive({{"frozen/data.pkl", content("\x80\x02N.")},
                      {"frozen/code/__torch__.py", content("def forward(self): ...")},
                      {"frozen/constants.pkl", content("\x80\x02).")}});
}

INSTANTIATE_TEST_SUITE_P(
    Formats, ForeignFile,
    ::testing::Values(
        Foreign{"TorchScript", torchscript(), "frozen TorchScript model (.pth)"},
        Foreign{"Exported",
                zip_archive({{"frozen/archive_format", content("pt2")},
                             {"frozen/data/aotinductor/model/a.so", content("x")}}),
                "frozen, compiled model (.pt2)"},
        Foreign{"NumpyArchive", zip_archive({{"coord.npy", content("x")}}), "NumPy archive (.npz)"},
        Foreign{"OtherArchive", zip_archive({{"word/document.xml", content("x")}}), "no data.pkl"},
        Foreign{"EmptyArchive", zip_archive({}), "no data.pkl"},
        Foreign{"TwoTrees",
                zip_archive({{"a/data.pkl", content("\x80\x02N.")},
                             {"b/data.pkl", content("\x80\x02N.")}}),
                "2 object trees"},
        Foreign{"OldTorchFormat",
                bytes_of(padded(
                    "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.")),
                "before torch 1.6"},
        Foreign{"PlainPickle", bytes_of("\x80\x04\x95\x0b\x01\x01}."), "plain Python pickle"},
        Foreign{"Numpy", bytes_of(padded("\x93NUMPY\x01\x01")), "NumPy array file"},
        Foreign{"Hdf5", bytes_of(padded("\x89HDF\r\n\x1a\n")), "HDF5 file"},
        Foreign{"Safetensors",
                bytes_of(std::string("\x20\0\0\0\0\0\0\0", 8) + "{\"w\":{\"dtype\":\"F32\"}}" +
                         std::string(64, 'x')),
                "safetensors"},
        Foreign{"TensorFlow",
                bytes_of(padded("\x0a\x30\x0a\x0a"
                                "descrpt_at"
                                "\x12\x05"
                                "Const")),
                "frozen TensorFlow graph"},
        Foreign{"Library",
                bytes_of(padded("\x7f"
                                "ELF")),
                "program or a library"},
        Foreign{"Gzip", bytes_of(padded("\x1f\x8b\x08")), "gzip"},
        Foreign{"Xz",
                bytes_of(padded("\xfd"
                                "7zXZ")),
                "xz"},
        Foreign{"Tar", tar_file(), "tar archive"},
        Foreign{"LfsPointer",
                bytes_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
                "git lfs pull"},
        Foreign{"WebPage", bytes_of("<!DOCTYPE html><html>404</html>"), "web page"},
        Foreign{"Text", bytes_of("{\"model\": 1}\n"), "text file"},
        Foreign{"Random", random_bytes(5000), "not a torch checkpoint"},
        Foreign{"OneByte", bytes_of("P"), "text file"}),
    [](const auto& info) { return info.param.name; });

// ----- torch files that hold something else

std::vector<std::byte> torch_file(const Py& tree) { return CheckpointWriter().finish(tree); }

INSTANTIATE_TEST_SUITE_P(
    TorchFiles, ForeignFile,
    ::testing::Values(
        Foreign{"WholeModel",
                torch_file(Py::call(Py::global("mace.modules.models", "ScaleShiftMACE"), {})),
                "class 'mace.modules.models.ScaleShiftMACE'"},
        Foreign{
            "ModelObject",
            torch_file(Py::dict({{"model", Py::call(Py::global("deepmd.pt.model", "SeZM"), {})}})),
            "class 'deepmd.pt.model.SeZM'"},
        Foreign{"ForeignDict", torch_file(Py::dict({{"state_dict", Py::dict()}})),
                "no entry 'model'"},
        Foreign{"List", torch_file(Py::list({1, 2})), "no DeePMD-kit model"},
        Foreign{"WeightsOnly", torch_file(Py::dict({{"model", Py::dict({{"layer.weight", 1}})}})),
                "_extra_state.model_params is missing"},
        Foreign{"NoOptions",
                torch_file(Py::dict({{"model", Py::dict({{"_extra_state", Py::dict()}})}})),
                "_extra_state.model_params"},
        Foreign{"OptionsAreText",
                torch_file(Py::dict(
                    {{"model", Py::dict({{"_extra_state", Py::dict({{"model_params", "x"}})}})}})),
                "model_params = 'x'"},
        Foreign{"System",
                torch_file(Py::dict({{"model", Py::call(Py::global("os", "system"), {"true"})}})),
                "'os.system'"},
        Foreign{
            "SystemInOptimizer",
            torch_file(Py::dict({{"model", Py::dict()},
                                 {"optimizer", Py::call(Py::global("builtins", "eval"), {"1"})}})),
            "'builtins.eval'"},
        Foreign{"BrokenTree", CheckpointWriter().finish(content("\x80\x02}X\xff")), "data.pkl"}),
    [](const auto& info) { return info.param.name; });

// ----- models of another kind, recognized by their arrays

std::string refusal_with_array(const std::string& name) {
  CheckpointWriter writer;
  Py tree = tiny_tree(writer, tiny_params());
  tree["model"]["model.Default.atomic_model." + name] = writer.add(std::vector<float>(2, 1), {2});
  return refusal_of(writer.finish(tree));
}

TEST(ForeignArrays, NameTheModelTheyBelongTo) {
  EXPECT_THAT(refusal_with_array("dens_fitting_net.force_head.weight"),
              HasSubstr("direct-force (dens)"));
  EXPECT_THAT(refusal_with_array("descriptor.pair_film.weight"), HasSubstr("DPA4C"));
  EXPECT_THAT(refusal_with_array("descriptor.blocks.0.ffns.0.pointwise_grid_mlp.linear_1.weight"),
              HasSubstr("before June 2026"));
  EXPECT_THAT(refusal_with_array("models.0.descriptor.weight"), HasSubstr("dp --pt-expt"));
  EXPECT_THAT(refusal_with_array("descriptor.some_layer.w"), HasSubstr("named in two ways"));
}

TEST(ForeignArrays, AnotherModelsOptionsAreNamed) {
  CheckpointWriter writer;
  Py params = tiny_params();
  Py tree = tiny_tree(writer, params);
  tree["model"]["_extra_state"]["model_params"]["descriptor"]["type"] = "dpa3";
  EXPECT_THAT(refusal_of(writer.finish(tree)), HasSubstr("descriptor.type = 'dpa3'"));
}

// ----- the file system

std::string refusal_of_path(const std::string& path) {
  NullLogger log;
  try {
    read_checkpoint(path, {}, log);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

class OnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "dpa4-io-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text) const {
    std::ofstream(folder_ + "/model.pt", std::ios::binary) << text;
    return folder_ + "/model.pt";
  }

  std::string folder_;
};

TEST_F(OnDisk, MissingFile) {
  EXPECT_EQ(refusal_of_path(folder_ + "/model.pt"), folder_ + "/model.pt: no such file");
}

TEST_F(OnDisk, Folder) { EXPECT_THAT(refusal_of_path(folder_), HasSubstr("is a directory")); }

TEST_F(OnDisk, EmptyFile) {
  EXPECT_THAT(refusal_of_path(write("")), HasSubstr("the file is empty"));
}

TEST_F(OnDisk, UnreadableFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const std::string path = write("PK");
  ::chmod(path.c_str(), 0);
  EXPECT_THAT(refusal_of_path(path), HasSubstr("no permission"));
}

TEST_F(OnDisk, NamedPipe) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refusal_of_path(path), HasSubstr("not a regular file"));
}

TEST_F(OnDisk, CutOffFile) {
  std::ifstream in(std::string(DPA4_SOURCE_DIR) + "/tests/data/golden/mini.pt", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(whole.size(), 100'000u);
  for (std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{100}}) {
    EXPECT_THAT(refusal_of_path(write(whole.substr(0, size))), HasSubstr("cut off")) << size;
  }
}

}  // namespace
}  // namespace dpa4::io
