// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace dpa4::lammps {

/// What the KOKKOS package of a LAMMPS and a plugin compiled against its headers must have in
/// common.
struct KokkosTraits {
  std::string device;     // "cuda", or "host" where Kokkos has no GPU; empty without the package
  std::string precision;  // "double", "mixed" or "single"
  std::string layout;     // of views: "legacy" or "default"
};

/// The package this was compiled for.
KokkosTraits kokkos_compiled_for();

/// That of the running LAMMPS, asked through its C interface.
KokkosTraits kokkos_traits_of_host();

/// One sentence saying why a plugin built for one cannot run in the other; empty if it can.
std::string mismatch(const KokkosTraits& plugin, const KokkosTraits& host);

}  // namespace dpa4::lammps
