// SPDX-License-Identifier: GPL-2.0-or-later
// As lammps_toy_plugin.cpp for a LAMMPS with Kokkos: `pair_style dpa4/test` and `dpa4/test/kk`.
#include "lammps_plugin/kokkos_styles.h"
#include "tests/support/lammps_toy_model.h"

namespace {

using dpa4::lammps::create_style;
using LAMMPS_NS::PairDPA4;
using LAMMPS_NS::PairDPA4Kokkos;
using Device = dpa4::lammps::KokkosDevice;
using Host = dpa4::lammps::KokkosHost;

const dpa4::lammps::ModelSource& source() {
  static const dpa4::lammps::ModelSource functions{dpa4::test::load_toy,
                                                   dpa4::test::toy_start_report};
  return functions;
}

}  // namespace

extern "C" void lammpsplugin_init(void* lammps, void* handle, void* register_function) {
  dpa4::lammps::register_pair_styles(
      lammps, handle, register_function,
      {{"dpa4/test", "pair style dpa4/test", &create_style<PairDPA4, source>},
       {"dpa4/test/kk", "pair style dpa4/test/kk", &create_style<PairDPA4Kokkos<Device>, source>},
       {"dpa4/test/kk/device", "pair style dpa4/test/kk/device",
        &create_style<PairDPA4Kokkos<Device>, source>},
       {"dpa4/test/kk/host", "pair style dpa4/test/kk/host",
        &create_style<PairDPA4Kokkos<Host>, source>}},
      dpa4::lammps::compiled_for());
}
