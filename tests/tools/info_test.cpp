// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "tests/tools/run_tool.h"

namespace dpa4::tools {
namespace {

using Json = nlohmann::json;

TEST(Help, IsThereForEveryCommand) {
  const ToolRun all = run_tool({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const char* command : {"info", "eval", "check", "tune", "bench"}) {
    EXPECT_NE(all.out.find(std::string("  ") + command + " "), std::string::npos) << all.out;
    const ToolRun run = run_tool({command, "--help"});
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_NE(run.out.find(std::string("Usage: dpa4 ") + command), std::string::npos) << run.out;
    EXPECT_EQ(run.err, "");
  }
  EXPECT_EQ(run_tool({"--version"}).exit_code, 0);
}

TEST(Usage, AWrongCommandLineGetsAUsageLine) {
  for (const auto& [arguments, message, usage] :
       {std::tuple{std::vector<std::string>{}, "required", "Usage: dpa4 info | eval | check"},
        {{"evaluate"}, "'evaluate' is no command", "Usage: dpa4 info | eval | check"},
        {{"info"}, "MODEL", "Usage: dpa4 info MODEL"},
        {{"info", "a.pt", "--build"}, "either", "Usage: dpa4 info MODEL"},
        {{"eval", "a.pt"}, "STRUCTURE", "Usage: dpa4 eval MODEL STRUCTURE"},
        {{"eval", "a.pt", "b.xyz", "--colour"}, "--colour", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--cohort", "many"}, "--cohort", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--cohort", "0"}, "--cohort", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--engine", "warp"}, "--engine warp", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--device", "tpu"}, "--device tpu", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--memory", "lots"}, "--memory lots", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--elements", "Si,,C"}, "--elements Si,,C", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--boundary", "pp"}, "--boundary pp", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--atom-style", "odd"}, "--atom-style odd", "Usage: dpa4 eval"},
        {{"eval", "a.pt", "b.xyz", "--fparam", "1,nan"}, "'nan'", "Usage: dpa4 eval"},
        {{"check"}, "FILE", "Usage: dpa4 check"},
        {{"check", "--precision", "float16", "a.json"}, "float16", "Usage: dpa4 check"}}) {
    const ToolRun run = run_tool(arguments);
    expect_refused(run, message);
    EXPECT_NE(run.err.find(usage), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(Info, DescribesAModel) {
  const ToolRun run = run_tool({"info", source_path("potentials/sic_mini.pt")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  for (const char* line :
       {"\nelements        Si C\n", "\ncutoff          5 Angstrom\n", "\nchannels        32\n",
        "\nblocks          2  (lmax 2, 2; mmax 1, 1)\n"}) {
    EXPECT_NE(run.out.find(line), std::string::npos) << line << run.out;
  }
}

TEST(Info, PrintsJson) {
  const ToolRun run =
      run_tool({"info", "--json", source_path("potentials/cu_nano_with_optimizer.pt")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json.at("model").at("type_map"), Json({"Cu"}));
  EXPECT_EQ(json.at("model").at("rcut"), 6.0);
  EXPECT_EQ(json.at("file").at("dialect"), "pt");
  EXPECT_EQ(json.at("file").at("has_optimizer"), true);
  EXPECT_GT(json.at("file").at("n_parameters"), 10000);
  const ToolRun bare = run_tool({"info", "--json", source_path("potentials/cu_nano.pt")});
  EXPECT_EQ(Json::parse(bare.out).at("model"), json.at("model"));
  EXPECT_EQ(Json::parse(bare.out).at("file").at("has_optimizer"), false);
}

TEST(Info, DescribesTheBuild) {
  const ToolRun run = run_tool({"info", "--build", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json.at("engines").at(0), "eager");
  EXPECT_EQ(json.at("precisions"), Json({"float32", "float64"}));
  const ToolRun table = run_tool({"info", "--build"});
  EXPECT_NE(table.out.find("dpa4            " + json.at("version").get<std::string>()),
            std::string::npos)
      << table.out;
}

TEST(Info, RefusesWhatIsNoModel) {
  expect_refused(run_tool({"info", "/nowhere/model.pt"}), "/nowhere/model.pt");
  const std::string data = source_path("tests/data/reference/sic_mini.data");
  expect_refused(run_tool({"info", data}), data);
  const TemporaryFolder folder;
  expect_refused(run_tool({"info", folder.write("empty.pt", "")}), "empty.pt");
  expect_refused(run_tool({"info", folder.path("")}), folder.path(""));
}

}  // namespace
}  // namespace dpa4::tools
