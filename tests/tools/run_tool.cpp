// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/tools/run_tool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace dpa4::tools {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// In the child: standard output into a file.
void redirect(int descriptor, const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
}

}  // namespace

ToolRun run_tool(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  std::vector<std::string> words{DPA4_TOOL};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child == 0) {
    redirect(STDOUT_FILENO, folder.path("out"));
    redirect(STDERR_FILENO, folder.path("err"));
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(folder.path("out")),
          content_of(folder.path("err"))};
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = testing::TempDir() + "dpa4_tool_XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot make a folder: " + pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& content) const {
  std::ofstream(path(name)) << content;
  return path(name);
}

std::string source_path(const std::string& relative) {
  return std::string(DPA4_SOURCE_DIR) + "/" + relative;
}

std::string to_xyz(const Structure& structure) {
  std::ostringstream text;
  text.precision(17);
  text << structure.n_atoms() << "\n";
  if (structure.cell.periodic[0]) {
    text << "Lattice=\"";
    for (int k = 0; k < 9; ++k) text << (k > 0 ? " " : "") << structure.cell.vectors[k / 3][k % 3];
    text << "\" ";
  }
  const std::size_t n_atoms = structure.element.size();
  const std::size_t n_aparam = n_atoms > 0 ? structure.aparam.size() / n_atoms : 0;
  text << "Properties=species:S:1:pos:R:3";
  if (n_aparam > 0) text << ":aparam:R:" << n_aparam;
  text << "\n";
  for (std::size_t i = 0; i < n_atoms; ++i) {
    text << structure.element[i];
    for (int d = 0; d < 3; ++d) text << " " << structure.x[3 * i + d];
    for (std::size_t k = 0; k < n_aparam; ++k) text << " " << structure.aparam[i * n_aparam + k];
    text << "\n";
  }
  return text.str();
}

void expect_refused(const ToolRun& run, const std::string& expected) {
  EXPECT_EQ(run.exit_code, 2) << run.out << run.err;
  EXPECT_NE(run.err.find(expected), std::string::npos) << "no '" << expected << "' in:\n"
                                                       << run.err;
  EXPECT_EQ(run.err.rfind("dpa4: ", 0), 0u) << run.err;
  for (const char* crash : {"terminate", "what()", "Exception", "frame #", "internal error"}) {
    EXPECT_EQ(run.err.find(crash), std::string::npos) << run.err;
  }
}

}  // namespace dpa4::tools
