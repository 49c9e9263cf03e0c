// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/tools/run_tool.h"

namespace dpa4::tools {
namespace {

using Json = nlohmann::json;

const std::string kMini = source_path("tests/data/golden/mini.json");
const std::string kModel = source_path("tests/data/golden/mini.pt");

int count_lines(const std::string& text, const std::string& start) {
  int count = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    if (text.compare(at, start.size(), start) == 0) ++count;
  }
  return count;
}

TEST(Check, PassesOnGoldenFilesAndTrajectories) {
  for (const char* precision : {"float32", "float64"}) {
    const ToolRun run = run_tool({"check", "--precision", precision, kMini,
                                  source_path("tests/data/golden/pt_expt/nano.json"),
                                  source_path("tests/data/golden/chgspin.json"),
                                  source_path("tests/data/golden/fparam.json"),
                                  source_path("tests/data/reference/cu_nano.json")});
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_EQ(run.err, "");
    EXPECT_EQ(count_lines(run.out, "pass  "), 13) << run.out;
    EXPECT_EQ(count_lines(run.out, "FAIL"), 0);
    EXPECT_NE(run.out.find("largest error of atom_virial"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("13 frames evaluated [13 by "), std::string::npos) << run.out;
  }
}

TEST(Check, DoesNotDependOnTheCohort) {
  for (const char* cohort : {"1", "37", "1000000"}) {
    const ToolRun run = run_tool({"check", "--engine", "eager", "--device", "cpu", "--precision",
                                  "float64", "--cohort", cohort, kMini});
    EXPECT_EQ(run.exit_code, 0) << cohort << run.out << run.err;
  }
}

/// The golden file with one number changed.
ToolRun check_changed(const std::string& precision, const std::function<void(Json&)>& change) {
  Json json = Json::parse(std::ifstream(kMini));
  change(json);
  const TemporaryFolder folder;
  return run_tool({"check", "--precision", precision, "--model", kModel,
                   folder.write("mini.json", json.dump())});
}

void add(Json& number, double difference) { number = number.get<double>() + difference; }

TEST(Check, FailsOnEachQuantityThatIsOff) {
  struct Case {
    const char* precision;
    const char* message;
    std::function<void(Json&)> change;  // of the result of one frame
  };
  const Case cases[] = {
      {"float64",
       "energy: ", [](Json& r) { r["energy"] = r["energy"].get<double>() * (1 + 3e-10); }},
      {"float64", "force of atom 3, y: ", [](Json& r) { add(r["force"][2][1], 1e-7); }},
      {"float64", "virial, xz: ", [](Json& r) { add(r["virial"][0][2], 1e-7); }},
      {"float64", "atom_energy of atom 5: ", [](Json& r) { add(r["atom_energy"][4], 1e-4); }},
      {"float64",
       "atom_virial of atom 2, zx: ", [](Json& r) { add(r["atom_virial"][1][6], 1e-7); }},
      {"float32", "force of atom 3, y: ", [](Json& r) { add(r["force"][2][1], 1e-2); }},
      {"float32", "virial, xz: ", [](Json& r) { add(r["virial"][0][2], 1e-1); }},
  };
  for (const Case& c : cases) {
    const ToolRun run =
        check_changed(c.precision, [&c](Json& json) { c.change(json["frames"][0]["float64"]); });
    EXPECT_EQ(run.exit_code, 1) << c.message << run.out << run.err;
    EXPECT_EQ(count_lines(run.out, "FAIL  mini.json triclinic"), 1) << run.out;
    EXPECT_EQ(count_lines(run.out, "pass  "), 2) << run.out;
    EXPECT_NE(run.out.find(c.message), std::string::npos) << c.message << run.out;
    EXPECT_NE(run.out.find("1 outside the acceptance"), std::string::npos) << run.out;
  }
}

TEST(Check, AcceptsWhatTheAcceptanceAllows) {
  const ToolRun run = check_changed("float64", [](Json& json) {
    Json& result = json["frames"][0]["float64"];
    result["energy"] = result["energy"].get<double>() * (1 + 3e-11);
    add(result["force"][2][1], 5e-10);
  });
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST(Check, RefusesUnusableFilesAndGoesOn) {
  const ToolRun run = run_tool({"check", "/nowhere/a.json", kMini});
  expect_refused(run, "/nowhere/a.json: cannot open this file");
  EXPECT_EQ(count_lines(run.out, "pass  "), 3) << run.out;
  expect_refused(run_tool({"check", kModel}), "not a JSON file");
  expect_refused(
      check_changed("float64", [](Json& json) { json["frames"][0]["float64"]["energy"] = Json(); }),
      "energy");
  // Another model, with another cutoff.
  expect_refused(run_tool({"check", "--model", source_path("potentials/sic_mini.pt"), kMini}),
                 "cutoff");
}

}  // namespace
}  // namespace dpa4::tools
