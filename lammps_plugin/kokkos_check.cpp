// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/kokkos_check.h"

#include <initializer_list>

#include "library.h"

namespace dpa4::lammps {
namespace {

bool has(const char* category, const char* setting) {
  return lammps_config_accelerator("KOKKOS", category, setting) != 0;
}

std::string first_of(const char* category, std::initializer_list<const char*> settings) {
  for (const char* setting : settings) {
    if (has(category, setting)) return setting;
  }
  return "";
}

}  // namespace

KokkosTraits kokkos_compiled_for() {
  return {DPA4_KOKKOS_DEVICE, DPA4_KOKKOS_PRECISION, DPA4_KOKKOS_LAYOUT};
}

KokkosTraits kokkos_traits_of_host() {
  KokkosTraits traits;
  traits.device = first_of("api", {"cuda", "hip", "sycl"});
  if (traits.device.empty() && !first_of("api", {"openmp", "serial", "pthreads"}).empty()) {
    traits.device = "host";
  }
  traits.precision = first_of("precision", {"double", "mixed", "single"});
  traits.layout = first_of("layout", {"legacy", "default"});
  return traits;
}

std::string mismatch(const KokkosTraits& plugin, const KokkosTraits& host) {
  if (host.device.empty()) {
    return "this LAMMPS has no KOKKOS package; use dpa4plugin.so";
  }
  const auto sentence = [](const std::string& what, const std::string& wanted,
                           const std::string& found) {
    return "the dpa4/kk plugin was built for a LAMMPS whose KOKKOS package has " + what + " '" +
           wanted + "', this one has '" + found + "'; build the plugin with this LAMMPS";
  };
  if (plugin.device != host.device) return sentence("the device", plugin.device, host.device);
  if (plugin.precision != host.precision) {
    return sentence("the precision", plugin.precision, host.precision);
  }
  if (plugin.layout != host.layout) return sentence("the view layout", plugin.layout, host.layout);
  return "";
}

}  // namespace dpa4::lammps
