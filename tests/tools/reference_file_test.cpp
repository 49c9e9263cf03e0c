// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/reference_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/base/error.h"

namespace dpa4::tools {
namespace {

const std::string kData = std::string(DPA4_SOURCE_DIR) + "/tests/data/";

TEST(ReferenceFile, ReadsGoldenFrames) {
  const ReferenceFile file = read_reference_file(kData + "golden/fparam.json");
  EXPECT_EQ(file.model, "fparam.pt");
  EXPECT_EQ(file.rcut, 6.0);
  EXPECT_EQ(file.type_map, (std::vector<std::string>{"Si", "C", "O"}));
  ASSERT_EQ(file.frames.size(), 3u);

  const ReferenceFrame& frame = file.frames[0];
  EXPECT_EQ(frame.structure.name, "triclinic");
  EXPECT_EQ(frame.structure.n_atoms(), 10);
  EXPECT_EQ(frame.structure.element[2], "C");
  EXPECT_EQ(frame.structure.fparam, (std::vector<double>{0.3, -0.7}));
  EXPECT_EQ(frame.structure.aparam.size(), 10u);
  EXPECT_EQ(frame.structure.aparam[0], -1.0);
  EXPECT_EQ(frame.float64.force.size(), 30u);
  EXPECT_EQ(frame.float64.atom_virial.size(), 90u);
  EXPECT_TRUE(frame.float32.has_value());
  EXPECT_EQ(frame.structure.cell.periodic, (std::array<bool, 3>{true, true, true}));
  EXPECT_EQ(file.frames[2].structure.cell.periodic, (std::array<bool, 3>{false, false, false}));

  const ReferenceFile spin = read_reference_file(kData + "golden/chgspin.json");
  EXPECT_EQ(spin.frames[0].structure.charge_spin, (std::array<double, 2>{1, 2}));
}

TEST(ReferenceFile, ReadsTheStartOfATrajectory) {
  const ReferenceFile file = read_reference_file(kData + "reference/water_mini.json");
  ASSERT_EQ(file.frames.size(), 1u);
  const ReferenceFrame& frame = file.frames[0];
  EXPECT_EQ(frame.structure.n_atoms(), 192);
  EXPECT_EQ(frame.structure.element[0], "O");
  EXPECT_EQ(frame.structure.element[1], "H");
  EXPECT_EQ(frame.float64.force.size(), 576u);
  EXPECT_TRUE(frame.float64.atom_virial.empty());
  EXPECT_EQ(frame.float64.n_edges, 17350);
}

TEST(ReferenceFile, FindsItsModel) {
  const ReferenceFile golden = read_reference_file(kData + "golden/pt_expt/mini.json");
  EXPECT_TRUE(std::filesystem::equivalent(find_model(golden), kData + "golden/pt_expt/mini.pt"));
  const ReferenceFile trajectory = read_reference_file(kData + "reference/cu_nano.json");
  EXPECT_TRUE(std::filesystem::equivalent(find_model(trajectory),
                                          std::string(DPA4_SOURCE_DIR) + "/potentials/cu_nano.pt"));
}

class BrokenFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string error_of(const std::string& text) {
    std::ofstream(path_) << text;
    try {
      find_model(read_reference_file(path_));
    } catch (const InputError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.rfind(path_, 0), 0u) << message;
      return message.substr(path_.size());
    }
    return "no error";
  }

  std::string path_ = testing::TempDir() + "dpa4_broken_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

TEST_F(BrokenFile, ErrorsNameTheKey) {
  const std::string head = R"({"model": "m.pt", "rcut": 6, "type_map": ["C"], )";
  const std::string result = R"({"energy": 1, "force": [[0,0,0]], "virial": [0,0,0,0,0,0,0,0,0]})";
  const std::string atom = R"("type": [0], "coord": [[0,0,0]], )";
  EXPECT_EQ(error_of("[1, 2]"), ": expected an object");
  EXPECT_EQ(error_of("{}"), ": key 'model' is missing");
  EXPECT_EQ(error_of(R"({"model": 3})"), ": model: expected a string");
  EXPECT_EQ(error_of(head + R"("other": 1})"),
            ": neither 'frames' nor 'step0': not a file of reference results");
  EXPECT_EQ(error_of(head + R"("frames": []})"), ": 'frames' is empty");
  EXPECT_EQ(error_of(head + R"("frames": [{"type": [1]}]})"),
            ": frames[0]: type[0]: no such entry in type_map");
  EXPECT_EQ(error_of(head + R"("frames": [{"type": [1.5]}]})"),
            ": frames[0]: type[0]: expected a whole number from 0");
  EXPECT_EQ(error_of(head + R"("frames": [{"type": [0], "coord": [[0,0]]}]})"),
            ": frames[0]: coord: expected 3 numbers, found 2");
  EXPECT_EQ(
      error_of(head + "\"frames\": [{" + atom + "\"float64\": " + result + ", \"cell\": [1]}]}"),
      ": frames[0]: cell: expected 9 numbers, found 1");
  EXPECT_EQ(error_of(head + "\"frames\": [{" + atom + R"("float64": {"energy": null}}]})"),
            ": frames[0]: float64: key 'energy' is missing");
  EXPECT_EQ(error_of(head + "\"frames\": [{" + atom +
                     R"("float64": {"energy": 1, "force": [[0, null, 0]]}}]})"),
            ": frames[0]: float64: force: expected numbers");
  EXPECT_EQ(error_of("{\"model\": ").rfind(": not a JSON file: parse error at line 1", 0), 0u);
  EXPECT_EQ(error_of(""), ": this file is empty");
}

TEST_F(BrokenFile, DeepNestingIsRefused) {
  const std::string head = R"({"model": "m.pt", "rcut": 6, "type_map": ["C"], )";
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(error_of(head + R"("frames": [{"type": [0], "coord": )" + deep + "}]}"),
            ": frames[0]: coord: expected numbers");
}

TEST_F(BrokenFile, AMissingModelListsThePlacesTried) {
  const std::string error = error_of(
      R"({"model": "gone.pt", "rcut": 6, "type_map": ["C"], "frames": [{"type": [0], "coord": [0,0,0],
          "float64": {"energy": 1, "force": [0,0,0], "virial": [0,0,0,0,0,0,0,0,0]}}]})");
  EXPECT_NE(error.find("gone.pt'"), std::string::npos) << error;
  EXPECT_NE(error.find("potentials/gone.pt'"), std::string::npos) << error;
  EXPECT_NE(error.find("--model"), std::string::npos) << error;
}

}  // namespace
}  // namespace dpa4::tools
