// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/math/grid.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/math/harmonics.h"
#include "src/math/lebedev.h"

namespace dpa4::testing {
namespace {

/// from * to, element (i, j).
double round_trip(const math::GridMatrices& grid, int i, int j) {
  const int size = grid.n_rows * grid.n_frames;
  double sum = 0;
  for (int g = 0; g < grid.n_points; ++g) {
    sum += grid.from[static_cast<std::size_t>(i * grid.n_points + g)] *
           grid.to[static_cast<std::size_t>(g * size + j)];
  }
  return sum;
}

TEST(Lebedev, IntegratesHarmonicsExactly) {
  for (int precision : {3, 7, 9, 13, 15, 19}) {
    const math::LebedevRule rule = math::lebedev_rule(precision);
    std::vector<double> mean;
    for (std::size_t p = 0; p < rule.points.size(); ++p) {
      const auto z = math::dpa4_harmonics(precision, rule.points[p]);
      mean.resize(z.size());
      for (std::size_t i = 0; i < z.size(); ++i) mean[i] += rule.weights[p] * z[i];
    }
    EXPECT_NEAR(mean[0], 1, 1e-12);
    for (std::size_t i = 1; i < mean.size(); ++i) EXPECT_NEAR(mean[i], 0, 1e-12) << i;
  }
}

TEST(S2Grid, RoundTripIsTheIdentity) {
  for (int lmax = 1; lmax <= 6; ++lmax) {
    for (auto points : {math::S2Points::kLebedev, math::S2Points::kProductSquare}) {
      const auto grid = math::s2_grid(lmax, lmax, math::RowLayout::kPacked, points);
      ASSERT_EQ(grid.n_rows, (lmax + 1) * (lmax + 1));
      for (int i = 0; i < grid.n_rows; ++i) {
        for (int j = 0; j < grid.n_rows; ++j) {
          EXPECT_NEAR(round_trip(grid, i, j), i == j ? 1 : 0, 1e-10)
              << lmax << " " << i << " " << j;
        }
      }
    }
  }
}

TEST(So3Grid, RoundTripIsTheIdentityOnTheFramesADegreeHas) {
  for (int lmax = 1; lmax <= 4; ++lmax) {
    for (int kmax = 0; kmax <= std::min(lmax, 2); ++kmax) {
      const auto grid = math::so3_grid(lmax, lmax, kmax, math::RowLayout::kPacked);
      ASSERT_EQ(grid.n_frames, 2 * kmax + 1);
      const auto degree = math::packed_degrees(lmax);
      const auto live = [&](int i) {
        const int frame = i % grid.n_frames;
        return (frame + 1) / 2 <= degree[static_cast<std::size_t>(i / grid.n_frames)];
      };
      for (int i = 0; i < grid.n_rows * grid.n_frames; ++i) {
        for (int j = 0; j < grid.n_rows * grid.n_frames; ++j) {
          EXPECT_NEAR(round_trip(grid, i, j), i == j && live(i) ? 1 : 0, 1e-10);
        }
      }
    }
  }
}

TEST(MMajorIndex, ListsTheOrdersOneByOne) {
  const auto index = math::m_major_index(2, 1);
  EXPECT_EQ(index.packed, (std::vector<int>{0, 2, 6, 1, 5, 3, 7}));
  EXPECT_EQ(index.degree, (std::vector<int>{0, 1, 2, 1, 2, 1, 2}));
}

}  // namespace
}  // namespace dpa4::testing
