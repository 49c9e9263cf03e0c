// SPDX-License-Identifier: GPL-2.0-or-later
// The plugin as users run it, with a trained potential: the same results however LAMMPS distributes
// the atoms, the commands around it, and what it says when something is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/lammps_driver.h"

namespace dpa4::test {
namespace {

const std::string kLoad = "plugin load " DPA4PLUGIN_PATH "\n";
const std::string kPotentials = DPA4_SOURCE_DIR "/potentials/";
const std::string kSic = kPotentials + "sic_mini.pt Si C\n";

std::string dpa4(const std::string& options = "precision float64") {
  return "pair_style dpa4 device " DPA4_TEST_DEVICE " " + options + "\npair_coeff * * " + kSic;
}

/// 3C-SiC, 2 x 1 x 1 cells of 4.37 Angstrom, shaken: 16 atoms, each its own neighbor.
std::string crystal(const std::string& before = "") {
  return "units metal\n" + before +
         "lattice diamond 4.37 origin 0.02 0.02 0.02\nregion box block 0 2 0 1 0 1\n"
         "create_box 2 box\n"
         "create_atoms 1 box basis 1 1 basis 2 1 basis 3 1 basis 4 1 basis 5 2 basis 6 2 basis 7 2 "
         "basis 8 2\nmass 1 28.0855\nmass 2 12.011\n"
         "displace_atoms all random 0.15 0.15 0.15 4711 units box\nneighbor 1.0 bin\n";
}

/// The part of the crystal in a corner of a large open box: most ranks have no atoms.
std::string cluster(const std::string& before = "") {
  return "units metal\nboundary f f f\n" + before +
         "lattice diamond 4.37 origin 0.1 0.1 0.1\nregion box block 0 9 0 2 0 2\ncreate_box 2 box\n"
         "region part block 0 1 0 1 0 1\n"
         "create_atoms 1 region part basis 5 2 basis 6 2 basis 7 2 basis 8 2\n"
         "mass 1 28.0855\nmass 2 12.011\ndisplace_atoms all random 0.15 0.15 0.15 4711 units box\n";
}

/// Positions stand for IDs, which create_atoms gives differently on several ranks.
Snapshot by_position(const Snapshot& atoms) {
  std::vector<int> order(atoms.n_atoms());
  for (int n = 0; n < atoms.n_atoms(); ++n) order[n] = n;
  const auto key = [&](int n) {
    return std::array<double, 3>{atoms.x[3 * n], atoms.x[3 * n + 1], atoms.x[3 * n + 2]};
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  Snapshot result = atoms;
  for (int n = 0; n < atoms.n_atoms(); ++n) {
    const int from = order[n];
    result.type[n] = atoms.type[from];
    result.atom_energy[n] = atoms.atom_energy[from];
    std::copy_n(&atoms.x[3 * from], 3, &result.x[3 * n]);
    std::copy_n(&atoms.f[3 * from], 3, &result.f[3 * n]);
    std::copy_n(&atoms.centroid_virial[9 * from], 9, &result.centroid_virial[9 * n]);
  }
  return result;
}

Snapshot run_zero(const std::string& input, MPI_Comm ranks = MPI_COMM_WORLD) {
  Lammps lammps(ranks);
  lammps.commands(kLoad + input);
  lammps.watch(true);
  lammps.commands("run 0");
  return by_position(lammps.snapshot());
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t k = 0; k < actual.size(); ++k) {
    ASSERT_NEAR(actual[k], expected[k], tolerance) << what << " " << k;
  }
}

/// On rank 0, whose snapshots hold all atoms.
void expect_same(const Snapshot& actual, const Snapshot& expected, double tolerance) {
  if (mpi_rank() != 0) return;
  EXPECT_NEAR(actual.energy, expected.energy, tolerance * expected.n_atoms());
  expect_close(actual.x, expected.x, 1e-12, "position");
  expect_close(actual.f, expected.f, tolerance, "force");
  expect_close(actual.atom_energy, expected.atom_energy, tolerance, "atom_energy");
  expect_close(actual.centroid_virial, expected.centroid_virial, tolerance, "centroid_virial");
  expect_close({actual.virial.begin(), actual.virial.end()},
               {expected.virial.begin(), expected.virial.end()}, tolerance * expected.n_atoms(),
               "virial");
}

constexpr double kSameArithmetic = 1e-10;  // float64, sums in another order; values up to 10

// ---- the same on any distribution of atoms
// ---------------------------------------------------------

struct Distribution {
  const char* name;
  std::string input;  // with the atoms of `plain`, distributed in some way
  std::string plain;  // on one rank
};

void PrintTo(const Distribution& distribution, std::ostream* out) { *out << distribution.name; }

class Distributed : public testing::TestWithParam<Distribution> {};

TEST_P(Distributed, IsWhatOneRankGives) {
  const Snapshot actual = run_zero(GetParam().input + dpa4());
  Snapshot expected;
  if (mpi_rank() == 0) expected = run_zero(GetParam().plain + dpa4(), MPI_COMM_SELF);
  expect_same(actual, expected, kSameArithmetic);
}

INSTANTIATE_TEST_SUITE_P(
    Sic, Distributed,
    testing::Values(Distribution{"Bricks", crystal(), crystal()},
                    Distribution{"NewtonOff", crystal("newton off\n"), crystal()},
                    Distribution{"Slabs", crystal("processors * 1 1\n"), crystal()},
                    Distribution{"OtherSlabs", crystal("processors 1 1 *\n"), crystal()},
                    Distribution{"EmptyRanks", cluster("processors * 1 1\n"), cluster()},
                    Distribution{"EmptyRanksTiled", cluster("comm_style tiled\n"), cluster()},
                    Distribution{"Balanced", cluster("comm_style tiled\n") + "balance 1.0 rcb\n",
                                 cluster()}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Model, MovesTheSameOnSeveralRanksInALargerCell) {
  // 64 atoms in tiles that are rebalanced while atoms move; the energies of every step.
  const auto energies = [](const std::string& before, const std::string& after, MPI_Comm ranks) {
    Lammps lammps(ranks);
    lammps.commands(kLoad + "units metal\n" + before +
                    "lattice diamond 4.37 origin 0.02 0.02 0.02\nregion box block 0 2 0 2 0 2\n"
                    "create_box 2 box\ncreate_atoms 1 box basis 5 2 basis 6 2 basis 7 2 basis 8 2\n"
                    "mass 1 28.0855\nmass 2 12.011\n" +
                    dpa4() +
                    "velocity all create 2000 8 mom yes loop geom\nneighbor 0.3 bin\n"
                    "neigh_modify every 1 delay 0 check yes\nfix 1 all nve\nthermo 1\n" +
                    after);
    std::vector<double> result;
    for (int step = 0; step < 3; ++step) {
      lammps.commands(step == 0 ? "run 0" : "run 2");
      result.push_back(lammps.thermo("pe"));
      result.push_back(lammps.thermo("press") * 1e-5);
    }
    return result;
  };
  const std::vector<double> together =
      energies("comm_style tiled\n", "fix 2 all balance 2 1.0 rcb\n", MPI_COMM_WORLD);
  std::vector<double> alone(together.size());
  if (mpi_rank() == 0) alone = energies("", "", MPI_COMM_SELF);
  MPI_Bcast(alone.data(), static_cast<int>(alone.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  expect_close(together, alone, 1e-8, "energy and pressure");
}

/// Energies and pressures of the steps of a run, as the log shows them.
std::vector<double> steps_in(const std::string& log) {
  std::istringstream lines(log.substr(log.rfind("   Step ")));
  std::vector<double> result;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.rfind("Loop time", 0) != 0) {
    std::istringstream numbers(line);
    double step = 0, energy = 0, pressure = 0;
    if (!(numbers >> step >> energy >> pressure)) continue;
    result.push_back(energy);
    result.push_back(1e-5 * pressure);
  }
  return result;
}

TEST(Model, FollowsEdgesThatComeAndGoBetweenNeighborLists) {
  // A lattice without edges is pressed together within six steps and drawn apart again: first no
  // edge, then from step to step many more than before, then none. The other run has new lists in
  // every step, and no Kokkos.
  const auto steps = [](const std::string& lists) {
    Lammps lammps;
    lammps.commands(
        kLoad +
        "units metal\nlattice sc 5.6\nregion box block 0 3 0 3 0 3\ncreate_box 2 box\n"
        "create_atoms 1 box\nset group all type/fraction 2 0.5 7121\n"
        "mass 1 28.0855\nmass 2 12.011\n"
        "displace_atoms all random 0.1 0.1 0.1 4711 units box\n" +
        dpa4() + "neighbor 6.0 bin\ncomm_modify cutoff 13.0\n" + lists +
        "timestep 0.001\nfix 1 all deform 1 x wiggle -8.0 0.024 y wiggle -8.0 0.024 "
        "z wiggle -8.0 0.024 remap x units box\nthermo 1\nthermo_style custom step pe press\n"
        "thermo_modify format float %.15g\nrun 13\n");
    return steps_in(lammps.log());
  };
  const std::vector<double> once = steps("neigh_modify every 1000 delay 1000 check no\n");
  const std::vector<std::string> switches = lammps_switches();
  set_lammps_switches({});
  const std::vector<double> expected = steps("neigh_modify every 1 delay 0 check no\n");
  set_lammps_switches(switches);
  ASSERT_EQ(expected.size(), 28U);
  EXPECT_NEAR(expected[0], expected[26], 1e-9) << "without edges there is only the atoms' energy";
  EXPECT_GT(std::abs(expected[12] - expected[0]), 1);
  expect_close(once, expected, 1e-8, "energy or pressure of step");
}

// ---- forces
// ----------------------------------------------------------------------------------------

TEST(Model, ForceIsTheDerivativeOfTheEnergy) {
  // One atom of an open cluster is moved by +-1e-3: truncation is 1e-6 of third derivatives.
  const auto moved = [](double x) {
    char position[32];
    std::snprintf(position, sizeof position, "%.17g", 3.7 + x);
    return run_zero(
        "units metal\nboundary f f f\nregion box block 0 9 0 9 0 9\ncreate_box 2 box\n"
        "mass * 20\ncreate_atoms 1 single 1.9 4 4\ncreate_atoms 2 single " +
        std::string(position) + " 4.3 4\ncreate_atoms 2 single 3 5.9 4.8\n" + dpa4());
  };
  constexpr double kStep = 1e-3;
  const Snapshot here = moved(0);
  const double numerical = -(moved(kStep).energy - moved(-kStep).energy) / (2 * kStep);
  ASSERT_EQ(here.x[3 * 2], 3.7);  // by position, the last of three
  EXPECT_NEAR(here.f[3 * 2], numerical, 1e-4);
}

TEST(Model, IsSmoothWhenAnAtomCrossesTheCutoff) {
  // A Si-C pair at 5 Angstrom +- 1e-12, in an open cell: energies differ by less than rounding.
  const auto energy = [](const char* x) {
    return run_zero(
        "units metal\nboundary f f f\nregion box block 0 9 0 9 0 9\ncreate_box 2 box\n"
        "mass * 20\ncreate_atoms 1 single 1 4 4\ncreate_atoms 2 single 2.9 4 4\n"
        "create_atoms 2 single " +
        std::string(x) + " 4 4\n" + dpa4());
  };
  const Snapshot inside = energy("5.999999999999");
  const Snapshot at = energy("6.0");
  const Snapshot outside = energy("6.000000000001");
  expect_close(inside.f, at.f, 1e-9, "force");
  expect_close(outside.f, at.f, 1e-9, "force");
  EXPECT_NEAR(inside.energy, outside.energy, 1e-11);
}

TEST(Model, GivesTheSameInAnOverlayAndInOtherUnits) {
  const Snapshot plain = run_zero(crystal() + dpa4());
  const Snapshot overlay = run_zero(crystal() +
                                    "pair_style hybrid/overlay dpa4 device " DPA4_TEST_DEVICE
                                    " precision float64 zero 6.0\n"
                                    "pair_coeff * * dpa4 " +
                                    kSic + "pair_coeff * * zero\n");
  expect_same(overlay, plain, kSameArithmetic);
  std::string real = crystal();
  real.replace(real.find("metal"), 5, "real");
  const Snapshot converted = run_zero(real + dpa4());
  EXPECT_NEAR(converted.energy, 23.060549 * plain.energy, 1e-6 * std::abs(converted.energy));
}

TEST(Model, RelaxesToWeakForces) {
  Lammps lammps;
  lammps.commands(kLoad + crystal() + dpa4("precision float64") + "thermo 5\n");
  lammps.watch(true);
  lammps.commands("min_style cg\nrun 0");
  const double before = lammps.thermo("fmax");
  lammps.commands("minimize 0 1e-2 30 100");
  EXPECT_LT(lammps.thermo("fmax"), 0.05 * before);
}

// ---- what the user is told
// -------------------------------------------------------------------------

TEST(Model, IsDescribedOnceInTheLog) {
  Lammps lammps;
  lammps.commands(kLoad + crystal() + dpa4() + "run 0\nrun 0");
  const std::string log = lammps.log();
  const std::string title = "DPA4 model " + kPotentials + "sic_mini.pt";
  const auto at = log.find(title);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(title, at + 1), std::string::npos);
  for (const char* part : {"mini", "Si C", "5 Angstrom", "float64", "bytes per edge"}) {
    EXPECT_NE(log.find(part, at), std::string::npos) << part;
  }
}

TEST(Model, IsFoundWhereLammpsLooksForPotentials) {
  setenv("LAMMPS_POTENTIALS", kPotentials.c_str(), 1);
  Lammps lammps;
  lammps.commands(kLoad + crystal() +
                  "pair_style dpa4 device " DPA4_TEST_DEVICE
                  "\npair_coeff * * sic_mini.pt Si C\nrun 0");
  unsetenv("LAMMPS_POTENTIALS");
}

TEST(Errors, NameTheFileAndTheReason) {
  const std::string broken = temporary_path("broken.pt");
  if (mpi_rank() == 0) std::ofstream(broken) << "not a checkpoint";
  MPI_Barrier(MPI_COMM_WORLD);
  Lammps lammps;
  lammps.commands(kLoad + crystal() + "pair_style dpa4 device " DPA4_TEST_DEVICE "\n");
  for (const std::string& file : {broken, temporary_path("nowhere.pt")}) {
    const std::string message = error_of(lammps, "pair_coeff * * " + file + " Si C");
    EXPECT_NE(message.find(file), std::string::npos) << message;
  }
  const std::string message =
      error_of(lammps, "pair_coeff * * " + kPotentials + "sic_mini.pt Si O");
  EXPECT_NE(message.find("no element 'O'; its elements are Si C"), std::string::npos) << message;
  MPI_Barrier(MPI_COMM_WORLD);
  if (mpi_rank() == 0) std::remove(broken.c_str());
}

}  // namespace
}  // namespace dpa4::test
