// SPDX-License-Identifier: GPL-2.0-or-later
// A plugin with `pair_style dpa4/test`: the pair style of dpa4plugin.so, with toy models behind it.
#include "lammps_plugin/pair_dpa4.h"
#include "lammps_plugin/plugin_entry.h"
#include "tests/support/lammps_toy_model.h"

namespace {

void* create_pair_toy(void* lammps) {
  return new LAMMPS_NS::PairDPA4(static_cast<LAMMPS_NS::LAMMPS*>(lammps),
                                 {dpa4::test::load_toy, dpa4::test::toy_start_report});
}

}  // namespace

extern "C" void lammpsplugin_init(void* lammps, void* handle, void* register_function) {
  dpa4::lammps::register_pair_styles(lammps, handle, register_function,
                                     {{"dpa4/test", "pair style dpa4/test", &create_pair_toy}},
                                     dpa4::lammps::compiled_for());
}
