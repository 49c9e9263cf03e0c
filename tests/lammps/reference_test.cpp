// SPDX-License-Identifier: GPL-2.0-or-later
// The plugin as users run it, with trained potentials: against reference results that were not made
// with this project, and against itself on other numbers of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/lammps_driver.h"
#include "tests/support/lammps_reference.h"

namespace dpa4::test {
namespace {

const std::string kLoad = "plugin load " DPA4PLUGIN_PATH "\n";
const std::string kPotentials = DPA4_SOURCE_DIR "/potentials/";

std::string pair_commands(const std::string& options, const std::string& model_and_elements) {
  return "pair_style dpa4 device cpu " + options + "\npair_coeff * * " + model_and_elements + "\n";
}

std::string start_of(const Reference& reference, const std::string& options) {
  return kLoad + "units metal\nread_data " + reference.data_file + "\n" +
         pair_commands(options, reference.model_file + reference.elements) +
         "neighbor 1.0 bin\ntimestep " + std::to_string(reference.timestep) + "\n";
}

/// |a - b| <= absolute + relative |b| for every element; names the worst.
void expect_within(const std::vector<double>& actual, const std::vector<double>& expected,
                   double absolute, double relative, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t k = 0; k < actual.size(); ++k) {
    const double ratio =
        std::abs(actual[k] - expected[k]) / (absolute + relative * std::abs(expected[k]));
    if (!(ratio <= worst)) worst = ratio, where = k;
  }
  EXPECT_LE(worst, 1.0) << what << "[" << where << "] = " << actual[where] << ", expected "
                        << expected[where];
}

std::vector<double> symmetric_part(const std::array<double, 9>& w) {
  return {w[0], w[4], w[8], 0.5 * (w[1] + w[3]), 0.5 * (w[2] + w[6]), 0.5 * (w[5] + w[7])};
}

void expect_step_0(const Reference& reference, const std::string& options, double absolute,
                   double relative) {
  Lammps lammps;
  lammps.commands(start_of(reference, options));
  lammps.watch(true);
  lammps.commands("run 0");
  const Snapshot atoms = lammps.snapshot();
  EXPECT_NEAR(atoms.energy, reference.energy, absolute + relative * std::abs(reference.energy));
  expect_within(atoms.atom_energy, reference.atom_energy, absolute, relative, "atom_energy");
  expect_within(atoms.f, reference.force, absolute, relative, "force");
  expect_within({atoms.virial.begin(), atoms.virial.end()}, symmetric_part(reference.virial),
                absolute, relative, "virial");
}

// ---- against the reference -------------------------------------------------------------------------

class Potential : public testing::TestWithParam<const char*> {};

TEST_P(Potential, Float64IsTheReferenceAtStepZero) {
  // The same arithmetic in another order: the energy to 1e-10, everything else to 1e-9.
  const Reference reference = read_reference(GetParam());
  expect_step_0(reference, "precision float64", 1e-9, 1e-9);
}

TEST_P(Potential, Float32IsWithinItsAcceptanceAtStepZero) {
  expect_step_0(read_reference(GetParam()), "precision float32", 1e-5, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Reference, Potential,
                         testing::Values("cu_nano", "sic_mini", "c_neo", "water_mini"),
                         [](const auto& info) { return std::string(info.param); });

struct Trajectory {
  const char* name;
  const char* precision;
  int steps;
};

void PrintTo(const Trajectory& trajectory, std::ostream* out) {
  *out << trajectory.name << " " << trajectory.precision;
}

class Nve : public testing::TestWithParam<Trajectory> {};

TEST_P(Nve, FollowsTheReference) {
  const auto [name, precision, steps] = GetParam();
  const Reference reference = read_reference(name);
  Lammps lammps;
  lammps.commands(start_of(reference, std::string("precision ") + precision) +
                  "thermo_style custom step pe ke etotal pxx pyy pzz pxy pxz pyz\n"
                  "thermo_modify format float %.16g\nthermo 1\nfix 1 all nve\nrun " +
                  std::to_string(steps));
  const std::vector<ThermoLine> thermo = thermo_lines(lammps.log());
  ASSERT_EQ(static_cast<int>(thermo.size()), steps + 1);
  const auto n_atoms = static_cast<double>(reference.atom_energy.size());

  // Two trajectories that differ by rounding separate exponentially: 1e-9 relative at the start, 1e-7 eV
  // an atom after 100 steps. The total energy is conserved along both and stays close.
  const bool exact = std::string(precision) == "float64";
  for (int step = 0; step <= steps; ++step) {
    const ThermoLine& actual = thermo[step];
    const ThermoLine& expected = reference.thermo[step];
    const double fraction = static_cast<double>(step) / 100;
    if (exact) {
      EXPECT_NEAR(actual.pe, expected.pe,
                  1e-9 * std::abs(expected.pe) + 1e-7 * fraction * n_atoms) << step;
      EXPECT_NEAR(actual.etotal, expected.etotal, 1e-9 * std::abs(expected.etotal) + 1e-8 * n_atoms * fraction) << step;
      for (int k = 0; k < 6; ++k) {
        EXPECT_NEAR(actual.pressure[k], expected.pressure[k], 1e-3 + 1.0 * fraction) << step;
      }
    } else {
      // Float32 forces are off by 1e-5 of their size; what that does to the total energy in a step is
      // far below Verlet's own oscillation, which the reference has too.
      EXPECT_NEAR(actual.etotal - thermo[0].etotal, expected.etotal - reference.thermo[0].etotal,
                  1e-6 * n_atoms) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, Nve,
                         testing::Values(Trajectory{"cu_nano", "float64", 100},
                                         Trajectory{"sic_mini", "float64", 100},
                                         Trajectory{"c_neo", "float64", 60},
                                         Trajectory{"water_mini", "float64", 100},
                                         Trajectory{"cu_nano", "float32", 100},
                                         Trajectory{"sic_mini", "float32", 100}),
                         [](const auto& info) {
                           return std::string(info.param.name) + "_" + info.param.precision;
                         });

}  // namespace
}  // namespace dpa4::test
