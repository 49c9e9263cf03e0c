// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/pair_dpa4.h"
#include "lammps_plugin/plugin_entry.h"
#include "src/engine/engine.h"

namespace {

void* create_pair_dpa4(void* lammps) {
  return new LAMMPS_NS::PairDPA4(static_cast<LAMMPS_NS::LAMMPS*>(lammps),
                                 {dpa4::engine::load, dpa4::engine::start_report});
}

}  // namespace

extern "C" void lammpsplugin_init(void* lammps, void* handle, void* register_function) {
  dpa4::lammps::register_pair_styles(lammps, handle, register_function,
                                     {{"dpa4", "DPA4/SeZM pair style dpa4", &create_pair_dpa4}},
                                     dpa4::lammps::compiled_for());
}
