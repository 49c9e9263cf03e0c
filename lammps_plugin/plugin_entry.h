// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <initializer_list>
#include <string>

#include "lammpsplugin.h"

#include "lammps_plugin/host_check.h"

namespace dpa4::lammps {

/// A pair style of a plugin. LAMMPS keeps the texts.
struct PluginStyle {
  const char* name;
  const char* info;
  lammpsplugin_factory1* creator;
};

/// What lammpsplugin_init of a plugin does: makes sure that the library stays loaded, that this
/// LAMMPS is the one it was built for (else one warning in LAMMPS' log and no style), and registers
/// the styles.
///
/// @param lammps, handle, register_function  the arguments of lammpsplugin_init
/// @param built_for                          the LAMMPS that the creators were compiled for
void register_pair_styles(void* lammps, void* handle, void* register_function,
                          std::initializer_list<PluginStyle> styles, const LammpsTraits& built_for);

/// One warning in LAMMPS' log. Not an error: that would end the program, also where LAMMPS loads
/// every plugin of a folder.
void refuse(void* lammps, const std::string& style, const std::string& reason);

}  // namespace dpa4::lammps
