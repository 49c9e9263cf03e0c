// SPDX-License-Identifier: GPL-2.0-or-later
// The plugin in a LAMMPS whose KOKKOS package is another one than it was built for: one sentence.
#include "lammps_plugin/kokkos_check.h"

#include <gtest/gtest.h>

#include <string>

namespace dpa4::lammps {
namespace {

TEST(KokkosCheck, FindsNothingWrongWithTheLammpsItWasBuiltFor) {
  const KokkosTraits host = kokkos_traits_of_host();
  EXPECT_TRUE(host.device == "host" || host.device == "cuda") << host.device;
  EXPECT_EQ(host.precision, "double");
  EXPECT_EQ(host.layout, "legacy");
  EXPECT_EQ(mismatch(kokkos_compiled_for(), host), "");
}

TEST(KokkosCheck, RefusesAnotherLammpsInOneSentence) {
  const KokkosTraits plugins[] = {{"host", "double", "legacy"}, {"cuda", "double", "legacy"}};
  const struct {
    KokkosTraits plugin, host;
    const char* sentence;
  } cases[] = {
      {plugins[0], {"", "", ""}, "this LAMMPS has no KOKKOS package"},
      {plugins[0], {"cuda", "double", "legacy"}, "has the device 'host', this one has 'cuda'"},
      {plugins[1], {"host", "double", "legacy"}, "has the device 'cuda', this one has 'host'"},
      {plugins[0], {"host", "mixed", "legacy"}, "the precision 'double', this one has 'mixed'"},
      {plugins[1], {"cuda", "double", "default"}, "layout 'legacy', this one has 'default'"}};
  for (const auto& given : cases) {
    const std::string said = mismatch(given.plugin, given.host);
    EXPECT_NE(said.find(given.sentence), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace dpa4::lammps
