// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <string>
#include <vector>

namespace dpa4::test {

/// One line of thermodynamic output, in units metal.
struct ThermoLine {
  double pe = 0, ke = 0, etotal = 0;  // [eV]
  std::array<double, 6> pressure{};   // [bar]  xx yy zz xy xz yz
};

/// What a model gives for one structure.
struct ReferenceResult {
  double energy = 0;                // [eV]
  std::vector<double> atom_energy;  // (N)
  std::vector<double> force;        // (N * 3) [eV/Angstrom]
  std::array<double, 9> virial{};   // [eV]
};

/// A reference trajectory of tests/data/reference: NVE, velocity Verlet, float64 arithmetic.
struct Reference {
  std::string name;
  std::string data_file, model_file;
  std::string elements;            // of the LAMMPS types, separated by spaces
  double timestep = 0;             // [ps]
  ReferenceResult float64;         // step 0
  ReferenceResult float32;         // the same with float32 arithmetic
  std::vector<ThermoLine> thermo;  // a line a step, float64
};

/// @param name  cu_nano, sic_mini, c_neo or water_mini
Reference read_reference(const std::string& name);

/// The lines that `thermo_style custom step pe ke etotal pxx pyy pzz pxy pxz pyz` wrote into a log.
std::vector<ThermoLine> thermo_lines(const std::string& log);

}  // namespace dpa4::test
