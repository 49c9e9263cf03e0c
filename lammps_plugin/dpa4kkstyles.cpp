// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/kokkos_styles.h"
#include "src/engine/engine.h"

namespace {

using dpa4::lammps::create_style;
using LAMMPS_NS::PairDPA4;
using LAMMPS_NS::PairDPA4Kokkos;
using Device = dpa4::lammps::KokkosDevice;
using Host = dpa4::lammps::KokkosHost;

const dpa4::lammps::ModelSource& source() {
  static const dpa4::lammps::ModelSource functions{dpa4::engine::load, dpa4::engine::start_report};
  return functions;
}

}  // namespace

extern "C" void dpa4_register_kokkos_styles(void* lammps, void* handle, void* register_function) {
  dpa4::lammps::register_pair_styles(
      lammps, handle, register_function,
      {{"dpa4", "DPA4/SeZM pair style dpa4", &create_style<PairDPA4, source>},
       {"dpa4/kk", "DPA4/SeZM pair style dpa4/kk", &create_style<PairDPA4Kokkos<Device>, source>},
       {"dpa4/kk/device", "DPA4/SeZM pair style dpa4/kk/device",
        &create_style<PairDPA4Kokkos<Device>, source>},
       {"dpa4/kk/host", "DPA4/SeZM pair style dpa4/kk/host",
        &create_style<PairDPA4Kokkos<Host>, source>}},
      dpa4::lammps::compiled_for());
}
