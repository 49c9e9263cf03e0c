// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/math/harmonics.h"

#include <cmath>

#include "src/base/error.h"
#include "src/math/lebedev.h"

namespace dpa4::math {

std::vector<double> real_harmonics(int lmax, double x, double y, double z) {
  DPA4_EXPECTS(lmax >= 0);
  const double r2 = x * x + y * y + z * z;
  std::vector<double> out(static_cast<std::size_t>((lmax + 1) * (lmax + 1)));
  double cosine = 1, sine = 0;  // Re and Im of (x + i y)^m
  double diagonal = 1;          // (2m - 1)!!
  for (int m = 0; m <= lmax; ++m) {
    // pi_l = (d/dz)^m P_l(z), homogenized with r^2; sqrt(2 (l-m)!/(l+m)!) makes it Schmidt
    // normalized.
    double previous = 0, current = diagonal;
    double factor = m == 0 ? 1.0 : 2.0;
    for (int k = 1; k <= 2 * m; ++k) factor /= k;  // 2 * 0! / (2m)!
    for (int l = m; l <= lmax; ++l) {
      if (l > m) {
        const double next =
            ((2 * l - 1) * z * current - (l + m - 1) * r2 * previous) / static_cast<double>(l - m);
        previous = current;
        current = next;
        factor *= static_cast<double>(l - m) / (l + m);
      }
      const double value = std::sqrt(factor) * current;
      out[static_cast<std::size_t>(l * l + l + m)] = value * cosine;
      if (m > 0) out[static_cast<std::size_t>(l * l + l - m)] = value * sine;
    }
    const double next_cosine = x * cosine - y * sine;
    sine = x * sine + y * cosine;
    cosine = next_cosine;
    diagonal *= 2 * m + 1;
  }
  return out;
}

std::vector<double> dpa4_harmonics(int lmax, const std::array<double, 3>& v) {
  return real_harmonics(lmax, -v[0], v[1], v[2]);
}

std::vector<double> raising_coupling(int l) {
  DPA4_EXPECTS(l >= 1);
  const int rows = 2 * l + 1, inner = 2 * l - 1;
  std::vector<double> coupling(static_cast<std::size_t>(rows * inner * 3), 0.0);
  const LebedevRule rule = lebedev_rule(2 * l);
  for (std::size_t p = 0; p < rule.points.size(); ++p) {
    const std::vector<double> harmonics = dpa4_harmonics(l, rule.points[p]);
    const double* low = harmonics.data() + (l - 1) * (l - 1);
    const double* one = harmonics.data() + 1;
    const double* high = harmonics.data() + l * l;
    // l = 1 couples degree 0 (low[0]) with degree 1.
    for (int a = 0; a < rows; ++a)
      for (int i = 0; i < inner; ++i)
        for (int j = 0; j < 3; ++j)
          coupling[static_cast<std::size_t>((a * inner + i) * 3 + j)] +=
              rule.weights[p] * high[a] * low[i] * one[j];
  }
  double norm2 = 0;
  for (int k = 0; k < inner * 3; ++k) norm2 += coupling[k] * coupling[k];
  const double scale = 1.0 / std::sqrt(norm2);
  for (double& value : coupling) {
    value *= scale;
    if (std::abs(value) < 1e-14) value = 0.0;
  }
  return coupling;
}

double raising_norm(int l) {
  // Evaluated at u = z, where Z_l = (0, .., 1, .., 0): only the element (m = 0; 0, 0) contributes.
  const std::vector<double> coupling = raising_coupling(l);
  const int inner = 2 * l - 1;
  return 1.0 / coupling[static_cast<std::size_t>((l * inner + (l - 1)) * 3 + 1)];
}

std::vector<std::vector<double>> wigner_matrices(int lmax, const Rotation& rotation) {
  // D^1 = P R P^T with rows (y, z, -x).
  constexpr int kAxis[3] = {1, 2, 0};
  constexpr double kSign[3] = {1, 1, -1};
  std::vector<std::vector<double>> blocks(1, {1.0});
  if (lmax == 0) return blocks;
  std::vector<double> first(9);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      first[static_cast<std::size_t>(i * 3 + j)] =
          kSign[i] * kSign[j] * rotation[static_cast<std::size_t>(kAxis[i] * 3 + kAxis[j])];
  blocks.push_back(first);
  for (int l = 2; l <= lmax; ++l) {
    const std::vector<double> coupling = raising_coupling(l);
    const std::vector<double>& low = blocks.back();
    const int rows = 2 * l + 1, inner = 2 * l - 1, columns = inner * 3;
    std::vector<double> half(static_cast<std::size_t>(rows * columns), 0.0);  // C (D^(l-1) (x) D^1)
    for (int a = 0; a < rows; ++a)
      for (int i = 0; i < inner; ++i)
        for (int j = 0; j < 3; ++j) {
          const double c = coupling[static_cast<std::size_t>(a * columns + i * 3 + j)];
          if (c == 0.0) continue;
          for (int k = 0; k < inner; ++k)
            for (int m = 0; m < 3; ++m)
              half[static_cast<std::size_t>(a * columns + k * 3 + m)] +=
                  c * low[static_cast<std::size_t>(i * inner + k)] *
                  first[static_cast<std::size_t>(j * 3 + m)];
        }
    std::vector<double> block(static_cast<std::size_t>(rows * rows), 0.0);
    for (int a = 0; a < rows; ++a)
      for (int b = 0; b < rows; ++b)
        for (int k = 0; k < columns; ++k)
          block[static_cast<std::size_t>(a * rows + b)] +=
              half[static_cast<std::size_t>(a * columns + k)] *
              coupling[static_cast<std::size_t>(b * columns + k)];
    blocks.push_back(block);
  }
  return blocks;
}

MMajorIndex m_major_index(int lmax, int mmax) {
  MMajorIndex index;
  const auto append = [&index](int l, int m) {
    index.packed.push_back(l * l + l + m);
    index.degree.push_back(l);
  };
  for (int l = 0; l <= lmax; ++l) append(l, 0);
  for (int m = 1; m <= mmax; ++m) {
    for (int l = m; l <= lmax; ++l) append(l, -m);
    for (int l = m; l <= lmax; ++l) append(l, m);
  }
  return index;
}

std::vector<int> packed_degrees(int lmax) {
  std::vector<int> degrees;
  for (int l = 0; l <= lmax; ++l)
    degrees.insert(degrees.end(), static_cast<std::size_t>(2 * l + 1), l);
  return degrees;
}

}  // namespace dpa4::math
