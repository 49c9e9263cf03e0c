// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "tools/structure.h"

namespace dpa4::tools {

/// What a structure file may leave open.
struct StructureOptions {
  /// LAMMPS data: the element of each atom type. Empty: its `Atom Type Labels`, else the comments
  /// of its `Masses` where each is an element's symbol, as `1 28.0855 # Si`.
  std::vector<std::string> elements;
  /// LAMMPS data: "atomic", "charge", "molecular" or "full". Empty: as the `Atoms # STYLE` line
  /// says, else by the number of columns where that decides.
  std::string atom_style;
  /// Overrides the file's boundary conditions (LAMMPS data: periodic in all three directions).
  std::optional<std::array<bool, 3>> periodic;
};

/// Reads a LAMMPS data file or a (extended) XYZ file, whichever it is: by its extension, else by
/// its first line. Atoms of a data file are ordered by ID, as LAMMPS' sorted dumps are. Throws
/// InputError: "FILE:LINE: what is wrong".
std::vector<Structure> read_structures(const std::string& path, const StructureOptions& options);

/// The readers themselves; `path` names the source in messages.
Structure read_lammps_data(std::istream& in, const std::string& path,
                           const StructureOptions& options);
std::vector<Structure> read_xyz(std::istream& in, const std::string& path,
                                const StructureOptions& options);

}  // namespace dpa4::tools
