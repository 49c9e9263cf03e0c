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

struct SpherePoints {
  std::vector<std::array<double, 3>> points;
  std::vector<double> weights;
};

ProductGridSize product_size(int lmax, int mmax, S2Points kind) {
  int n_azimuth = 2 * mmax + 4;
  int n_polar = 3 * lmax + 2;
  n_polar += n_polar % 2;
  if (kind == S2Points::kProductSquare) n_azimuth = n_polar = std::max(n_azimuth, n_polar);
  return {n_azimuth, n_polar};
}

/// Azimuths times polar midpoints around the second axis, with the Driscoll-Healy polar weights.
SpherePoints product_points(ProductGridSize size) {
  const int half = size.n_polar / 2;
  SpherePoints grid;
  for (int b = 0; b < size.n_polar; ++b) {
    const double beta = (b + 0.5) / size.n_polar * pi;
    double series = 0;
    for (int k = 0; k < half; ++k) {
      series += std::sin((2 * b + 1) * (2 * k + 1) * pi / (4.0 * half)) / (2 * k + 1);
    }
    const double polar_weight = (1.0 / half) * std::sin(pi * (2 * b + 1) / (4.0 * half)) * series;
    for (int a = 0; a < size.n_azimuth; ++a) {
      const double alpha = 2 * pi * a / size.n_azimuth;
      grid.points.push_back(
          {std::sin(beta) * std::sin(alpha), std::cos(beta), std::sin(beta) * std::cos(alpha)});
      grid.weights.push_back(polar_weight / size.n_azimuth);
    }
  }
  return grid;
}

SpherePoints sphere_points(int lmax, int mmax, S2Points kind) {
  if (kind != S2Points::kLebedev) return product_points(product_size(lmax, mmax, kind));
  LebedevRule rule = lebedev_rule(3 * lmax);
  return {std::move(rule.points), std::move(rule.weights)};
}

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
GridMatrices empty_s2_grid(int n_points, std::size_t n_rows) {
  GridMatrices grid;
  grid.n_points = n_points;
  grid.n_rows = static_cast<int>(n_rows);
  grid.to.resize(static_cast<std::size_t>(n_points) * n_rows);
  grid.from.resize(grid.to.size());
  return grid;
}

GridMatrices float32_product_grid(int lmax, int mmax, RowLayout layout, S2Points points) {
  const ProductGridSize size = product_size(lmax, mmax, points);
  const ProductGridMatrices product = product_grid_float32(lmax, mmax, size);
  const std::vector<int> rows = packed_rows(lmax, mmax, layout);
  const auto n_points = static_cast<std::size_t>(size.n_azimuth * size.n_polar);
  const auto n_packed = static_cast<std::size_t>((lmax + 1) * (lmax + 1));
  GridMatrices grid = empty_s2_grid(static_cast<int>(n_points), rows.size());
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

GridMatrices s2_grid(int lmax, int mmax, RowLayout layout, S2Points points,
                     ProductArithmetic arithmetic) {
  if (points != S2Points::kLebedev && arithmetic == ProductArithmetic::kFloat32) {
    return float32_product_grid(lmax, mmax, layout, points);
  }
  const SpherePoints sphere = sphere_points(lmax, mmax, points);
  const std::vector<int> rows = packed_rows(lmax, mmax, layout);
  const std::vector<int> degrees = packed_degrees(lmax);
  const double scale = std::sqrt(lmax + 1.0);
  GridMatrices grid = empty_s2_grid(static_cast<int>(sphere.points.size()), rows.size());
  for (std::size_t g = 0; g < sphere.points.size(); ++g) {
    const auto& p = sphere.points[g];
    // These harmonics have their polar axis along the second component.
    const std::vector<double> harmonics = real_harmonics(lmax, p[2], p[0], p[1]);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const int l = degrees[static_cast<std::size_t>(rows[r])];
      const double rescale = l > mmax ? std::sqrt((2 * l + 1) / (2.0 * mmax + 1)) : 1.0;
      const double value = rescale * harmonics[static_cast<std::size_t>(rows[r])];
      grid.to[g * rows.size() + r] = value / scale;
      grid.from[r * sphere.points.size() + g] = value * sphere.weights[g] * scale * (2 * l + 1);
    }
  }
  return grid;
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
