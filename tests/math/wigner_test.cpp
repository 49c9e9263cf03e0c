// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/math/wigner.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "src/math/harmonics.h"
#include "tests/math/dual.h"

namespace dpa4::testing {
namespace {

constexpr int kLmax = 6;
constexpr double kTolerance = 1e-13;

/// Unit vectors in every octant, on the axes and at both poles.
std::vector<std::array<double, 3>> directions() {
  std::vector<std::array<double, 3>> result = {{0, 0, 1},    {0, 0, -1},       {1, 0, 0},
                                               {-1, 0, 0},   {0, 1, 0},        {0, -1, 0},
                                               {1e-9, 0, 1}, {1e-9, -1e-9, -1}};
  for (int k = 0; k < 20; ++k) {
    result.push_back({std::sin(1.3 * k + 0.2), std::cos(2.1 * k), std::sin(0.7 * k - 1)});
  }
  for (auto& v : result) {
    const double norm = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (double& x : v) x /= norm;
  }
  return result;
}

TEST(Harmonics, AgreeWithTheGeneralFormula) {
  for (const auto& u : directions()) {
    double fast[(kLmax + 1) * (kLmax + 1)];
    math::harmonics_of_unit<kLmax>(u[0], u[1], u[2], fast);
    const std::vector<double> exact = math::dpa4_harmonics(kLmax, u);
    for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(fast[i], exact[i], kTolerance) << i;
  }
}

TEST(EdgeFrame, IsARotationThatBringsTheEdgeToZ) {
  for (const auto& u : directions()) {
    double e1[3], e2[3];
    math::edge_frame(u[0], u[1], u[2], e1, e2);
    const auto dot = [](const double* a, const double* b) {
      return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    };
    EXPECT_NEAR(dot(e1, e1), 1, kTolerance);
    EXPECT_NEAR(dot(e2, e2), 1, kTolerance);
    EXPECT_NEAR(dot(e1, e2), 0, kTolerance);
    EXPECT_NEAR(dot(e1, u.data()), 0, kTolerance);
    EXPECT_NEAR(dot(e2, u.data()), 0, kTolerance);
    // e1 x e2 = u
    EXPECT_NEAR(e1[1] * e2[2] - e1[2] * e2[1], u[0], kTolerance);
    EXPECT_NEAR(e1[2] * e2[0] - e1[0] * e2[2], u[1], kTolerance);
    EXPECT_NEAR(e1[0] * e2[1] - e1[1] * e2[0], u[2], kTolerance);
  }
}

TEST(WignerRows, AreRowsOfTheRotationMatrices) {
  for (const auto& u : directions()) {
    double e1[3], e2[3], rows[math::wigner_size(kLmax)];
    math::edge_frame(u[0], u[1], u[2], e1, e2);
    math::wigner_rows<kLmax>(u[0], u[1], u[2], rows);
    const math::Rotation rotation = {e1[0], e1[1], e1[2], e2[0], e2[1], e2[2], u[0], u[1], u[2]};
    const auto blocks = math::wigner_matrices(kLmax, rotation);
    for (int l = 1; l <= kLmax; ++l) {
      for (int row = 0; row < 3; ++row) {
        const int m = row == 0 ? 0 : row == 1 ? -1 : 1;
        for (int k = -l; k <= l; ++k) {
          EXPECT_NEAR(rows[math::wigner_index(l, row, k)],
                      blocks[l][static_cast<std::size_t>((l + m) * (2 * l + 1) + l + k)], 1e-12)
              << "l " << l << " m " << m << " k " << k;
        }
      }
    }
  }
}

/// The generators as dense matrices.
template <int kL>
std::array<std::vector<double>, 3> generators() {
  std::array<std::vector<double>, 3> result;
  for (auto& matrix : result) matrix.assign((2 * kL + 1) * (2 * kL + 1), 0.0);
  math::visit_generators<kL>([&](int axis, int row, int column, double value) {
    result[static_cast<std::size_t>(axis)]
          [static_cast<std::size_t>((kL + row) * (2 * kL + 1) + kL + column)] += value;
  });
  return result;
}

template <int kL>
void expect_generators_of_rotations() {
  const auto generator = generators<kL>();
  constexpr double kStep = 1e-4;
  for (int axis = 0; axis < 3; ++axis) {
    const auto rotated = [&](double angle) {
      const double c = std::cos(angle), s = std::sin(angle);
      const int i = (axis + 1) % 3, j = (axis + 2) % 3;
      math::Rotation r = {1, 0, 0, 0, 1, 0, 0, 0, 1};
      r[static_cast<std::size_t>(3 * i + i)] = r[static_cast<std::size_t>(3 * j + j)] = c;
      r[static_cast<std::size_t>(3 * i + j)] = -s;
      r[static_cast<std::size_t>(3 * j + i)] = s;
      return math::wigner_matrices(kL, r)[kL];
    };
    // Fourth-order difference: its error is about kStep^4 l^5 / 30.
    const auto a = rotated(kStep), b = rotated(-kStep), c = rotated(2 * kStep),
               d = rotated(-2 * kStep);
    for (std::size_t k = 0; k < a.size(); ++k) {
      const double slope = (8 * (a[k] - b[k]) - (c[k] - d[k])) / (12 * kStep);
      EXPECT_NEAR(generator[static_cast<std::size_t>(axis)][k], slope, 2e-10)
          << "l " << kL << " axis " << axis << " element " << k;
    }
  }
}

TEST(Generators, AreDerivativesOfTheRotationMatrices) {
  expect_generators_of_rotations<1>();
  expect_generators_of_rotations<2>();
  expect_generators_of_rotations<3>();
  expect_generators_of_rotations<4>();
  expect_generators_of_rotations<5>();
  expect_generators_of_rotations<6>();
}

TEST(Generators, AreAntisymmetricAndCommuteAsRotationsDo) {
  constexpr int kL = 6, kSize = 2 * kL + 1;
  const auto j = generators<kL>();
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> c(kSize * kSize, 0.0);
    for (int i = 0; i < kSize; ++i)
      for (int k = 0; k < kSize; ++k)
        for (int l = 0; l < kSize; ++l) c[i * kSize + l] += a[i * kSize + k] * b[k * kSize + l];
    return c;
  };
  for (int axis = 0; axis < 3; ++axis) {
    const auto xy = product(j[axis], j[(axis + 1) % 3]), yx = product(j[(axis + 1) % 3], j[axis]);
    for (int i = 0; i < kSize; ++i) {
      for (int k = 0; k < kSize; ++k) {
        EXPECT_EQ(j[axis][i * kSize + k], -j[axis][k * kSize + i]);
        EXPECT_NEAR(xy[i * kSize + k] - yx[i * kSize + k], j[(axis + 2) % 3][i * kSize + k],
                    kTolerance * 20);
      }
    }
  }
}

/// Moves the tip of a unit vector along `direction`; the harmonics' derivative is the torque form.
TEST(Torque, IsTheDerivativeOfTheHarmonics) {
  for (const auto& u : directions()) {
    for (int axis = 0; axis < 3; ++axis) {
      Dual v[3];
      for (int a = 0; a < 3; ++a) v[a] = Dual(u[a], a == axis ? 1.0 : 0.0);
      const Dual norm = sqrt_of(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
      Dual moved[(kLmax + 1) * (kLmax + 1)];
      math::harmonics_of_unit<kLmax>(v[0] / norm, v[1] / norm, v[2] / norm, moved);
      double harmonics[(kLmax + 1) * (kLmax + 1)];
      math::harmonics_of_unit<kLmax>(u[0], u[1], u[2], harmonics);
      // E = sum_lk w_lk Z_lk(u) has the torque t_a = -sum w . J_a Z and dE/du = u x t.
      double torque[3] = {0, 0, 0}, weight[2 * kLmax + 1], expected = 0;
      math::static_for<kLmax>([&](auto degree) {
        constexpr int l = decltype(degree)::value + 1;
        for (int k = 0; k <= 2 * l; ++k) {
          weight[k] = std::sin(0.3 * k + l);
          expected += weight[k] * moved[l * l + k].derivative;
        }
        math::add_torque<l>(weight, harmonics + l * l, torque);
      });
      for (double& t : torque) t = -t;
      const int i = (axis + 1) % 3, j = (axis + 2) % 3;
      EXPECT_NEAR(u[i] * torque[j] - u[j] * torque[i], expected, 1e-12);
    }
  }
}

TEST(RotateBackScale, RestoresTheNormOfDroppedOrders) {
  EXPECT_EQ(math::rotate_back_scale(0), 1);
  EXPECT_EQ(math::rotate_back_scale(1), 1);
  EXPECT_NEAR(math::rotate_back_scale(2), std::sqrt(5 / 3.0), 1e-15);
  EXPECT_NEAR(math::rotate_back_scale(6), std::sqrt(13 / 3.0), 1e-15);
}

}  // namespace
}  // namespace dpa4::testing
