// SPDX-License-Identifier: GPL-2.0-or-later
// dpa4 bench and dpa4 tune, as a user runs them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "tests/tools/run_tool.h"

namespace dpa4::tools {
namespace {

using Json = nlohmann::json;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Bench, MeasuresTimeMemoryAndOperations) {
  const TemporaryFolder folder;
  const std::string result = folder.path("result.json");
  const ToolRun run =
      run_tool({"bench", "--device", "cpu", "--precision", "float32", "--memory", "min", "--repeat",
                "2", "--operations", "--compare-eager", "--json", result, "nano:8"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("nano (eager)"), std::string::npos) << run.out;
  const Json json = Json::parse(read_file(result));
  EXPECT_EQ(json["memory"], "min");
  ASSERT_EQ(json["rows"].size(), 2u);
  const Json& native = json["rows"][0];
  const Json& eager = json["rows"][1];
  EXPECT_EQ(native["model"], "nano");
  EXPECT_EQ(native["atoms"], 8);
  EXPECT_GT(native["median_s"], 0);
  EXPECT_LE(native["best_s"], native["median_s"]);
  EXPECT_GT(native["planned_bytes"], 0);
  EXPECT_GE(native["operations"].size(), 20u);
  // Two engines, one energy.
  EXPECT_EQ(native["edges"], eager["edges"]);
  EXPECT_NEAR(native["energy"].get<double>(), eager["energy"].get<double>(),
              1e-5 + 1e-4 * std::abs(eager["energy"].get<double>()));

  const std::string picture = folder.path("picture.svg");
  const std::string command =
      "python3 " + source_path("bench/plot_bench.py") + " " + result + " -o " + picture;
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string svg = read_file(picture);
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find("so2_stack"), std::string::npos);
}

TEST(Bench, RefusesWhatIsNoCase) {
  expect_refused(run_tool({"bench", "nano"}), "PRESET:ATOMS");
  expect_refused(run_tool({"bench", "nano:x"}), "PRESET:ATOMS");
  expect_refused(run_tool({"bench", "--device", "cpu", "--arithmetic", "split", "nano:8"}),
                 "arithmetic 'split' is not available here");
}

TEST(Tune, RecordsTheFastestKernels) {
  const TemporaryFolder folder;
  const char* before = getenv("XDG_CACHE_HOME");
  const std::string saved = before != nullptr ? before : "";
  setenv("XDG_CACHE_HOME", folder.path("cache").c_str(), 1);
  const ToolRun run = run_tool(
      {"tune", "--device", "cpu", "--precision", "float32", source_path("potentials/cu_nano.pt")});
  if (before != nullptr) {
    setenv("XDG_CACHE_HOME", saved.c_str(), 1);
  } else {
    unsetenv("XDG_CACHE_HOME");
  }
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("chosen"), std::string::npos) << run.out;
  EXPECT_EQ(run.out.find("refused"), std::string::npos) << run.out;
  EXPECT_NE(read_file(folder.path("cache/dpa4-lammps/choices")).find("end\n"), std::string::npos);
}

}  // namespace
}  // namespace dpa4::tools
