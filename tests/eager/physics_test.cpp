// SPDX-License-Identifier: GPL-2.0-or-later
// What any interatomic potential must satisfy, checked without reference numbers.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "src/eager/eager_evaluator.h"
#include "tests/native/model_case.h"

namespace dpa4::eager {
namespace {

using model::Evaluation;
using native::testing::ModelCase;
using tools::ReferenceFrame;

using Matrix = std::array<std::array<double, 3>, 3>;

/// A golden model in float64 with its frames.
class Potential {
 public:
  explicit Potential(const std::string& name) : model_("golden/" + name + ".json") {
    model::EvaluatorOptions options;
    options.precision = model::Precision::kFloat64;
    evaluator_ = make_evaluator(model_.config(), model_.weights(), options);
  }

  const model::ModelConfig& config() const { return model_.config(); }
  const ReferenceFrame& frame(std::size_t i) const { return model_.frames().at(i); }
  Evaluation operator()(const ReferenceFrame& frame) { return model_.evaluate(*evaluator_, frame); }

 private:
  ModelCase model_;
  std::unique_ptr<model::Evaluator> evaluator_;
};

/// x -> A x for positions and cell.
ReferenceFrame transformed(ReferenceFrame frame, const Matrix& a) {
  const auto apply = [&a](const double* in, double* out) {
    for (int i = 0; i < 3; ++i) out[i] = a[i][0] * in[0] + a[i][1] * in[1] + a[i][2] * in[2];
  };
  std::vector<double> x = frame.structure.x;
  for (std::size_t n = 0; n < x.size(); n += 3) apply(&frame.structure.x[n], &x[n]);
  frame.structure.x = x;
  for (auto& row : frame.structure.cell.vectors) {
    const auto old = row;
    apply(old.data(), row.data());
  }
  return frame;
}

Matrix strain(int a, int b, double e) {
  Matrix m{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  m[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] += e;
  return m;
}

/// A rotation about a general axis.
Matrix general_rotation() {
  const double w = 0.5, x = 0.1, y = -0.7, z = std::sqrt(1 - 0.25 - 0.01 - 0.49);
  return {{{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
           {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
           {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}}};
}

class Physics : public ::testing::TestWithParam<const char*> {};

TEST_P(Physics, ForceIsMinusTheGradientOfTheEnergy) {
  Potential potential(GetParam());
  ReferenceFrame frame = potential.frame(0);
  const Evaluation at_rest = potential(frame);
  const double h = 2e-4;  // [Angstrom] truncation h^4 and rounding 1e-12 / h both below 1e-7
  for (std::size_t i = 0; i < frame.structure.x.size(); i += 4) {
    const double x = frame.structure.x[i];
    const auto energy_at = [&](double shift) {
      frame.structure.x[i] = x + shift;
      return potential(frame).energy;
    };
    const double slope =
        (8 * (energy_at(h) - energy_at(-h)) - (energy_at(2 * h) - energy_at(-2 * h))) / (12 * h);
    frame.structure.x[i] = x;
    EXPECT_NEAR(at_rest.force[i], -slope, 2e-6 * (1 + std::abs(slope))) << "coordinate " << i;
  }
}

TEST_P(Physics, VirialIsMinusTheStrainDerivative) {
  Potential potential(GetParam());
  const ReferenceFrame& frame = potential.frame(0);
  const Evaluation at_rest = potential(frame);
  const double h = 5e-5;
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      const auto energy_at = [&](double e) {
        return potential(transformed(frame, strain(a, b, e))).energy;
      };
      const double slope =
          (8 * (energy_at(h) - energy_at(-h)) - (energy_at(2 * h) - energy_at(-2 * h))) / (12 * h);
      EXPECT_NEAR(at_rest.virial[static_cast<std::size_t>(3 * a + b)], -slope,
                  1e-5 * (1 + std::abs(slope)))
          << a << b;
    }
  }
}

TEST_P(Physics, RotationTurnsForcesAndLeavesEnergies) {
  Potential potential(GetParam());
  const Matrix r = general_rotation();
  for (std::size_t f : {0u, 2u}) {
    const Evaluation before = potential(potential.frame(f));
    const Evaluation after = potential(transformed(potential.frame(f), r));
    EXPECT_NEAR(after.energy, before.energy, 1e-10 * std::abs(before.energy));
    for (std::size_t n = 0; n < before.force.size(); n += 3) {
      for (std::size_t i = 0; i < 3; ++i) {
        double expected = 0;
        for (std::size_t j = 0; j < 3; ++j) expected += r[i][j] * before.force[n + j];
        EXPECT_NEAR(after.force[n + i], expected, 1e-9);
      }
    }
  }
}

TEST_P(Physics, TranslationChangesNothing) {
  Potential potential(GetParam());
  ReferenceFrame frame = potential.frame(0);
  const Evaluation before = potential(frame);
  for (std::size_t i = 0; i < frame.structure.x.size(); ++i) {
    frame.structure.x[i] += std::array<double, 3>{3.7, -11.2, 0.45}[i % 3];
  }
  const Evaluation after = potential(frame);
  EXPECT_NEAR(after.energy, before.energy, 1e-11 * std::abs(before.energy));
  for (std::size_t i = 0; i < before.force.size(); ++i)
    EXPECT_NEAR(after.force[i], before.force[i], 1e-9);
}

TEST_P(Physics, PermutationPermutes) {
  Potential potential(GetParam());
  const ReferenceFrame& frame = potential.frame(0);
  const Evaluation before = potential(frame);
  ReferenceFrame reversed = frame;
  const std::size_t n = static_cast<std::size_t>(frame.structure.n_atoms());
  for (std::size_t i = 0; i < n; ++i) {
    reversed.structure.element[i] = frame.structure.element[n - 1 - i];
    for (std::size_t a = 0; a < 3; ++a)
      reversed.structure.x[3 * i + a] = frame.structure.x[3 * (n - 1 - i) + a];
  }
  const Evaluation after = potential(reversed);
  EXPECT_NEAR(after.energy, before.energy, 1e-11 * std::abs(before.energy));
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(after.atom_energy[i], before.atom_energy[n - 1 - i], 1e-9);
    for (std::size_t a = 0; a < 3; ++a) {
      EXPECT_NEAR(after.force[3 * i + a], before.force[3 * (n - 1 - i) + a], 1e-9);
    }
  }
}

TEST_P(Physics, ForcesAndVirialsAddUp) {
  Potential potential(GetParam());
  const Evaluation result = potential(potential.frame(0));
  for (std::size_t a = 0; a < 3; ++a) {
    double total = 0;
    for (std::size_t i = a; i < result.force.size(); i += 3) total += result.force[i];
    EXPECT_NEAR(total, 0, 1e-10);
  }
  EXPECT_NEAR(std::accumulate(result.atom_energy.begin(), result.atom_energy.end(), 0.0),
              result.energy, 1e-12 * std::abs(result.energy));
  for (std::size_t k = 0; k < 9; ++k) {
    double total = 0;
    for (std::size_t i = k; i < result.atom_virial.size(); i += 9) total += result.atom_virial[i];
    EXPECT_NEAR(total, result.virial[k], 1e-10);
  }
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_NEAR(result.virial[3 * a + b], result.virial[3 * b + a], 1e-8);
  }
}

TEST_P(Physics, FarClustersAddUp) {
  Potential potential(GetParam());
  const ReferenceFrame& one = potential.frame(2);  // open boundaries
  ASSERT_FALSE(one.structure.cell.periodic[0]);
  ReferenceFrame both = one;
  const std::size_t n = one.structure.x.size();
  for (std::size_t i = 0; i < n; ++i)
    both.structure.x.push_back(one.structure.x[i] + (i % 3 == 1 ? 300.0 : 0.0));
  both.structure.element.insert(both.structure.element.end(), one.structure.element.begin(),
                                one.structure.element.end());
  const Evaluation single = potential(one), twice = potential(both);
  EXPECT_NEAR(twice.energy, 2 * single.energy, 1e-12 * std::abs(twice.energy));
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(twice.force[i], single.force[i], 1e-11);
    EXPECT_NEAR(twice.force[i + n], single.force[i], 1e-11);
  }
}

TEST_P(Physics, AnIsolatedAtomHasNoForceAndItsOwnEnergy) {
  Potential potential(GetParam());
  ReferenceFrame alone = potential.frame(2);
  alone.structure.element.resize(1);
  alone.structure.x.resize(3);
  const Evaluation result = potential(alone);  // no edges at all
  EXPECT_TRUE(std::isfinite(result.energy));
  for (double f : result.force) EXPECT_EQ(f, 0.0);
  for (double w : result.virial) EXPECT_EQ(w, 0.0);

  // The same atom far from everybody else has the same energy.
  ReferenceFrame with_others = potential.frame(2);
  with_others.structure.x[0] += 500.0;
  EXPECT_NEAR(potential(with_others).atom_energy[0], result.energy,
              1e-11 * std::abs(result.energy));
}

TEST_P(Physics, IsSmoothAcrossTheCutoff) {
  if (std::string(GetParam()) == "zbl") {
    GTEST_SKIP() << "the ZBL term has no switching function: it jumps at the cutoff by definition";
  }
  Potential potential(GetParam());
  ReferenceFrame pair = potential.frame(2);
  pair.structure.element.resize(3);
  pair.structure.x = {0, 0, 0, 2.1, 0.4, -0.3, 0, 0, 0};
  const double rcut = potential.config().rcut;
  const auto at = [&](double r) {  // the third atom crosses the cutoff of the first
    pair.structure.x[6] = -r;
    return potential(pair);
  };
  // Value and three derivatives of the edge weight vanish at the cutoff: over 2 d the energy
  // changes by O(d^4) and the force by O(d^3).
  const double d = 1e-4;
  const Evaluation inside = at(rcut - d), outside = at(rcut + d);
  EXPECT_NEAR(inside.energy, outside.energy, 1e-9);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(inside.force[i], outside.force[i], 1e-7);
  // One ulp around the cutoff: the edge exists or not, the result is the same.
  const Evaluation below = at(std::nextafter(rcut, 0.0)), above = at(std::nextafter(rcut, 10.0));
  EXPECT_NEAR(below.energy, above.energy, 1e-12 * std::abs(above.energy));
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(below.force[i], above.force[i], 1e-12);
}

// Attention and focus streams; bridging; plain scatter; S2 grids in the SO(2) stack; Cartesian
// products.
INSTANTIATE_TEST_SUITE_P(Models, Physics,
                         ::testing::Values("neo", "zbl", "noatten", "s2act", "cartesian"),
                         [](const auto& info) { return std::string(info.param); });

/// The SO(2) maps mix the orders -m and +m of an edge, so a DPA4 energy may differ between mirror
/// images of a chiral arrangement. A pair of atoms is its own mirror image.
TEST(Inversion, IsASymmetryOfAtomPairs) {
  Potential potential("neo");
  ReferenceFrame pair = potential.frame(2);
  pair.structure.element.resize(2);
  pair.structure.x = {0, 0, 0, 1.3, 0.9, -1.1};
  const Evaluation before = potential(pair);
  const Evaluation after = potential(transformed(pair, {{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}}}));
  EXPECT_NEAR(after.energy, before.energy, 1e-11 * std::abs(before.energy));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(after.force[i], -before.force[i], 1e-10);
}

}  // namespace
}  // namespace dpa4::eager
