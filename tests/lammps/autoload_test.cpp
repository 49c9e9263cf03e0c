// SPDX-License-Identifier: GPL-2.0-or-later
// LAMMPS loads plugins from LAMMPS_PLUGIN_PATH by itself, and unloads them on request.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/lammps_driver.h"

namespace dpa4::test {
namespace {

TEST(Plugin, IsFoundInThePluginPathAndSurvivesUnloading) {
  const std::filesystem::path plugin(DPA4PLUGIN_PATH);
  setenv("LAMMPS_PLUGIN_PATH", plugin.parent_path().c_str(), 1);
  Lammps lammps;
  EXPECT_EQ(error_of(lammps, "units metal\npair_style dpa4 precision float64"), "");
  EXPECT_EQ(error_of(lammps, "plugin unload pair dpa4"), "");
  EXPECT_NE(error_of(lammps, "pair_style dpa4"), "");
  EXPECT_EQ(error_of(lammps, "plugin load " DPA4PLUGIN_PATH "\npair_style dpa4"), "");
  unsetenv("LAMMPS_PLUGIN_PATH");
}

}  // namespace
}  // namespace dpa4::test
