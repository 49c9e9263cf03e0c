// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "tools/structure.h"

namespace dpa4::tools {

/// What the shell saw of one run of the dpa4 program.
struct ToolRun {
  int exit_code = -1;  // -1: it was killed
  std::string out;
  std::string err;
};

/// Runs `dpa4 ARGUMENTS`, without a shell in between.
ToolRun run_tool(const std::vector<std::string>& arguments);

/// A folder that is empty at first and gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

/// "tests/data/golden/mini.pt" as a full path.
std::string source_path(const std::string& relative);

/// A structure as an extended XYZ frame, with all digits.
std::string to_xyz(const Structure& structure);

/// Expects that a run failed on the user's input: exit code 2, no results, and messages that name
/// `expected` and look like sentences, not like a crash.
void expect_refused(const ToolRun& run, const std::string& expected);

}  // namespace dpa4::tools
