// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/math/grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "src/base/error.h"
#include "src/math/harmonics.h"
#include "src/math/lebedev.h"
#include "src/math/product_grid.h"

namespace dpa4::math {
namespace {

using std::numbers::pi;

/// A rotation that takes the unit vector u to +z.
Rotation rotation_to_z(const std::array<double, 3>& u) {
  const auto [x, y, z] = u;
  if (z < -0.5) {
    // Near -z: first turn by pi about x, which takes (x, y, z) to (x, -y, -z).
    const Rotation rest = rotation_to_z({x, -y, -z});
    Rotation turned;
    for (int i = 0; i < 3; ++i) {
      turned[static_cast<std::size_t>(3 * i)] = rest[static_cast<std::size_t>(3 * i)];
      turned[static_cast<std::size_t>(3 * i + 1)] = -rest[static_cast<std::size_t>(3 * i + 1)];
      turned[static_cast<std::size_t>(3 * i + 2)] = -rest[static_cast<std::size_t>(3 * i + 2)];
    }
    return turned;
  }
  const double f = 1.0 / (1.0 + z);
  return {1 - x * x * f, -x * y * f, -x, -x * y * f, 1 - y * y * f, -y, x, y, z};
}

Rotation rotate_about_z(double angle, const Rotation& first) {
  const double c = std::cos(angle), s = std::sin(angle);
  Rotation out = first;
  for (std::size_t j = 0; j < 3; ++j) {
    out[j] = c * first[j] - s * first[3 + j];
    out[3 + j] = s * first[j] + c * first[3 + j];
  }
  return out;
}

std::vector<int> packed_rows(int lmax, int mmax, RowLayout layout) {
  if (layout == RowLayout::kMMajor) return m_major_index(lmax, mmax).packed;
  DPA4_EXPECTS(mmax == lmax);
  std::vector<int> rows(static_cast<std::size_t>((lmax + 1) * (lmax + 1)));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
  return rows;
}

/// Both matrices sized and zero, one frame.
GridMatrices empty_s2_grid(std::size_t n_points, std::size_t n_rows) {
  GridMatrices grid;
  grid.n_points = static_cast<int>(n_points);
  grid.n_rows = static_cast<int>(n_rows);
  grid.to.resize(n_points * n_rows);
  grid.from.resize(n_points * n_rows);
  return grid;
}

GridMatrices lebedev_grid(int lmax, int mmax, const std::vector<int>& rows) {
  const LebedevRule rule = lebedev_rule(3 * lmax);
  const std::vector<int> degrees = packed_degrees(lmax);
  const double scale = std::sqrt(lmax + 1.0);
  const std::size_t n_points = rule.points.size();
  GridMatrices grid = empty_s2_grid(n_points, rows.size());
  for (std::size_t g = 0; g < n_points; ++g) {
    const auto& p = rule.points[g];
    // These harmonics have their polar axis along the second component.
    const std::vector<double> harmonics = real_harmonics(lmax, p[2], p[0], p[1]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const int l = degrees[static_cast<std::size_t>(rows[r])];
      const double rescale = l > mmax ? std::sqrt((2 * l + 1) / (2.0 * mmax + 1)) : 1.0;
      const double value = rescale * harmonics[static_cast<std::size_t>(rows[r])];
      grid.to[g * rows.size() + r] = value / scale;
      grid.from[r * n_points + g] = value * rule.weights[g] * scale * (2 * l + 1);
    }
  }
  return grid;
}

GridMatrices product_grid(int lmax, int mmax, const std::vector<int>& rows, ProductGridSize size) {
  const ProductGridMatrices product = product_grid_float32(lmax, mmax, size);
  const auto n_points = static_cast<std::size_t>(size.n_azimuth * size.n_polar);
  const auto n_packed = static_cast<std::size_t>((lmax + 1) * (lmax + 1));
  GridMatrices grid = empty_s2_grid(n_points, rows.size());
  for (std::size_t g = 0; g < n_points; ++g) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::size_t element = g * n_packed + static_cast<std::size_t>(rows[r]);
      grid.to[g * rows.size() + r] = product.to[element];
      grid.from[r * n_points + g] = product.from[element];
    }
  }
  return grid;
}

}  // namespace

GridMatrices s2_grid(int lmax, int mmax, RowLayout layout, S2Points points) {
  const std::vector<int> rows = packed_rows(lmax, mmax, layout);
  if (points == S2Points::kLebedev) return lebedev_grid(lmax, mmax, rows);
  const int n_azimuth = 2 * mmax + 4;
  const int n_polar = 3 * lmax + 2 + lmax % 2;  // even
  if (points == S2Points::kProduct) return product_grid(lmax, mmax, rows, {n_azimuth, n_polar});
  const int square = std::max(n_azimuth, n_polar);
  return product_grid(lmax, mmax, rows, {square, square});
}

GridMatrices so3_grid(int lmax, int mmax, int kmax, RowLayout layout) {
  const LebedevRule sphere = lebedev_rule(3 * lmax);
  const std::vector<int> rows = packed_rows(lmax, mmax, layout);
  const std::vector<int> degrees = packed_degrees(lmax);
  const int n_gamma = kmax == 0 ? 1 : 3 * kmax + 1;
  std::vector<int> frames{0};
  for (int k = 1; k <= kmax; ++k) {
    frames.push_back(-k);
    frames.push_back(k);
  }
  GridMatrices grid;
  grid.n_points = static_cast<int>(sphere.points.size()) * n_gamma;
  grid.n_rows = static_cast<int>(rows.size());
  grid.n_frames = static_cast<int>(frames.size());
  const std::size_t columns = rows.size() * frames.size();
  grid.to.assign(static_cast<std::size_t>(grid.n_points) * columns, 0.0);
  grid.from.assign(grid.to.size(), 0.0);
  for (std::size_t p = 0; p < sphere.points.size(); ++p) {
    const Rotation frame = rotation_to_z(sphere.points[p]);
    for (int j = 0; j < n_gamma; ++j) {
      const auto wigner = wigner_matrices(lmax, rotate_about_z(2 * pi * j / n_gamma, frame));
      const std::size_t g = p * static_cast<std::size_t>(n_gamma) + static_cast<std::size_t>(j);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const int l = degrees[static_cast<std::size_t>(rows[r])];
        const int m = rows[r] - l * l - l;
        for (std::size_t f = 0; f < frames.size(); ++f) {
          if (std::abs(frames[f]) > l) continue;
          // Transposed: local order k is the row of D, global order m its column.
          const double value =
              wigner[static_cast<std::size_t>(l)]
                    [static_cast<std::size_t>((l + frames[f]) * (2 * l + 1) + l + m)];
          const std::size_t column = r * frames.size() + f;
          grid.to[g * columns + column] = value;
          grid.from[column * static_cast<std::size_t>(grid.n_points) + g] =
              (2 * l + 1) * sphere.weights[p] / n_gamma * value;
        }
      }
    }
  }
  return grid;
}

}  // namespace dpa4::math
