// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/math/product_grid.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <numbers>

#include "src/base/error.h"
#include "src/math/float_trig.h"
#include "src/math/harmonics.h"

// Every `float` expression below rounds once per operation, in the order in which the reference
// executes it: reordering terms, or fusing a multiplication and an addition (this file is compiled
// without contraction), changes last bits. Constants are evaluated in double and then rounded.

namespace dpa4::math {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;

/// Four partial sums of every fourth element, the tail to the first, then left to right: the
/// reference's unrolled loop.
float interleaved_sum(const float* values, int n, int stride) {
  std::array<float, 4> partial{};
  const int n_full = n - n % 4;
  for (int i = 0; i < n; ++i) {
    partial[i < n_full ? static_cast<std::size_t>(i % 4) : 0] += values[i * stride];
  }
  return ((partial[0] + partial[1]) + partial[2]) + partial[3];
}

/// The reference's sum over a vector of 8 lanes: the elements past the last full vector first, then
/// the lanes from left to right.
float vectorized_sum(const std::vector<float>& values) {
  constexpr int kLanes = 8;
  const int n = static_cast<int>(values.size());
  if (n < kLanes) return interleaved_sum(values.data(), n, 1);
  const int n_vectors = n / kLanes;
  float sum = 0;
  for (int i = n_vectors * kLanes; i < n; ++i) sum += values[static_cast<std::size_t>(i)];
  for (int lane = 0; lane < kLanes; ++lane) {
    sum += interleaved_sum(values.data() + lane, n_vectors, kLanes);
  }
  return sum;
}

/// Driscoll-Healy weight of polar midpoint j of 2b, shared out to the azimuths:
///
///   w_j = (2/b) sin(pi (2j+1) / 4b) sum_k sin(pi (2j+1)(2k+1) / 4b) / (2k+1),   k = 0..b-1,
///
/// divided by twice the number of azimuths.
float point_weight(int j, ProductGridSize size) {
  const int b = size.n_polar / 2;
  const auto odd = [](int i) { return 2 * i + 1; };
  const auto quarter_turns = static_cast<float>(4 * b);
  std::vector<float> terms(static_cast<std::size_t>(b));
  for (int k = 0; k < b; ++k) {
    terms[static_cast<std::size_t>(k)] =
        (1.0f / static_cast<float>(odd(k))) *
        reference_sin(static_cast<float>(odd(j) * odd(k)) * kPi / quarter_turns);
  }
  const float weight = static_cast<float>(2.0 / b) *
                       reference_sin(static_cast<float>(odd(j)) * kPi / quarter_turns) *
                       vectorized_sum(terms);
  const auto n_polar_squared = static_cast<float>(size.n_polar * size.n_polar);
  return weight / (2 * n_polar_squared) * n_polar_squared / static_cast<float>(size.n_azimuth);
}

/// x^n: products up to the cube, the nearest float beyond.
float power(float x, int n) {
  if (n == 0) return 1;
  if (n == 1) return x;
  if (n == 2) return x * x;
  if (n == 3) return x * x * x;
  double product = x;
  for (int i = 1; i < n; ++i) product *= x;
  return static_cast<float>(product);
}

/// Associated Legendre function, orthonormal on the sphere together with sqrt(2) cos(m alpha), as
/// the polynomial in z = cos(beta) that l-fold differentiation of (z^2 - 1)^l gives, rising powers:
///
///   P_lm = N y^m sum_j (-1)^j binomial(l, j) e!/(e-l-m)! z^(e-l-m),   e = 2(l-j), y = sin(beta)
///   N    = sqrt((2l+1)/(4 pi) (l-m)!/(l+m)!) / (2^l l!)
float legendre(int l, int m, float z, float y) {
  double norm = (2 * l + 1) / (4 * std::numbers::pi);
  for (int i = l - m + 1; i <= l + m; ++i) norm /= i;
  norm = std::sqrt(norm);
  for (int i = 1; i <= l; ++i) norm /= 2 * i;
  float sum = 0;
  for (int j = (l - m) / 2; j >= 0; --j) {
    const int exponent = 2 * (l - j) - (l + m);
    double coefficient = j % 2 == 0 ? norm : -norm;
    for (int i = 1; i <= j; ++i) coefficient = coefficient * (l + 1 - i) / i;
    for (int i = exponent + 1; i <= exponent + l + m; ++i) coefficient *= i;
    sum += static_cast<float>(coefficient) * power(z, exponent) * power(y, m);
  }
  return sum;
}

/// sqrt(2) sin(|m| alpha), 1, or sqrt(2) cos(m alpha).
float azimuthal(int m, float alpha) {
  const auto sqrt2 = std::numbers::sqrt2_v<float>;
  const float angle = static_cast<float>(std::abs(m)) * alpha;
  if (m == 0) return 1;
  return sqrt2 * (m < 0 ? reference_sin(angle) : reference_cos(angle));
}

}  // namespace

ProductGridMatrices product_grid_float32(int lmax, int mmax, ProductGridSize size) {
  DPA4_EXPECTS(size.n_azimuth > 0 && size.n_polar > 0 && size.n_polar % 2 == 0);
  const auto n_rows = static_cast<std::size_t>((lmax + 1) * (lmax + 1));
  const std::vector<int> degrees = packed_degrees(lmax);
  const auto sphere = static_cast<float>(std::sqrt(4 * std::numbers::pi));
  const auto balance = static_cast<float>(std::sqrt(lmax + 1.0));

  ProductGridMatrices grid;
  grid.to.reserve(n_rows * static_cast<std::size_t>(size.n_polar * size.n_azimuth));
  grid.from.reserve(grid.to.capacity());
  std::vector<float> polar_to(n_rows), polar_from(n_rows);
  for (int b = 0; b < size.n_polar; ++b) {
    const float beta = (static_cast<float>(b) + 0.5f) / static_cast<float>(size.n_polar) * kPi;
    const float z = reference_cos(beta), y = std::abs(reference_sin(beta));
    const float weight = point_weight(b, size);
    for (std::size_t row = 0; row < n_rows; ++row) {
      const int l = degrees[row], m = static_cast<int>(row) - l * l - l;
      const float value = legendre(l, std::abs(m), z, y);
      const double root = std::sqrt(2 * l + 1.0);
      polar_to[row] = value * (sphere * static_cast<float>(1 / root) / balance);
      polar_from[row] = value * weight * (sphere * static_cast<float>(root) * balance);
    }
    for (int a = 0; a < size.n_azimuth; ++a) {
      const float alpha = static_cast<float>(a) / static_cast<float>(size.n_azimuth) * 2.0f * kPi;
      for (std::size_t row = 0; row < n_rows; ++row) {
        const int l = degrees[row], m = static_cast<int>(row) - l * l - l;
        const auto rescale =
            static_cast<float>(l > mmax ? std::sqrt((2 * l + 1) / (2.0 * mmax + 1)) : 1.0);
        const float wave = azimuthal(m, alpha);
        grid.to.push_back(polar_to[row] * wave * rescale);
        grid.from.push_back(polar_from[row] * wave * rescale);
      }
    }
  }
  return grid;
}

}  // namespace dpa4::math
