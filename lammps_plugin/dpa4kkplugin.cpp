// SPDX-License-Identifier: GPL-2.0-or-later
// The plugin for a LAMMPS with the KOKKOS package. It uses nothing of Kokkos itself, so it can be
// loaded into any LAMMPS and say what does not fit; the styles are in dpa4kkstyles.so beside it.
#include <dlfcn.h>

#include <string>

#include "lammps_plugin/host_check.h"
#include "lammps_plugin/kokkos_check.h"
#include "lammps_plugin/plugin_entry.h"

namespace {

std::string folder_of_this_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&folder_of_this_library), &info) == 0) return "";
  const std::string path = info.dli_fname;
  return path.substr(0, path.find_last_of('/') + 1);
}

using Register = void (*)(void* lammps, void* handle, void* register_function);

/// Hands the registration over to the styles' library; returns why it cannot, or nothing.
std::string register_styles(void* lammps, void* handle, void* register_function) {
  using namespace dpa4::lammps;
  std::string problem = mismatch(compiled_for(), traits_of(lammps));
  if (problem.empty()) problem = mismatch(kokkos_compiled_for(), kokkos_traits_of_host());
  if (!problem.empty()) return problem;
  const std::string path = folder_of_this_library() + "dpa4kkstyles.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* entry = library != nullptr ? dlsym(library, "dpa4_register_kokkos_styles") : nullptr;
  if (entry == nullptr) {
    return std::string(dlerror()) + "; build the plugin with this LAMMPS and its Kokkos";
  }
  reinterpret_cast<Register>(entry)(lammps, handle, register_function);
  return "";
}

}  // namespace

extern "C" void lammpsplugin_init(void* lammps, void* handle, void* register_function) {
  const std::string problem = register_styles(lammps, handle, register_function);
  if (!problem.empty()) dpa4::lammps::refuse(lammps, "dpa4/kk", problem);
}
