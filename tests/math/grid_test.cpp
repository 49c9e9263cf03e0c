// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/math/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "src/math/float_trig.h"
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

/// The product matrices hold float32 values, to 1e-5 where the polynomials cancel.
double round_trip_error(math::S2Points points) {
  return points == math::S2Points::kLebedev ? 1e-13 : 1e-5;
}

TEST(S2Grid, RoundTripIsTheIdentity) {
  for (int lmax = 1; lmax <= 6; ++lmax) {
    for (auto points :
         {math::S2Points::kLebedev, math::S2Points::kProduct, math::S2Points::kProductSquare}) {
      const auto grid = math::s2_grid(lmax, lmax, math::RowLayout::kPacked, points);
      ASSERT_EQ(grid.n_rows, (lmax + 1) * (lmax + 1));
      for (int i = 0; i < grid.n_rows; ++i) {
        for (int j = 0; j < grid.n_rows; ++j) {
          EXPECT_NEAR(round_trip(grid, i, j), i == j ? 1 : 0, round_trip_error(points))
              << lmax << " " << i << " " << j;
        }
      }
    }
  }
}

TEST(S2Grid, RoundTripOfATruncatedGridScalesTheDegreesAboveMmax) {
  for (const auto& [lmax, mmax] : {std::pair{2, 1}, {3, 2}, {5, 1}, {6, 3}}) {
    const auto index = math::m_major_index(lmax, mmax);
    for (auto points : {math::S2Points::kLebedev, math::S2Points::kProduct}) {
      const auto grid = math::s2_grid(lmax, mmax, math::RowLayout::kMMajor, points);
      ASSERT_EQ(grid.n_rows, static_cast<int>(index.packed.size()));
      for (int i = 0; i < grid.n_rows; ++i) {
        const int l = index.degree[static_cast<std::size_t>(i)];
        const double gain = l > mmax ? (2 * l + 1) / (2.0 * mmax + 1) : 1;
        for (int j = 0; j < grid.n_rows; ++j) {
          EXPECT_NEAR(round_trip(grid, i, j), i == j ? gain : 0, gain * round_trip_error(points))
              << lmax << " " << mmax << " " << i << " " << j;
        }
      }
    }
  }
}

TEST(ProductGrid, HasAsManyPointsAsTheReference) {
  const auto points = [](int lmax, int mmax, math::S2Points kind) {
    return math::s2_grid(lmax, mmax, math::RowLayout::kMMajor, kind).n_points;
  };
  EXPECT_EQ(points(2, 1, math::S2Points::kProduct), 6 * 8);
  EXPECT_EQ(points(3, 1, math::S2Points::kProduct), 6 * 12);
  EXPECT_EQ(points(3, 1, math::S2Points::kProductSquare), 12 * 12);
  EXPECT_EQ(points(0, 0, math::S2Points::kProductSquare), 4 * 4);
}

TEST(ProductGrid, HasTheReferencesElements) {
  // From DeePMD-kit 3.2.0; the first of each degree is where float32 arithmetic is farthest from
  // the exact value, up to 9e-6 relative.
  struct Element {
    int lmax, point, row;
    float to, from;
  };
  for (const Element& e : {Element{1, 34, 3, -0x1.76cf4ep-4f, -0x1.63cd5ap-8f},
                           Element{1, 22, 0, 0x1.6a09e8p-1f, 0x1.e62806p-5f},
                           Element{3, 83, 14, -0x1.fcd70ap-5f, -0x1.34593ap-6f},
                           Element{3, 80, 14, 0x1.fcd6f8p-5f, 0x1.34592ep-6f},
                           Element{3, 115, 5, 0x1.ac4bdap-3f, 0x1.c31ca0p-6f},
                           Element{6, 359, 30, -0x1.9b4260p-5f, -0x1.7930bep-8f},
                           Element{6, 250, 6, -0x1.b1fda6p-4f, -0x1.b92ef4p-7f}}) {
    const auto grid =
        math::s2_grid(e.lmax, e.lmax, math::RowLayout::kPacked, math::S2Points::kProductSquare);
    EXPECT_EQ(grid.to[static_cast<std::size_t>(e.point * grid.n_rows + e.row)], e.to)
        << e.lmax << " " << e.point << " " << e.row;
    EXPECT_EQ(grid.from[static_cast<std::size_t>(e.row * grid.n_points + e.point)], e.from)
        << e.lmax << " " << e.point << " " << e.row;
  }
}

/// FNV-1a over the bytes of the values as little-endian float32; -0 counts as 0.
std::uint64_t float32_digest(const std::vector<double>& values) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const double value : values) {
    const auto rounded = static_cast<float>(value);
    EXPECT_EQ(rounded, value) << "not a float32 value";
    const auto bits = std::bit_cast<std::uint32_t>(rounded + 0.0f);
    for (int shift = 0; shift < 32; shift += 8) {
      digest = (digest ^ ((bits >> shift) & 0xff)) * 0x100000001b3;
    }
  }
  return digest;
}

TEST(ProductGrid, HasTheReferencesBits) {
  // Digests of the matrices of DeePMD-kit 3.2.0 with torch 2.11 on x86-64.
  struct Digest {
    int lmax, mmax;  // equal: the square grid, packed rows; else m-major rows
    std::uint64_t to, from;
  };
  for (const Digest& d : {
           Digest{0, 0, 0x8714c4aacbb9d125, 0xf6310271c8903e4d},
           Digest{1, 1, 0x2e03d96effc9e7b4, 0xbb6adb2a154ed52f},
           Digest{2, 2, 0x7365af1639fbd0b8, 0xd2d6ad825b470282},
           Digest{3, 3, 0x2e425bac72606152, 0xe92376131f6a932a},
           Digest{4, 4, 0x6fc7cac297a9c763, 0x583477015986476a},
           Digest{5, 5, 0xfae228b1e6842099, 0x4ae317167489a147},
           Digest{6, 6, 0x7b44fd19fe0230bc, 0xc3eb34323a090e3f},
           Digest{7, 7, 0x3a1d7d5bec4bd035, 0x33e372aa694aa013},
           Digest{8, 8, 0x9d52e74bc05168bc, 0x729fb5625b1e30f1},
           Digest{2, 1, 0xf8ceeeaf36fcbd5a, 0xb3b2fbf98915c28b},
           Digest{3, 1, 0xad388bab743e1959, 0x3685bd350f24ea18},
           Digest{3, 2, 0x8b3d5b7e3100f4fe, 0x4dffe62fe7c34905},
           Digest{4, 2, 0x3d7d4c7fd157078e, 0xe03c5dbda5a4c245},
           Digest{5, 1, 0xb4ae423fd038fa9b, 0x6f2a9cbba075eff9},
           Digest{6, 1, 0x02cef2ee4b5367d2, 0xe6f420e5fb7c4da2},
           Digest{6, 3, 0x3711c7c60dbec92d, 0x9e3dd81233c7232e},
           Digest{8, 2, 0x9274f268a922279d, 0xf1ebc34cd2975192},
       }) {
    const bool square = d.lmax == d.mmax;
    const auto grid =
        math::s2_grid(d.lmax, d.mmax, square ? math::RowLayout::kPacked : math::RowLayout::kMMajor,
                      square ? math::S2Points::kProductSquare : math::S2Points::kProduct);
    EXPECT_EQ(float32_digest(grid.to), d.to) << d.lmax << " " << d.mmax;
    EXPECT_EQ(float32_digest(grid.from), d.from) << d.lmax << " " << d.mmax;
  }
}

TEST(ReferenceTrig, RoundsLikeTheReferenceAndElsewhereToNearest) {
  const auto pi = std::numbers::pi_v<float>;
  EXPECT_EQ(math::reference_sin(pi / 3), 0x1.bb67aep-1f);
  EXPECT_EQ(math::reference_cos(pi / 16), 0x1.f6297ep-1f);
  EXPECT_NE(math::reference_sin(pi / 3), static_cast<float>(std::sin(double{pi / 3})));
  EXPECT_NE(math::reference_cos(pi / 16), static_cast<float>(std::cos(double{pi / 16})));
  // Every multiple of pi / 624 up to 20 pi: arguments of grids are among them.
  for (int i = 0; i < 12480; ++i) {
    const float x = static_cast<float>(i) * pi / 624;
    for (const auto& [value, exact] : {std::pair{math::reference_sin(x), std::sin(double{x})},
                                       std::pair{math::reference_cos(x), std::cos(double{x})}}) {
      const double unit = std::ldexp(1.0, std::ilogb(value) - 23);
      EXPECT_LE(std::abs(value - exact), 0.61 * unit) << x;
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
          EXPECT_NEAR(round_trip(grid, i, j), i == j && live(i) ? 1 : 0, 1e-13);
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
