// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/plugin_entry.h"

#include <dlfcn.h>

#include <string>

#include "library.h"
#include "version.h"

namespace dpa4::lammps {
namespace {

/// `plugin unload` closes a library whose last style is gone, and LAMMPS may do so at exit.
/// LibTorch's threads and thread-local objects would then run code that is no longer there.
void keep_loaded(const void* address_in_library) {
  Dl_info info;
  if (dladdr(address_in_library, &info) != 0) {
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

}  // namespace

void refuse(void* lammps, const std::string& style, const std::string& reason) {
  const std::string warning = "no pair style " + style + ": " + reason;
  lammps_error(lammps, LMP_ERROR_WARNING | LMP_ERROR_WORLD, warning.c_str());
}

void register_pair_styles(void* lammps, void* handle, void* register_function,
                          std::initializer_list<PluginStyle> styles,
                          const LammpsTraits& built_for) {
  keep_loaded(reinterpret_cast<const void*>(styles.begin()->creator));
  const std::string problem = mismatch(built_for, traits_of(lammps));
  if (!problem.empty()) {
    refuse(lammps, styles.begin()->name, problem);
    return;
  }
  for (const PluginStyle& style : styles) {
    lammpsplugin_t plugin{};
    plugin.version = LAMMPS_VERSION;
    plugin.style = "pair";
    plugin.name = style.name;
    plugin.info = style.info;
    plugin.author = "the dpa4-lammps authors";
    plugin.creator.v1 = style.creator;
    plugin.handle = handle;
    reinterpret_cast<lammpsplugin_regfunc>(register_function)(&plugin, lammps);
  }
}

}  // namespace dpa4::lammps
