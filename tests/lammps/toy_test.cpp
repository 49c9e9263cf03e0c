// SPDX-License-Identifier: GPL-2.0-or-later
// The pair style with a toy model behind it, on every kind of cell, communication and command that
// LAMMPS offers: what reaches the model and what comes back must be right whatever the model is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "src/graph/periodic.h"
#include "tests/support/lammps_driver.h"
#include "tests/support/lammps_toy_model.h"

namespace dpa4::test {
namespace {

constexpr double kMetal = 1.0;
const std::string kLoad = "plugin load " DPA4TOYPLUGIN_PATH "\n";

/// 80 atoms of three elements, shaken, 12.5 x 10 x 10 Angstrom: 17 neighbors each.
std::string crystal(const std::string& boundary = "p p p", const std::string& before = "") {
  return "units metal\nboundary " + boundary + "\n" + before +
         "\nlattice sc 2.5 origin 0.2 0.2 0.2\nregion box block 0 5 0 4 0 4\ncreate_box 3 "
         "box\ncreate_atoms 1 box\n"
         "set group all type/fraction 2 0.3 7121\nset type 1 type/fraction 3 0.3 911\n"
         "mass * 20.0\ndisplace_atoms all random 0.2 0.2 0.2 4711\nneighbor 1.0 bin\n";
}

std::string toy(const std::string& name = "toy", const std::string& options = "") {
  return "pair_style dpa4/test precision float64 " + options + "\npair_coeff * * " + name +
         " Aa Bb Cc\n";
}

struct Expected {
  double energy = 0;
  std::vector<double> force, atom_energy;
  std::array<double, 9> virial{};
  std::vector<double> atom_virial;  // (N * 9), the model's order
};

/// The toy without LAMMPS, on the atoms of a snapshot.
/// @param model_type  by LAMMPS type, from 1; -1: not seen by the model
Expected without_lammps(const Snapshot& atoms, const graph::Cell& cell,
                        const std::vector<int>& model_type = {-1, 0, 1, 2},
                        const std::string& name = "toy") {
  NullLogger log;
  engine::EngineOptions options;
  options.evaluator.precision = model::Precision::kFloat64;
  const engine::LoadedModel toy = load_toy(name, options, log);

  std::vector<int> kept, type;
  std::vector<double> x;
  for (int n = 0; n < atoms.n_atoms(); ++n) {
    if (model_type[atoms.type[n]] < 0) continue;
    kept.push_back(n);
    type.push_back(model_type[atoms.type[n]]);
    for (int k = 0; k < 3; ++k) x.push_back(atoms.x[3 * n + k]);
  }
  graph::PeriodicGraph graph(kToyCutoff, 3, toy.config.exclude_types);
  model::Structure structure;
  structure.type = {type.data(), type.size()};
  structure.edges = graph.build({x.data(), kept.size(), 3}, structure.type, cell);
  model::NoHalo halo;
  model::Evaluation result;
  toy.evaluator->evaluate(structure, {}, halo, {true}, result);

  Expected expected;
  expected.energy = result.energy;
  expected.virial = result.virial;
  expected.force.assign(3 * atoms.n_atoms(), 0.0);
  expected.atom_energy.assign(atoms.n_atoms(), 0.0);
  expected.atom_virial.assign(9 * atoms.n_atoms(), 0.0);
  for (std::size_t row = 0; row < kept.size(); ++row) {
    for (int k = 0; k < 3; ++k) expected.force[3 * kept[row] + k] = result.force[3 * row + k];
    for (int k = 0; k < 9; ++k) {
      expected.atom_virial[9 * kept[row] + k] = result.atom_virial[9 * row + k];
    }
    expected.atom_energy[kept[row]] = result.atom_energy[row];
  }
  return expected;
}

graph::Cell cell_of(const Lammps& lammps) { return {lammps.cell(), lammps.periodic()}; }

/// Every element, with the largest deviation named once.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t k = 0; k < actual.size(); ++k) {
    const double error = std::abs(actual[k] - expected[k]);
    if (!(error <= worst)) worst = error, where = k;
  }
  EXPECT_LE(worst, tolerance) << what << "[" << where << "] = " << actual[where] << ", expected "
                              << expected[where];
}

/// @param scale      LAMMPS' unit of energy in eV
/// @param tolerance  per value; values are of order 1 to 100
void expect_matches(const Snapshot& atoms, const Expected& expected, double scale,
                    double tolerance) {
  EXPECT_NEAR(atoms.energy, scale * expected.energy, scale * tolerance * atoms.n_atoms());
  const auto scaled = [&](std::vector<double> values) {
    for (double& value : values) value *= scale;
    return values;
  };
  expect_close(atoms.f, scaled(expected.force), scale * tolerance, "force");
  expect_close(atoms.atom_energy, scaled(expected.atom_energy), scale * tolerance, "atom_energy");

  static constexpr int kRow[9] = {0, 1, 2, 0, 0, 1, 1, 2, 2};     // axis of the position
  static constexpr int kColumn[9] = {0, 1, 2, 1, 2, 2, 0, 0, 1};  // axis of the force
  std::vector<double> symmetric, centroid, total;
  for (int n = 0; n < atoms.n_atoms(); ++n) {
    const double* w = expected.atom_virial.data() + 9 * n;  // [force, position]
    for (int k = 0; k < 9; ++k) {
      const double value = w[3 * kColumn[k] + kRow[k]];
      if (k < 6) symmetric.push_back(0.5 * (value + w[3 * kRow[k] + kColumn[k]]));
      centroid.push_back(value);
    }
  }
  for (int k = 0; k < 6; ++k) {
    total.push_back(0.5 * (expected.virial[3 * kColumn[k] + kRow[k]] +
                           expected.virial[3 * kRow[k] + kColumn[k]]));
  }
  expect_close({atoms.virial.begin(), atoms.virial.end()}, scaled(total),
               scale * tolerance * atoms.n_atoms(), "virial");
  expect_close(atoms.atom_virial, scaled(symmetric), scale * tolerance, "atom_virial");
  expect_close(atoms.centroid_virial, scaled(centroid), scale * tolerance, "centroid_virial");
}

constexpr double kRounding = 1e-11;  // of sums of some hundred terms of order 10, in double

// ---- one step in every geometry
// --------------------------------------------------------------------

struct Scene {
  const char* name;
  std::string input;  // everything before the pair style
  std::string model = "toy";
  std::vector<int> model_type{-1, 0, 1, 2};
  std::string pair = {};  // replaces the pair style commands, if not empty
};

void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.name; }

class OneStep : public testing::TestWithParam<Scene> {};

TEST_P(OneStep, GivesWhatTheModelGivesWithoutLammps) {
  const Scene& scene = GetParam();
  Lammps lammps;
  lammps.commands(kLoad + scene.input);
  lammps.commands(scene.pair.empty() ? toy(scene.model) : scene.pair);
  lammps.watch(true);
  lammps.commands("run 0");
  const Snapshot atoms = lammps.snapshot();
  expect_matches(atoms, without_lammps(atoms, cell_of(lammps), scene.model_type, scene.model),
                 kMetal, kRounding);
}

const std::string kTiled = "comm_style tiled\n";
const std::string kRcb = "balance 1.0 rcb\n";
const std::string kTriclinic =
    "units metal\natom_style atomic\nlattice sc 2.5\n"
    "region box prism 0 5 0 4 0 4 1.1 -0.7 0.9\ncreate_box 3 box\ncreate_atoms 1 box\n"
    "set group all type/fraction 2 0.4 7121\nset type 1 type/fraction 3 0.3 911\nmass * 20.0\n"
    "displace_atoms all random 0.2 0.2 0.2 4711\nneighbor 1.0 bin\n";
const std::string kSmallCell =
    "units metal\nlattice none 1.0\nregion box block 0 3.1 0 2.9 0 3.3\ncreate_box 3 box\n"
    "create_atoms 1 single 0.3 0.2 0.1\ncreate_atoms 2 single 1.7 1.2 1.9\n"
    "create_atoms 3 single 0.9 2.1 2.8\nmass * 20.0\n";
const std::string kCorner =
    "units metal\nboundary f f f\nlattice sc 2.5 origin 0.2 0.2 0.2\n"
    "region box block 0 20 0 4 0 4\ncreate_box 3 box\nregion part block 0 2 0 4 0 4\ncreate_atoms "
    "1 region part\n"
    "set group all type/fraction 2 0.3 7121\nmass * 20.0\n"
    "displace_atoms all random 0.2 0.2 0.2 4711\n";
const std::string kSurface =
    "units metal\nboundary p p f\nlattice sc 2.5 origin 0.2 0.2 0.2\n"
    "region box block 0 5 0 4 0 14\ncreate_box 3 box\nregion part block 0 5 0 4 2 6\n"
    "create_atoms 1 region part\nset group all type/fraction 2 0.3 7121\nmass * 20.0\n"
    "displace_atoms all random 0.2 0.2 0.2 4711\nneighbor 1.0 bin\n";
const std::string kNoAtoms =
    "units metal\nregion box block 0 9 0 9 0 9\ncreate_box 3 box\nmass * 20.0\n";

INSTANTIATE_TEST_SUITE_P(
    Toy, OneStep,
    testing::Values(
        Scene{"Periodic", crystal()}, Scene{"NewtonOff", crystal("p p p", "newton off")},
        Scene{"NewtonPairOff", crystal("p p p", "newton off on")}, Scene{"Open", crystal("f f f")},
        Scene{"ShrinkWrapped", crystal("s m s")}, Scene{"Slab", crystal("p p f")},
        Scene{"OneDimensional", crystal("f p f")}, Scene{"Triclinic", kTriclinic},
        Scene{"Tiled", kTiled + crystal() + kRcb},
        Scene{"TiledNewtonOff", kTiled + crystal("p p p", "newton off") + kRcb},
        Scene{"TiledTriclinic", kTiled + kTriclinic + kRcb},
        Scene{"BrickUnevenly", crystal() + "balance 0.9 shift xyz 10 1.05\n"},
        Scene{"SlabsOfRanks", crystal("p p p", "processors 1 1 *")},
        Scene{"RanksThinnerThanTheCutoff", crystal("p p p", "processors * 1 1")},
        Scene{"CellSmallerThanTheCutoff", kSmallCell},
        Scene{"CellSmallerThanTheCutoffInSlabs", "processors 1 * 1\n" + kSmallCell},
        Scene{"RanksWithoutAtoms", "processors * 1 1\n" + kCorner},
        Scene{"RanksWithoutAtomsTiled", kTiled + kCorner}, Scene{"NoAtomsAtAll", kNoAtoms},
        Scene{"OneAtom", kNoAtoms + "create_atoms 2 single 1 1 1\n"},
        Scene{"WideGhostShell", crystal("p p p", "comm_modify cutoff 9.0")},
        Scene{"RowsOfSeveralSlices", crystal(), "toy.wide"},
        Scene{"RowsOfSeveralSlicesTiled", kTiled + crystal() + kRcb, "toy.wide"},
        Scene{"NeighborListsWithoutBins", crystal() + "neighbor 1.0 nsq\n"},
        Scene{"NeighborListsOfSeveralCutoffs",
              crystal() + "neighbor 1.0 multi\ncomm_modify mode multi\n"},
        Scene{"AtomMap", crystal("p p p", "atom_modify map hash")},
        Scene{"IdsWithHoles",
              crystal() + "region hole sphere 2 2 2 1.6\ndelete_atoms region hole compress no\n"},
        Scene{"ExcludedPairsOfElements", crystal(), "toy.exclude"},
        Scene{"ExcludedPairsOfTypes",
              crystal() + "neigh_modify exclude type 1 2\n",
              "toy.exclude",
              {-1, 0, 1, 2},
              toy("toy")},
        Scene{"NullType",
              crystal(),
              "toy",
              {-1, 0, -1, 2},
              "pair_style dpa4/test precision float64\npair_coeff * * toy Aa NULL Cc\n"},
        Scene{"TypesInAnyOrder",
              crystal(),
              "toy",
              {-1, 2, 0, 2},
              "pair_style dpa4/test precision float64\npair_coeff * * toy Cc Aa Cc\n"},
        Scene{
            "HybridLeavesTheOtherTypes",
            crystal(),
            "toy",
            {-1, 0, -1, 2},
            "pair_style hybrid dpa4/test precision float64 zero 3.0\n"
            "pair_coeff * * dpa4/test toy Aa NULL Cc\npair_coeff 1 2 zero\npair_coeff 2 * zero\n"},
        Scene{"HybridOverlay",
              crystal(),
              "toy",
              {-1, 0, 1, 2},
              "pair_style hybrid/overlay dpa4/test precision float64 zero 6.0\n"
              "pair_coeff * * dpa4/test toy Aa Bb Cc\npair_coeff * * zero\n"},
        Scene{"HybridOverlayNewtonOff",
              crystal("p p p", "newton off"),
              "toy",
              {-1, 0, 1, 2},
              "pair_style hybrid/overlay dpa4/test precision float64 zero 6.0\n"
              "pair_coeff * * dpa4/test toy Aa Bb Cc\npair_coeff * * zero\n"},
        Scene{"HybridScaledByOne",
              crystal(),
              "toy",
              {-1, 0, 1, 2},
              "pair_style hybrid/scaled 0.25 dpa4/test precision float64 0.75 dpa4/test precision "
              "float64\npair_coeff * * dpa4/test 1 toy Aa Bb Cc\n"
              "pair_coeff * * dpa4/test 2 toy Aa Bb Cc\n"},
        Scene{"RespaOuterLevel", crystal() + "run_style respa 2 2 pair 2\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Toy, TakesFloat32RowsToo) {
  // Features of order 10 rounded to float32 (6e-8), in products with others of order 10.
  Lammps lammps;
  lammps.commands(kLoad + crystal() +
                  "pair_style dpa4/test precision float32\npair_coeff * * toy.wide Aa Bb Cc\n");
  lammps.watch(true);
  lammps.commands("run 0");
  const Snapshot atoms = lammps.snapshot();
  expect_matches(atoms, without_lammps(atoms, cell_of(lammps)), kMetal, 1e-4);
}

TEST(Toy, ConvertsToRealUnits) {
  Lammps lammps;
  std::string input = crystal();
  input.replace(input.find("metal"), 5, "real");
  lammps.commands(kLoad + input + toy());
  lammps.watch(true);
  lammps.commands("run 0");
  const Snapshot atoms = lammps.snapshot();
  // LAMMPS' own constants for kcal/mol in an eV and for its unit of pressure agree to 1e-5.
  const Expected expected = without_lammps(atoms, cell_of(lammps));
  EXPECT_NEAR(atoms.energy, 23.060549 * expected.energy, 1e-6 * std::abs(atoms.energy));
  expect_matches(atoms, expected, 23.060549, 1e-6);
}

// ---- the same after many steps
// ---------------------------------------------------------------------

// Rounding of 1e-14 a step grows along a trajectory; velocities are of order 10 Angstrom/ps.
constexpr double kTrajectory = 1e-8;

/// The same input on all ranks together and on each rank alone.
/// @param scene  makes the atoms, on one rank: create_atoms numbers them differently on several
/// @param setup  everything else, as the commands before and after reading them
void expect_same_as_one_rank(const std::string& before, const std::string& scene,
                             const std::string& setup, const std::string& end) {
  const std::string file = temporary_path("data");
  if (mpi_rank() == 0) {
    Lammps maker(MPI_COMM_SELF);
    maker.commands(scene + "pair_style zero 4.0\npair_coeff * *\nwrite_data " + file + " nocoeff");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto run = [&](Lammps& lammps) {
    lammps.commands(kLoad + before + "read_data " + file + "\nneighbor 1.0 bin\n" + setup);
    lammps.watch(true);
    lammps.commands(end);
    return lammps.snapshot();
  };
  Lammps together;
  const Snapshot actual = run(together);
  Lammps alone(MPI_COMM_SELF);
  const Snapshot expected = run(alone);
  MPI_Barrier(MPI_COMM_WORLD);
  if (mpi_rank() == 0) std::remove(file.c_str());

  // Whatever happened on the way, forces are those of where the atoms are now.
  expect_matches(actual, without_lammps(actual, cell_of(together)), kMetal, kRounding);
  EXPECT_EQ(actual.id, expected.id);
  EXPECT_EQ(actual.type, expected.type);
  EXPECT_NEAR(actual.energy, expected.energy, kTrajectory * expected.n_atoms());
  expect_close(actual.v, expected.v, kTrajectory, "velocity");
  expect_close(actual.f, expected.f, kTrajectory, "force");
}

const std::string kHot = "velocity all create 900 8 mom yes loop geom\ntimestep 0.002\n";

TEST(Trajectory, IsTheSameOnOneRankWhenAtomsChangeRanks) {
  expect_same_as_one_rank("units metal\n", crystal(),
                          toy() + kHot + "neigh_modify every 1 delay 0 check yes\nfix 1 all nve\n",
                          "thermo 40\nrun 40");
}

TEST(Trajectory, IsTheSameOnOneRankWithTiledRanksThatAreRebalanced) {
  expect_same_as_one_rank(kTiled + "units metal\n", crystal(),
                          toy() + kHot + "fix 1 all nve\nfix 2 all balance 10 1.0 rcb\n",
                          "thermo 40\nrun 40");
}

TEST(Trajectory, IsTheSameOnOneRankInAMovingCell) {
  expect_same_as_one_rank(
      "units metal\n", kTriclinic,
      toy() + kHot + "fix 1 all nve\nfix 2 all deform 1 x scale 1.1 xy delta 1.0 units box\n",
      "thermo 40\nrun 40\nunfix 2\nrun 0");
}

TEST(Trajectory, IsTheSameOnOneRankWhileAtomsAppearAndVanish) {
  expect_same_as_one_rank("units metal\nboundary p p f\n", kSurface,
                          toy() + kHot +
                              "lattice sc 2.5\nregion slab block 0 5 0 4 8 11\nfix 1 all nve\n"
                              "fix 2 all deposit 4 2 5 321 region slab near 1.0 vz -1.0 -1.0\n",
                          "thermo 20\nrun 20\nregion hole sphere 2 2 4 1.5\ndelete_atoms region "
                          "hole compress no\nrun 20");
}

TEST(Trajectory, FollowsTypesThatChangeBetweenNeighborLists) {
  // As Monte Carlo fixes do. Each rank for itself: `set` does not tell other ranks.
  for (const char* name : {"toy", "toy.exclude"}) {
    Lammps lammps(MPI_COMM_SELF);
    lammps.commands(kLoad + crystal() + toy(name));
    lammps.watch(true);
    lammps.commands(
        "run 0\nset atom 5*9 type 3\nset atom 20*30 type 2\nrun 0 pre no\nrun 1 pre no");
    const Snapshot atoms = lammps.snapshot();
    expect_matches(atoms, without_lammps(atoms, cell_of(lammps), {-1, 0, 1, 2}, name), kMetal,
                   kRounding);
  }
}

TEST(Trajectory, ConservesEnergyWhileAtomsCrossTheCutoffAndTheBoundary) {
  Lammps lammps;
  lammps.commands(kLoad + crystal() + toy() + kHot + "timestep 0.0005\nfix 1 all nve\n");
  lammps.watch(false);
  lammps.commands("thermo 100\nrun 0");
  const double before = lammps.thermo("etotal");
  lammps.commands("run 200");
  // Velocity Verlet's own oscillation at this step; the kinetic energy alone is 9 eV.
  EXPECT_NEAR(lammps.thermo("etotal"), before, 2e-3);
}

TEST(Trajectory, ContinuesBitForBitWithoutSetup) {
  const std::string input = kLoad + crystal() + toy() + kHot + "fix 1 all nve\nthermo 10\n";
  Lammps once, twice;
  once.commands(input);
  once.watch(false);
  once.commands("run 20");
  twice.commands(input);
  twice.watch(false);
  twice.commands("run 10\nrun 10 pre no");
  EXPECT_EQ(once.snapshot().x, twice.snapshot().x);
}

TEST(Trajectory, ContinuesFromARestartFile) {
  const std::string file = temporary_path("restart");
  const std::string run = "fix 1 all nve\nthermo 10\n";
  Lammps first;
  first.commands(kLoad + crystal() + toy() + kHot + run);
  first.watch(false);
  first.commands("run 10\nwrite_restart " + file + "\nrun 10");
  Lammps second;
  second.commands(kLoad + "read_restart " + file + "\n" + toy() + "timestep 0.002\n" + run);
  second.watch(false);
  second.commands("run 10");
  MPI_Barrier(MPI_COMM_WORLD);
  if (mpi_rank() == 0) std::remove(file.c_str());
  const Snapshot expected = first.snapshot();
  const Snapshot actual = second.snapshot();
  expect_close(actual.v, expected.v, kTrajectory, "velocity");
  expect_close(actual.f, expected.f, kTrajectory, "force");
}

TEST(Trajectory, IsReadBackByRerun) {
  const std::string file = temporary_path("dump");
  Lammps first;
  first.commands(kLoad + crystal() + toy() + kHot +
                 "fix 1 all nve\nthermo 10\ndump d all custom 10 " + file +
                 " id type x y z\ndump_modify d format float %.17g\n");
  first.watch(false);
  first.commands("run 20\nundump d");
  Lammps second;
  second.commands(kLoad + crystal() + toy() + "thermo 10\n");
  second.watch(false);
  second.commands("rerun " + file + " dump x y z");
  MPI_Barrier(MPI_COMM_WORLD);
  if (mpi_rank() == 0) std::remove(file.c_str());
  EXPECT_NEAR(second.thermo("pe"), first.thermo("pe"), 1e-8);
}

TEST(Minimize, FindsAPointWithoutForces) {
  // Weak forces near the lattice: the toy has no repulsion, so go a few steps downhill only.
  Lammps lammps;
  lammps.commands(kLoad + crystal() + toy() + "thermo 1\n");
  lammps.watch(true);
  lammps.commands("run 0");
  const double before = lammps.thermo("pe");
  lammps.commands("min_style cg\nminimize 0 1e-3 8 40");
  EXPECT_LT(lammps.thermo("pe"), before - 0.1);
  const Snapshot atoms = lammps.snapshot();
  expect_matches(atoms, without_lammps(atoms, cell_of(lammps)), kMetal, kRounding);
}

TEST(Forces, AreThoseOfAnAtomThatSitsAtTheCutoff) {
  // A trimer whose third atom is within, at and beyond the cutoff of the first by 1e-12.
  for (const char* x : {"3.999999999999", "4.0", "4.000000000001"}) {
    Lammps lammps;
    lammps.commands(kLoad + kNoAtoms +
                    "create_atoms 1 single 0 4 4\ncreate_atoms 2 single 2.1 4 4\n" +
                    "create_atoms 3 single " + x + " 4 4\n" + toy());
    lammps.watch(true);
    lammps.commands("run 0");
    const Snapshot atoms = lammps.snapshot();
    expect_matches(atoms, without_lammps(atoms, cell_of(lammps)), kMetal, kRounding);
  }
}

TEST(Energy, IsThatOfTheConditionsGiven) {
  // Each condition adds the same to every atom: 1.5 + 10 * 0.25; 0.75; charge 2 + 100 * 3.
  const struct {
    const char* model;
    const char* options;
    double per_atom;
  } cases[] = {{"toy.fparam", "fparam 1.5 0.25", 4.0},
               {"toy.aparam", "aparam 0.75", 0.75},
               {"toy.charge", "charge 2 spin 3", 302.0},
               {"toy.charge", "charge_spin 2 3", 302.0}};
  for (const auto& given : cases) {
    Lammps lammps;
    lammps.commands(kLoad + crystal() + toy(given.model, given.options));
    lammps.watch(false);
    lammps.commands("run 0");
    const Snapshot atoms = lammps.snapshot();
    const double expected =
        without_lammps(atoms, cell_of(lammps)).energy + given.per_atom * atoms.n_atoms();
    EXPECT_NEAR(atoms.energy, expected, 1e-9) << given.options;
  }
}

/// The energy [eV] of toy.fparam with these frame parameters.
double energy_with(Lammps& lammps, const Snapshot& atoms, double first, double second) {
  return without_lammps(atoms, cell_of(lammps)).energy + (first + 10 * second) * atoms.n_atoms();
}

TEST(Energy, IsThatOfTheConditionsComputed) {
  Lammps lammps;
  lammps.commands(kLoad + crystal() + "compute own all property/atom type\n" +
                  toy("toy.aparam", "aparam_from_compute own"));
  lammps.watch(true);
  lammps.commands("run 0");
  Snapshot atoms = lammps.snapshot();
  Expected expected = without_lammps(atoms, cell_of(lammps));
  for (int n = 0; n < atoms.n_atoms(); ++n) {
    expected.atom_energy[n] += atoms.type[n];
    expected.energy += atoms.type[n];
  }
  expect_matches(atoms, expected, kMetal, kRounding);

  Lammps other;
  other.commands(kLoad + crystal() +
                 "variable one atom 1.0\nvariable two atom 2.0\n"
                 "compute both all reduce ave v_one v_two\n" +
                 toy("toy.fparam", "fparam_from_compute both"));
  other.watch(false);
  other.commands("run 0");
  atoms = other.snapshot();
  EXPECT_NEAR(atoms.energy, energy_with(other, atoms, 1.0, 2.0), 1e-9);
}

TEST(Energy, FollowsWhatIsComputedInEveryStep) {
  Lammps lammps;
  lammps.commands(kLoad + crystal() + "compute center all reduce ave x y\n" +
                  toy("toy.fparam", "fparam_from_compute center") +
                  "velocity all set 20 10 0 units box\nfix move all nve\n");
  lammps.watch(false);
  lammps.commands("run 5");
  const Snapshot atoms = lammps.snapshot();
  double center[2] = {0, 0};
  for (int n = 0; n < atoms.n_atoms(); ++n) {
    for (int k = 0; k < 2; ++k) center[k] += atoms.x[3 * n + k] / atoms.n_atoms();
  }
  EXPECT_NEAR(atoms.energy, energy_with(lammps, atoms, center[0], center[1]), 1e-8);
}

TEST(Energy, FollowsWhatIsComputedInEveryTrialOfAMinimizer) {
  // The second compute takes its numbers from the first.
  Lammps lammps;
  lammps.commands(kLoad + crystal() +
                  "compute where all property/atom x y\ncompute largest all reduce max c_where[1] "
                  "c_where[2]\n" +
                  toy("toy.fparam", "fparam_from_compute largest"));
  lammps.watch(false);
  lammps.commands("min_modify dmax 0.3\nminimize 0 0 4 30");
  const Snapshot atoms = lammps.snapshot();
  double largest[2] = {-1e9, -1e9};
  for (int n = 0; n < atoms.n_atoms(); ++n) {
    for (int k = 0; k < 2; ++k) largest[k] = std::max(largest[k], atoms.x[3 * n + k]);
  }
  EXPECT_NEAR(atoms.energy, energy_with(lammps, atoms, largest[0], largest[1]), 1e-8);
}

TEST(Virial, IsTheDerivativeOfTheEnergyByStrain) {
  // Strain of +-1e-5 of 12.5 (x) and 10 Angstrom (y, z); the tilts move x by y / 10, x by z / 10, y
  // by z / 10. Truncation and rounding of the difference are 1e-6 of a virial of order 100 eV.
  const struct {
    int component;
    const char *plus, *minus;
  } strains[] = {{0, "x final 0 12.500125", "x final 0 12.499875"},
                 {1, "y final 0 10.0001", "y final 0 9.9999"},
                 {2, "z final 0 10.0001", "z final 0 9.9999"},
                 {3, "xy delta 0.0001", "xy delta -0.0001"},
                 {4, "xz delta 0.0001", "xz delta -0.0001"},
                 {5, "yz delta 0.0001", "yz delta -0.0001"}};
  const auto strained = [](const std::string& change) {
    Lammps lammps;
    lammps.commands(kLoad + crystal() + toy() + "change_box all triclinic\n" + change);
    lammps.watch(false);
    lammps.commands("run 0");
    return lammps.snapshot();
  };
  const Snapshot here = strained("");
  for (const auto& strain : strains) {
    const double plus =
        strained(std::string("change_box all ") + strain.plus + " remap units box").energy;
    const double minus =
        strained(std::string("change_box all ") + strain.minus + " remap units box").energy;
    EXPECT_NEAR(here.virial[strain.component], -(plus - minus) / 2e-5, 1e-4) << strain.plus;
  }
}

// ---- what LAMMPS and the user are told
// -------------------------------------------------------------

TEST(Log, ShowsTheModelOnceAndItsWarnings) {
  Lammps lammps;
  lammps.commands(kLoad + crystal() + toy("toy", "cohort 17") + "run 0\nrun 0");
  const std::string log = lammps.log();
  const auto count = [&](const std::string& text) {
    int n = 0;
    for (auto at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("toy model toy\n"), 1);
  EXPECT_EQ(count("toy cohort 17\n"), 1);
  EXPECT_EQ(count("WARNING: the toy is not for science"), 1);
}

struct Mistake {
  const char* name;
  std::string input;  // after a crystal of three types
  const char* message;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class Errors : public testing::TestWithParam<Mistake> {};

TEST_P(Errors, SayWhatToChange) {
  Lammps lammps;
  lammps.commands(kLoad + crystal());
  const std::string message = error_of(lammps, GetParam().input);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

const std::string kStyle = "pair_style dpa4/test\n";

INSTANTIATE_TEST_SUITE_P(
    Toy, Errors,
    testing::Values(
        Mistake{"UnknownKeyword", "pair_style dpa4/test precison float64",
                "unknown keyword 'precison'"},
        Mistake{"NoFile", kStyle + "pair_coeff * * nowhere.pt Aa Bb Cc",
                "'nowhere.pt' is not a {toy}"},
        Mistake{"UnknownElement", kStyle + "pair_coeff * * toy Aa Xx Cc",
                "no element 'Xx'; its elements are Aa Bb Cc"},
        Mistake{"TooFewElements", kStyle + "pair_coeff * * toy Aa Bb",
                "each of the 3 atom types, not 2; the model's elements are Aa Bb Cc"},
        Mistake{"AllNull", kStyle + "pair_coeff * * toy NULL NULL NULL", "every atom type to NULL"},
        Mistake{"NoModel", kStyle + "pair_coeff * *", "reads: pair_coeff * * MODEL_FILE"},
        Mistake{"NoPairCoeff", kStyle + "run 0", "pair coeffs are not set"},
        Mistake{"SecondPairCoeffOfAHybrid",
                "pair_style hybrid/overlay dpa4/test zero 4.0\npair_coeff * * zero\n"
                "pair_coeff * * dpa4/test toy Aa Bb NULL\n"
                "pair_coeff * * dpa4/test toy NULL NULL Cc\nrun 0",
                "no elements for the atom types 1 and 1"},
        Mistake{"StyleGivenAgain", kStyle + "pair_coeff * * toy Aa Bb Cc\n" + kStyle + "run 0",
                "pair coeffs are not set"},
        Mistake{"FparamMissing", kStyle + "pair_coeff * * toy.fparam Aa Bb Cc",
                "no default for its 2 fparam values"},
        Mistake{"FparamUnwanted", "pair_style dpa4/test fparam 1\npair_coeff * * toy Aa Bb Cc",
                "takes 0 fparam values, not 1"},
        Mistake{"AparamMissing", kStyle + "pair_coeff * * toy.aparam Aa Bb Cc",
                "takes 1 aparam value for each atom, not 0"},
        Mistake{"SpinMissing", "pair_style dpa4/test charge 1\npair_coeff * * toy.charge Aa Bb Cc",
                "add the keyword 'spin'"},
        Mistake{"ComputeMissing",
                "pair_style dpa4/test fparam_from_compute nowhere\n"
                "pair_coeff * * toy.fparam Aa Bb Cc\nrun 0",
                "there is no compute 'nowhere'"},
        Mistake{"ComputeOfTheWrongSize",
                "pair_style dpa4/test fparam_from_compute thermo_press\n"
                "pair_coeff * * toy.fparam Aa Bb Cc\nrun 0",
                "does not give the model's 2 fparam"},
        Mistake{"PairWrite", kStyle + "pair_coeff * * toy Aa Bb Cc\npair_write 1 1 9 r 1 3 table y",
                "does not support pair_write"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Toy, PointsToTheWrongArgument) {
  Lammps lammps;
  lammps.commands(kLoad + crystal());
  const std::string message = error_of(lammps, "pair_style dpa4/test cohort 0");
  const auto line = message.find("pair_style dpa4/test cohort 0");
  const auto pointer = message.find('^');
  ASSERT_NE(line, std::string::npos) << message;
  ASSERT_NE(pointer, std::string::npos) << message;
  // The caret stands below the argument.
  const auto column = [&](std::size_t at) { return at - message.rfind('\n', at); };
  EXPECT_EQ(column(pointer), column(line + std::string("pair_style dpa4/test cohort ").size()))
      << message;
}

TEST(Toy, StopsWithTheFirstLineOfAFailure) {
  Lammps lammps(MPI_COMM_SELF);
  lammps.commands(kLoad + crystal() + kStyle + "pair_coeff * * toy.throw Aa Bb Cc");
  const std::string message = error_of(lammps, "run 0");
  EXPECT_NE(message.find("the toy cannot {evaluate} ("), std::string::npos) << message;
  EXPECT_EQ(message.find("stack"), std::string::npos) << message;
}

TEST(Toy, RefusesOtherUnits) {
  Lammps lammps;
  lammps.commands(kLoad + "units lj\nregion box block 0 9 0 9 0 9\ncreate_box 3 box");
  EXPECT_NE(error_of(lammps, kStyle).find("units metal or real"), std::string::npos);
}

/// Two bonded atoms and one more, in a periodic cell.
const std::string kBonded =
    "units metal\natom_style bond\nregion box block 0 9 0 9 0 9\n"
    "create_box 3 box bond/types 1 extra/bond/per/atom 2 extra/special/per/atom 4\nmass * 20\n"
    "create_atoms 1 single 1 1 1\ncreate_atoms 2 single 2.5 1 1\ncreate_atoms 3 single 4 1 1\n"
    "bond_style zero\nbond_coeff 1\ncreate_bonds single/bond 1 1 2\n";

TEST(SpecialBonds, ThatDropNeighborsAreRefused) {
  Lammps lammps;
  lammps.commands(kLoad + kBonded + toy());
  const std::string message = error_of(lammps, "run 0");
  EXPECT_NE(message.find("special_bonds takes the 1-2 neighbors 1 and 2 out"), std::string::npos)
      << message;
}

TEST(SpecialBonds, ThatDropNeighborsSoonAreRefused) {
  // They come within the cutoff of 4 Angstrom before the neighbor list is made anew.
  Lammps lammps;
  lammps.commands(kLoad + kBonded + "set atom 2 x 5.2\nset atom 3 x 7\nneighbor 1.0 bin\n" + toy());
  EXPECT_NE(error_of(lammps, "run 0").find("special_bonds takes the 1-2"), std::string::npos);
}

TEST(SpecialBonds, ThatKeepNeighborsChangeNothing) {
  // Any weight but zero keeps the neighbor, marked in its top bits; LAMMPS' many-body styles ignore
  // it.
  for (const char* weights :
       {"special_bonds lj/coul 1 1 1\n", "special_bonds lj/coul 1e-100 0.5 0.5\n"}) {
    Lammps lammps;
    lammps.commands(kLoad + kBonded + weights + toy());
    lammps.watch(true);
    lammps.commands("run 0");
    const Snapshot atoms = lammps.snapshot();
    expect_matches(atoms, without_lammps(atoms, cell_of(lammps)), kMetal, kRounding);
  }
}

TEST(SpecialBonds, DoNotMatterBetweenAtomsTheModelDoesNotSee) {
  Lammps lammps;
  lammps.commands(kLoad + kBonded +
                  "pair_style dpa4/test precision float64\n"
                  "pair_coeff * * toy Aa NULL Cc\n");
  lammps.watch(true);
  lammps.commands("run 0");
  const Snapshot atoms = lammps.snapshot();
  expect_matches(atoms, without_lammps(atoms, cell_of(lammps), {-1, 0, -1, 2}), kMetal, kRounding);
}

}  // namespace
}  // namespace dpa4::test
