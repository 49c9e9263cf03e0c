// SPDX-License-Identifier: GPL-2.0-or-later
// The plugin in a LAMMPS whose KOKKOS package is another one than it was built for: one sentence.
#include "lammps_plugin/kokkos_check.h"

#include <gtest/gtest.h>

#include <string>

namespace dpa4::lammps {
namespace {

TEST(KokkosCheck, FindsNothingWrongWithTheLammpsItWasBuiltFor) {
  const KokkosTraits host = kokkos_traits_of_host();
  EXPECT_EQ(host.device, "host");
  EXPECT_EQ(host.precision, "double");
  EXPECT_EQ(host.layout, "legacy");
  EXPECT_EQ(mismatch(kokkos_compiled_for(), host), "");
}

TEST(KokkosCheck, RefusesAnotherLammpsInOneSentence) {
  const KokkosTraits plugin = kokkos_compiled_for();
  const struct {
    KokkosTraits host;
    const char* sentence;
  } cases[] = {
      {{"", "", ""}, "this LAMMPS has no KOKKOS package"},
      {{"cuda", "double", "legacy"}, "has the device 'host', this one has 'cuda'"},
      {{"host", "mixed", "legacy"}, "has the precision 'double', this one has 'mixed'"},
      {{"host", "double", "default"}, "has the view layout 'legacy', this one has 'default'"}};
  for (const auto& given : cases) {
    const std::string said = mismatch(plugin, given.host);
    EXPECT_NE(said.find(given.sentence), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace dpa4::lammps
