// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/model/acceptance.h"
#include "tests/tools/run_tool.h"
#include "tools/reference_file.h"

namespace dpa4::tools {
namespace {

using Json = nlohmann::json;

std::vector<double> flat(const Json& rows) {
  std::vector<double> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value.get<double>());
  }
  return values;
}

/// A frame of `dpa4 eval --json --precision float64` against its reference.
void expect_equal(const Json& frame, const ReferenceFrame& expected) {
  const model::Acceptance limits = model::acceptance(model::Precision::kFloat64);
  const ReferenceResult& reference = expected.float64;
  const std::vector<double> virial = flat(frame.at("virial"));
  EXPECT_TRUE(model::compare({frame.at("energy").get<double>()}, {reference.energy}, limits.energy)
                  .accepted())
      << frame.at("energy") << " instead of " << reference.energy;
  EXPECT_TRUE(model::compare(flat(frame.at("force")), reference.force, limits.element).accepted());
  EXPECT_TRUE(model::compare(virial, reference.virial, limits.element).accepted());
  EXPECT_TRUE(model::compare(frame.at("atom_energy").get<std::vector<double>>(),
                             reference.atom_energy, limits.element)
                  .accepted());
  const graph::Cell& cell = expected.structure.cell;
  if (!cell.periodic[0]) {
    EXPECT_TRUE(frame.at("stress").is_null()) << "an open system has no volume";
    return;
  }
  const std::vector<double> stress = flat(frame.at("stress"));
  ASSERT_EQ(stress.size(), 9u);
  for (int k = 0; k < 9; ++k) {
    EXPECT_NEAR(stress[k] * cell.volume(), -virial[k], 1e-12 * std::abs(virial[k]));
  }
}

Json eval_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"eval", "--json", "--precision", "float64"});
  const ToolRun run = run_tool(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  return run.exit_code == 0 ? Json::parse(run.out) : Json();
}

TEST(Eval, XyzFramesMatchTheGoldenResults) {
  const ReferenceFile golden = read_reference_file(source_path("tests/data/golden/mini.json"));
  const TemporaryFolder folder;
  std::string text;
  for (const ReferenceFrame& frame : golden.frames) text += to_xyz(frame.structure);
  const Json json =
      eval_json({source_path("tests/data/golden/mini.pt"), folder.write("frames.xyz", text)});
  ASSERT_EQ(json.at("frames").size(), golden.frames.size());
  for (std::size_t k = 0; k < golden.frames.size(); ++k) {
    SCOPED_TRACE(golden.frames[k].structure.name);
    expect_equal(json.at("frames")[k], golden.frames[k]);
  }
}

TEST(Eval, ADataFileMatchesTheReference) {
  const ReferenceFile reference =
      read_reference_file(source_path("tests/data/reference/sic_mini.json"));
  const std::string model = source_path("potentials/sic_mini.pt");
  const std::string data = source_path("tests/data/reference/sic_mini.data");
  // The comments of its Masses name the elements.
  const Json json = eval_json({model, data, "--cohort", "997"});
  expect_equal(json.at("frames").at(0), reference.frames[0]);
  // The other way round, every silicon sits where carbon was.
  const Json swapped = eval_json({model, data, "--elements", "C,Si"});
  EXPECT_EQ(swapped.at("frames").at(0).at("elements").at(0), "C");
  EXPECT_GT(std::abs(swapped.at("frames").at(0).at("energy").get<double>() -
                     reference.frames[0].float64.energy),
            1e-3);
}

TEST(Eval, PrintsATable) {
  const ToolRun run = run_tool({"eval", source_path("potentials/sic_mini.pt"),
                                source_path("tests/data/reference/sic_mini.data")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_NE(run.out.find("frame 1: 216 atoms, 9936 edges\nenergy  -1364.89"), std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("stress"), std::string::npos);
  EXPECT_NE(run.out.find("\n     216 C "), std::string::npos) << run.out;
}

TEST(Eval, TakesConditions) {
  const TemporaryFolder folder;
  const ReferenceFile fparam = read_reference_file(source_path("tests/data/golden/fparam.json"));
  const std::string with_aparam = folder.write("a.xyz", to_xyz(fparam.frames[0].structure));
  const std::string model = source_path("tests/data/golden/fparam.pt");
  expect_equal(eval_json({model, with_aparam, "--fparam", "0.3,-0.7"}).at("frames").at(0),
               fparam.frames[0]);
  expect_refused(run_tool({"eval", model, with_aparam, "--fparam", "0.3"}), "fparam");
  Structure without = fparam.frames[0].structure;
  without.aparam.clear();
  expect_refused(
      run_tool({"eval", model, folder.write("b.xyz", to_xyz(without)), "--fparam", "0.3,-0.7"}),
      "aparam");

  const ReferenceFile spin = read_reference_file(source_path("tests/data/golden/chgspin.json"));
  const std::string structure = folder.write("c.xyz", to_xyz(spin.frames[0].structure));
  const std::string spin_model = source_path("tests/data/golden/chgspin.pt");
  expect_equal(
      eval_json({spin_model, structure, "--charge", "1", "--spin", "2"}).at("frames").at(0),
      spin.frames[0]);
  expect_refused(run_tool({"eval", source_path("tests/data/golden/mini.pt"), structure, "--charge",
                           "1", "--spin", "2"}),
                 "charge and spin");
  for (const auto& [charge, multiplicity] :
       {std::pair{"0.5", "2"}, std::pair{"100", "2"}, std::pair{"1", "-1"}}) {
    expect_refused(
        run_tool({"eval", spin_model, structure, "--charge", charge, "--spin", multiplicity}),
        "must be an integer from");
  }
}

TEST(Eval, AStructureWithoutAtomsIsLegal) {
  const TemporaryFolder folder;
  const Json json = eval_json(
      {source_path("tests/data/golden/mini.pt"), folder.write("none.xyz", "0\nno atoms\n")});
  EXPECT_EQ(json.at("frames").at(0).at("n_atoms"), 0);
  EXPECT_EQ(json.at("frames").at(0).at("energy"), 0.0);
}

TEST(Eval, RefusesWhatItCannotRead) {
  const std::string model = source_path("tests/data/golden/mini.pt");
  const TemporaryFolder folder;
  expect_refused(run_tool({"eval", model, "/nowhere/x.data"}),
                 "/nowhere/x.data: cannot open this file");
  expect_refused(run_tool({"eval", "/nowhere/m.pt", folder.write("ok.xyz", "1\n\nC 0 0 0\n")}),
                 "/nowhere/m.pt");
  const std::string broken = folder.write("broken.xyz", "2\n\nC 0 0 0\nC 0 0 zero\n");
  expect_refused(run_tool({"eval", model, broken}),
                 broken + ":4: 'zero' is not a number (position)");
  expect_refused(run_tool({"eval", model, folder.write("xe.xyz", "1\n\nXe 0 0 0\n")}), "'Xe'");
  expect_refused(run_tool({"eval", model, model}), model);
  expect_refused(
      run_tool(
          {"eval", model, folder.write("flat.xyz", "1\nLattice=\"1 0 0 0 1 0 1 1 0\"\nC 0 0 0\n")}),
      "no volume");
  expect_refused(
      run_tool({"eval", model, folder.write("ok.xyz", "1\n\nC 0 0 0\n"), "--head", "none"}),
      "head");
}

}  // namespace
}  // namespace dpa4::tools
