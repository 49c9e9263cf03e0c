// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "src/math/activation.h"
#include "src/math/radial.h"
#include "src/math/zbl.h"
#include "tests/math/dual.h"

namespace dpa4::testing {
namespace {

// Derivatives are exact up to the rounding of a few operations.
constexpr double kTolerance = 1e-13;

void expect_close(double value, double expected) {
  EXPECT_NEAR(value, expected, kTolerance * (1 + std::abs(expected)));
}

TEST(Activation, DerivativesFollowFromTheValues) {
  for (double x : {-30.0, -3.0, -0.1, 0.0, 0.7, 5.0, 40.0}) {
    const double s = math::sigmoid(x);
    expect_close(math::sigmoid_derivative(s), math::sigmoid(variable(x)).derivative);
    expect_close(math::silu_derivative(x, s), math::silu(variable(x)).derivative);
  }
}

TEST(Activation, GateGradientIsThatOfTheGatedSum) {
  const double z[3] = {0.3, -1.2, 2.5}, grad[3] = {0.7, 0.4, -0.9};
  const double logit = 0.8;
  Dual energy;
  for (int r = 0; r < 3; ++r) {
    energy = energy + Dual(grad[r] * z[r]) * math::sigmoid(variable(logit));
  }
  double along = 0;
  for (int r = 0; r < 3; ++r) along += grad[r] * z[r];
  expect_close(math::gate_logit_gradient(along, math::sigmoid(logit)), energy.derivative);
}

TEST(Activation, ExtremeArgumentsStayFinite) {
  EXPECT_EQ(math::sigmoid(-800.0), 0.0);
  EXPECT_EQ(math::sigmoid(800.0), 1.0);
  EXPECT_EQ(math::silu(-800.0), 0.0);
}

TEST(Envelope, StartsAtOneAndVanishesSmoothlyAtTheCutoff) {
  for (int p : {1, 3, 5, 7}) {
    EXPECT_DOUBLE_EQ(math::envelope(0.0, 6.0, p), 1.0);
    EXPECT_EQ(math::envelope(6.0, 6.0, p), 0.0);
    EXPECT_EQ(math::envelope(6.5, 6.0, p), 0.0);
    EXPECT_EQ(math::envelope_dr(6.0, 6.0, p), 0.0);
    // u^4 times a polynomial: at u = 1e-3 the value is near u^4 * binomial(p + 3, 4).
    const double binomial = (p + 3) * (p + 2) * (p + 1) * p / 24.0;
    EXPECT_NEAR(math::envelope(6.0 * (1 - 1e-3), 6.0, p) / (1e-12 * binomial), 1.0, 2e-2);
  }
}

TEST(Envelope, OfOrderFiveIsTheKnownPolynomial) {
  const double r = 2.3, rcut = 6.0, x = r / rcut, u = 1 - x;
  expect_close(math::envelope(r, rcut, 5),
               u * u * u * u * (1 + x * (4 + x * (10 + x * (20 + x * 35)))));
}

TEST(Envelope, DerivativeFollowsFromTheValue) {
  for (int p : {1, 2, 5, 7, 9}) {
    for (double r : {0.05, 1.0, 3.7, 5.9}) {
      expect_close(math::envelope_dr(r, 6.0, p), math::envelope(variable(r), 6.0, p).derivative);
    }
  }
}

TEST(Basis, DerivativesFollowFromTheValues) {
  for (double r : {0.4, 1.1, 5.0}) {
    for (double f : {0.43, 2.1, 8.3}) {
      const double bessel = math::bessel_basis(r, f);
      expect_close(math::bessel_basis_dr(r, f, bessel),
                   math::bessel_basis(variable(r), Dual(f)).derivative);
      const double gauss = math::gaussian_basis(r, f, -0.8);
      expect_close(math::gaussian_basis_dr(r, f, -0.8, gauss),
                   math::gaussian_basis(variable(r), Dual(f), Dual(-0.8)).derivative);
    }
  }
}

TEST(Bridging, ClampIsContinuousAndFrozenInside) {
  EXPECT_DOUBLE_EQ(math::clamped_length(0.3, 0.9, 1.6), 0.9);
  EXPECT_DOUBLE_EQ(math::clamped_length(0.9, 0.9, 1.6), 0.9);
  EXPECT_NEAR(math::clamped_length(1.6 - 1e-12, 0.9, 1.6), 1.6, 1e-11);
  EXPECT_DOUBLE_EQ(math::clamped_length(2.0, 0.9, 1.6), 2.0);
  EXPECT_EQ(math::clamped_length_dr(0.5, 0.9, 1.6), 0.0);
  EXPECT_EQ(math::clamped_length_dr(1.7, 0.9, 1.6), 1.0);
}

TEST(Bridging, DerivativesFollowFromTheValues) {
  for (double r : {0.95, 1.2, 1.55, 1.8}) {
    expect_close(math::clamped_length_dr(r, 0.9, 1.6),
                 math::clamped_length(variable(r), 0.9, 1.6).derivative);
    expect_close(math::bridging_switch_dr(r, 0.9, 1.6),
                 math::bridging_switch(variable(r), 0.9, 1.6).derivative);
  }
  EXPECT_EQ(math::bridging_switch(0.9, 0.9, 1.6), 0.0);
  EXPECT_DOUBLE_EQ(math::bridging_switch(1.6, 0.9, 1.6), 1.0);
}

TEST(Zbl, IsTheBareRepulsionAtShortDistance) {
  const double power = std::pow(6.0, 0.23);
  const double r = 1e-6;
  const auto pair = math::zbl_pair_energy(r, 6.0, 6.0, power, power);
  // The weights of the screening function sum to 1.000001.
  EXPECT_NEAR(pair.energy * r / (14.3996 * 36.0), 1.0, 2e-5);
}

TEST(Zbl, DerivativeFollowsFromTheEnergy) {
  const double a = std::pow(8.0, 0.23), b = std::pow(14.0, 0.23);
  for (double r : {0.1, 0.8, 2.5, 6.0}) {
    const auto pair = math::zbl_pair_energy(r, 8.0, 14.0, a, b);
    expect_close(pair.derivative,
                 math::zbl_pair_energy(variable(r), 8.0, 14.0, a, b).energy.derivative);
    expect_close(pair.energy, math::zbl_pair_energy(r, 14.0, 8.0, b, a).energy);
  }
}

}  // namespace
}  // namespace dpa4::testing
