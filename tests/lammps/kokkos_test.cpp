// SPDX-License-Identifier: GPL-2.0-or-later
// The /kk style beside the host style: the same input in a LAMMPS with Kokkos switched on, as the
// program's arguments say, and in one without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/lammps_driver.h"

namespace dpa4::test {
namespace {

const std::string kLoad = "plugin load " DPA4TOYPLUGIN_PATH "\n";

/// 80 atoms of three elements, shaken; made on one rank's terms, so that every run has the same
/// ones.
const std::string kAtoms =
    "units metal\nlattice sc 2.5 origin 0.2 0.2 0.2\nregion box block 0 5 0 4 0 4\n"
    "create_box 3 box\ncreate_atoms 1 box\nset group all type/fraction 2 0.3 7121\n"
    "set type 1 type/fraction 3 0.3 911\nmass * 20.0\n"
    "displace_atoms all random 0.2 0.2 0.2 4711\nneighbor 1.0 bin\ntimestep 0.001\n";
const std::string kToy = "pair_style dpa4/test precision float64\npair_coeff * * toy Aa Bb Cc\n";
const std::string kHot = "velocity all create 600 8 mom yes loop geom\n";
const std::string kShort = "lj/cut 4.0 ";

std::string hybrid(const std::string& style, const std::string& first, const std::string& second) {
  return "pair_style " + style + " " + first + second +
         "\npair_coeff * * dpa4/test toy Aa Bb Cc\npair_coeff * * lj/cut 0.02 2.2\n";
}

struct Scene {
  const char* name;
  std::string input;        // after the atoms
  std::string before = {};  // before them
};

void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.name; }

Snapshot run(const Scene& scene) {
  Lammps lammps;
  lammps.commands(kLoad + scene.before + kAtoms + kHot);
  const auto split = scene.input.find("run");
  lammps.commands(scene.input.substr(0, split));
  lammps.watch(true);
  lammps.commands("thermo 10\n" + scene.input.substr(split));
  return lammps.snapshot();
}

std::vector<std::string>& given_switches() {
  static std::vector<std::string> switches = lammps_switches();
  return switches;
}

class SameAsHost : public testing::TestWithParam<Scene> {
 protected:
  void SetUp() override {
    given_switches();
    ASSERT_TRUE(with_kokkos()) << "start this program with -k on t 1 -sf kk";
  }
  void TearDown() override { set_lammps_switches(given_switches()); }
};

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t k = 0; k < actual.size(); ++k) {
    ASSERT_NEAR(actual[k], expected[k], tolerance) << what << "[" << k << "]";
  }
}

TEST_P(SameAsHost, InEveryValue) {
  const Snapshot kokkos = run(GetParam());
  set_lammps_switches({});
  const Snapshot host = run(GetParam());
  // Rounding of 1e-14 of values of order 10, grown over ten to twenty steps.
  constexpr double kTolerance = 1e-9;
  EXPECT_EQ(kokkos.id, host.id);
  EXPECT_NEAR(kokkos.energy, host.energy, kTolerance * host.n_atoms());
  expect_close(kokkos.x, host.x, kTolerance, "x");
  expect_close(kokkos.v, host.v, kTolerance, "v");
  expect_close(kokkos.f, host.f, kTolerance, "f");
  expect_close({kokkos.virial.begin(), kokkos.virial.end()},
               {host.virial.begin(), host.virial.end()}, kTolerance * host.n_atoms(), "virial");
  expect_close(kokkos.atom_energy, host.atom_energy, kTolerance, "atom_energy");
  expect_close(kokkos.atom_virial, host.atom_virial, kTolerance, "atom_virial");
  expect_close(kokkos.centroid_virial, host.centroid_virial, kTolerance, "centroid_virial");
}

const std::string kNve = "fix 1 all nve\nrun 10";

INSTANTIATE_TEST_SUITE_P(
    Toy, SameAsHost,
    testing::Values(
        Scene{"Nve", kToy + kNve}, Scene{"NveWithAtomMap", kToy + kNve, "atom_modify map hash\n"},
        // All atoms are in one of the bins by which rows are put in order.
        Scene{"DropletInALargeBox",
              "change_box all x final -300 500 y final -300 500 z final "
              "-300 500 units box\n" +
                  kToy + kNve},
        Scene{"Nvt", kToy + "fix 1 all nvt temp 600 300 0.05\nrun 20"},
        Scene{"Npt", kToy + "fix 1 all npt temp 600 600 0.05 aniso 0 1000 0.5\nrun 20"},
        Scene{"Minimize", kToy + "min_style cg\nrun 0\nminimize 0 0 3 10"},
        Scene{"OverlayFirst",
              hybrid("hybrid/overlay", "dpa4/test precision float64 ", kShort) + kNve},
        Scene{"OverlayLast",
              hybrid("hybrid/overlay", kShort, "dpa4/test precision float64 ") + kNve},
        Scene{"ScaledFirst",
              hybrid("hybrid/scaled", "0.7 dpa4/test precision float64 ", "0.4 " + kShort) + kNve},
        Scene{"ScaledLast",
              hybrid("hybrid/scaled", "0.4 " + kShort, "0.7 dpa4/test precision float64 ") + kNve},
        Scene{"HybridByType",
              "pair_style hybrid dpa4/test precision float64 lj/cut 4.0\n"
              "pair_coeff * * dpa4/test toy Aa NULL Cc\npair_coeff 1 2 lj/cut 0.02 2.2\n"
              "pair_coeff 2 * lj/cut 0.02 2.2\n" +
                  kNve}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Kokkos, GivesTheSameBitsInEveryRun) {
  const Scene scene{"Nve", kToy + "fix 1 all nve\nrun 20"};
  const Snapshot once = run(scene);
  const Snapshot again = run(scene);
  EXPECT_EQ(once.x, again.x);
  EXPECT_EQ(once.f, again.f);
  EXPECT_EQ(once.energy, again.energy);
  EXPECT_EQ(once.virial, again.virial);
}

TEST(Kokkos, RefusesADeviceThatItDoesNotHave) {
  const bool on_gpu = std::string(DPA4_TEST_DEVICE) == "cuda";
  const std::string other = on_gpu ? "cpu" : "cuda";
  Lammps lammps;
  lammps.commands(kLoad + kAtoms + "pair_style dpa4/test device " + other + "\n");
  const std::string message = error_of(lammps, "pair_coeff * * toy Aa Bb Cc");
  const std::string expected = on_gpu ? "Kokkos has the atoms on the GPU"
                                      : "'device cuda' needs a LAMMPS whose Kokkos has the GPU";
  EXPECT_NE(message.find(expected), std::string::npos) << message;
}

TEST(Kokkos, MustBeSwitchedOn) {
  const std::vector<std::string> switches = lammps_switches();
  set_lammps_switches({});
  Lammps lammps;
  lammps.commands(kLoad + kAtoms);
  const std::string message = error_of(lammps, "pair_style dpa4/test/kk");
  set_lammps_switches(switches);
  EXPECT_NE(message.find("start LAMMPS with -k on"), std::string::npos) << message;
}

}  // namespace
}  // namespace dpa4::test
