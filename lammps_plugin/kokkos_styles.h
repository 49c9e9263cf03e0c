// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "lammps_plugin/pair_dpa4_kokkos.h"
#include "lammps_plugin/plugin_entry.h"

namespace dpa4::lammps {

/// Makes the pair style `Style` with the models of `kSource`: a factory for LAMMPS.
template <class Style, const ModelSource& (*kSource)()>
void* create_style(void* lammps) {
  return new Style(static_cast<LAMMPS_NS::LAMMPS*>(lammps), kSource());
}

}  // namespace dpa4::lammps
