// SPDX-License-Identifier: GPL-2.0-or-later
// A plugin in a LAMMPS it was not built for: one sentence, and no style.
#include "lammps_plugin/host_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "lammps_plugin/plugin_entry.h"
#include "tests/support/lammps_driver.h"

namespace dpa4::lammps {
namespace {

using test::Lammps;

int n_registered = 0;

void count_registration(lammpsplugin_t*, void*) { ++n_registered; }

void* create_nothing(void*) { return nullptr; }

void register_built_for(Lammps& host, const LammpsTraits& built_for) {
  register_pair_styles(host.handle(), nullptr, reinterpret_cast<void*>(&count_registration),
                       {{"dpa4/none", "none", &create_nothing}}, built_for);
}

TEST(HostCheck, FindsNothingWrongWithTheLammpsItWasBuiltFor) {
  Lammps host;
  EXPECT_EQ(mismatch(compiled_for(), traits_of(host.handle())), "");
  EXPECT_GT(compiled_for().version, 20200000);
  n_registered = 0;
  register_built_for(host, compiled_for());
  EXPECT_EQ(n_registered, 1);
}

TEST(HostCheck, RefusesAnotherLammpsInOneSentence) {
  const struct {
    std::function<void(LammpsTraits&)> change;
    const char* sentence;
  } cases[] = {{[](LammpsTraits& traits) { traits.version = 20250722; },
                "was built for LAMMPS version 20250722, this is "},
               {[](LammpsTraits& traits) { traits.mpi = !traits.mpi; }, "was built for a LAMMPS "},
               {[](LammpsTraits& traits) {
                  traits.tagint_bytes = traits.imageint_bytes = 12 - traits.tagint_bytes;
                },
                "LAMMPS_SIZES="}};
  for (const auto& given : cases) {
    LammpsTraits built_for = compiled_for();
    given.change(built_for);
    Lammps host;
    n_registered = 0;
    register_built_for(host, built_for);
    EXPECT_EQ(n_registered, 0) << given.sentence;
    const std::string log = host.log();
    EXPECT_NE(log.find(given.sentence), std::string::npos) << log;
    EXPECT_NE(log.find("WARNING: no pair style dpa4/none: "), std::string::npos) << log;
    EXPECT_NE(log.find("build the plugin with the source of this LAMMPS"), std::string::npos)
        << log;
  }
}

}  // namespace
}  // namespace dpa4::lammps
