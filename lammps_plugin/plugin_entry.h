// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "lammpsplugin.h"

#include "lammps_plugin/host_check.h"

namespace dpa4::lammps {

/// What lammpsplugin_init of a plugin with one pair style does: makes sure that the library stays
/// loaded, that this LAMMPS is the one it was built for (else an error in LAMMPS' log and no
/// style), and registers the style.
///
/// @param lammps, handle, register_function  the arguments of lammpsplugin_init
/// @param built_for                          the LAMMPS that `creator` was compiled for
void register_pair_style(void* lammps, void* handle, void* register_function, const char* name,
                         const char* info, lammpsplugin_factory1* creator,
                         const LammpsTraits& built_for);

}  // namespace dpa4::lammps
