// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace dpa4::lammps {

/// What a LAMMPS and a plugin compiled against its headers must have in common.
struct LammpsTraits {
  int version = 0;  // as a date, 20260704
  int bigint_bytes = 0;
  int tagint_bytes = 0;
  int imageint_bytes = 0;
  bool mpi = false;  // false: LAMMPS' own MPI for one process
};

/// The headers this was compiled with.
LammpsTraits compiled_for();

/// A running LAMMPS, asked through its C interface, which does not change between releases.
LammpsTraits traits_of(void* lammps);

/// One sentence saying why a plugin built for one cannot run in the other; empty if it can.
std::string mismatch(const LammpsTraits& plugin, const LammpsTraits& host);

}  // namespace dpa4::lammps
