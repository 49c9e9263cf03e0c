// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/host_check.h"

#include "library.h"
#include "lmptype.h"
#include "pointers.h"
#include "version.h"

namespace dpa4::lammps {

LammpsTraits compiled_for() {
  LammpsTraits traits;
  traits.version = LAMMPS_NS::utils::date2num(LAMMPS_VERSION);
  traits.bigint_bytes = sizeof(LAMMPS_NS::bigint);
  traits.tagint_bytes = sizeof(LAMMPS_NS::tagint);
  traits.imageint_bytes = sizeof(LAMMPS_NS::imageint);
#ifdef MPI_STUBS
  traits.mpi = false;
#else
  traits.mpi = true;
#endif
  return traits;
}

LammpsTraits traits_of(void* lammps) {
  LammpsTraits traits;
  traits.version = lammps_version(lammps);
  traits.bigint_bytes = lammps_extract_setting(lammps, "bigint");
  traits.tagint_bytes = lammps_extract_setting(lammps, "tagint");
  traits.imageint_bytes = lammps_extract_setting(lammps, "imageint");
  traits.mpi = lammps_config_has_mpi_support() != 0;
  return traits;
}

std::string mismatch(const LammpsTraits& plugin, const LammpsTraits& host) {
  const std::string advice = "; build the plugin with the source of this LAMMPS";
  if (plugin.version != host.version) {
    return "the dpa4 plugin was built for LAMMPS version " + std::to_string(plugin.version) +
           ", this is " + std::to_string(host.version) + advice;
  }
  if (plugin.mpi != host.mpi) {
    return std::string("the dpa4 plugin was built for a LAMMPS ") +
           (plugin.mpi ? "with" : "without") + " MPI, this one is " +
           (host.mpi ? "with" : "without") + advice;
  }
  if (plugin.bigint_bytes != host.bigint_bytes || plugin.tagint_bytes != host.tagint_bytes ||
      plugin.imageint_bytes != host.imageint_bytes) {
    const auto sizes = [](const LammpsTraits& traits) {
      return traits.tagint_bytes == 8 ? "bigbig" : "smallbig";
    };
    return std::string("the dpa4 plugin was built for a LAMMPS with LAMMPS_SIZES=") +
           sizes(plugin) + ", this one has " + sizes(host) + advice;
  }
  return "";
}

}  // namespace dpa4::lammps
