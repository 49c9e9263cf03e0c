// SPDX-License-Identifier: GPL-2.0-or-later
// The reference implementation's own edge counts, for every structure there is a reference of.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/graph/periodic.h"
#include "tools/reference_file.h"

namespace dpa4::tools {
namespace {

std::vector<std::string> reference_files() {
  std::vector<std::string> paths;
  for (const char* folder : {"golden", "golden/pt_expt", "reference"}) {
    const std::filesystem::path path =
        std::filesystem::path(DPA4_SOURCE_DIR) / "tests/data" / folder;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
    }
  }
  return paths;
}

TEST(GoldenEdges, CountsAgreeWithTheReference) {
  int n_frames = 0;
  for (const std::string& path : reference_files()) {
    const ReferenceFile file = read_reference_file(path);
    graph::PeriodicGraph graph(file.rcut, static_cast<int>(file.type_map.size()));
    for (const ReferenceFrame& frame : file.frames) {
      const TensorView<const int, 1> type(frame.type.data(), frame.type.size());
      const auto edges = graph.build(frame.structure.positions(), type, frame.structure.cell);
      ASSERT_TRUE(frame.float64.n_edges.has_value()) << path;
      EXPECT_EQ(edges.n_edges(), *frame.float64.n_edges) << path << " " << frame.structure.name;
      ++n_frames;
    }
  }
  EXPECT_GE(n_frames, 48 * 3 + 4);
}

}  // namespace
}  // namespace dpa4::tools
