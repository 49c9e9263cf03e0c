// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tools/structure.h"

namespace dpa4::tools {

/// What a model must give for a structure, all in eV and Angstrom. Empty vectors: not in the file.
struct ReferenceResult {
  std::optional<int> n_edges;
  double energy = 0;
  std::vector<double> atom_energy;  // (N)
  std::vector<double> force;        // (N, 3)
  std::vector<double> virial;       // (3, 3)
  std::vector<double> atom_virial;  // (N, 9)
};

struct ReferenceFrame {
  Structure structure;
  std::vector<int> type;    // (N) index into the file's own type_map
  ReferenceResult float64;  // all arithmetic in double: what results are compared with
  std::optional<ReferenceResult> float32;  // as the model runs in single precision, for orientation
};

/// A file of structures with results of the reference implementation. Two layouts are read:
///
///   frames  {"model", "type_map", "rcut", "frames": [{"name", "coord", "type", "cell", ["fparam"],
///            ["aparam"], ["charge_spin"], "float64": {...}, ["float32": {...}]}]}
///   step 0  {"model", "type_map", "rcut", "step0": {"float64": {...}, ...}}, with the structure in
///   a
///            LAMMPS data file of the same name beside it, whose type i is type_map[i - 1]
struct ReferenceFile {
  std::string path;
  std::string model;                // as written: relative to this file
  std::optional<std::string> head;  // branch of a multi-task model
  double rcut = 0;                  // [Angstrom]
  std::vector<std::string> type_map;
  std::vector<ReferenceFrame> frames;
};

/// Throws InputError: the file, the frame and the key that is missing or has the wrong kind or
/// size.
ReferenceFile read_reference_file(const std::string& path);

/// The model of a reference file: beside it, or in ../../../potentials. Throws InputError with the
/// places that were tried.
std::string find_model(const ReferenceFile& file);

}  // namespace dpa4::tools
