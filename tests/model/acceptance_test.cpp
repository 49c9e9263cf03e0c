// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/acceptance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dpa4::model {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Acceptance, IsThatOfTheDesign) {
  const Acceptance f64 = acceptance(Precision::kFloat64);
  EXPECT_NEAR(f64.energy.allowed(-1000), 1e-7, 2e-12);
  EXPECT_NEAR(f64.element.allowed(0), 1e-9, 1e-20);
  EXPECT_NEAR(f64.element.allowed(-9), 1e-8, 1e-20);
  const Acceptance f32 = acceptance(Precision::kFloat32);
  EXPECT_NEAR(f32.energy.allowed(-1000), 0.1 + 1e-5, 1e-12);
  EXPECT_NEAR(f32.element.allowed(5), 5.1e-4, 1e-12);
}

TEST(Acceptance, ComparesElementByElement) {
  const Tolerance tolerance{1e-3, 0.1};
  // The largest error is at a large element, where it is allowed; the worst is at a small one.
  const Deviation deviation = compare({100, 0.0, 0.5}, {95, 0.004, 0.5}, tolerance);
  EXPECT_EQ(deviation.largest, 5);
  EXPECT_EQ(deviation.worst_index, 1u);
  EXPECT_NEAR(deviation.worst, 0.004 / (1e-3 + 4e-4), 1e-12);
  EXPECT_FALSE(deviation.accepted());
  EXPECT_TRUE(compare({100, 0.003}, {95, 0.0038}, tolerance).accepted());
}

TEST(Acceptance, NothingToCompareIsAccepted) {
  EXPECT_TRUE(compare({}, {}, {1e-9, 1e-9}).accepted());
}

TEST(Acceptance, NumbersThatAreNotFiniteFail) {
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    const Deviation deviation = compare({1, bad, 1}, {1, 1, 1}, {1e300, 1});
    EXPECT_FALSE(deviation.accepted()) << bad;
    EXPECT_EQ(deviation.worst_index, 1u);
    EXPECT_EQ(deviation.largest, kInfinity);
    EXPECT_FALSE(compare({bad}, {bad}, {1e-9, 1e-9}).accepted()) << "agreeing with a bad reference";
  }
}

}  // namespace
}  // namespace dpa4::model
