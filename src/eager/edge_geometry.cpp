// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/edge_geometry.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "src/eager/tensor_store.h"
#include "src/math/harmonics.h"

namespace dpa4::eager {

EdgeFunctions::EdgeFunctions(const model::ModelConfig& config, at::Tensor frequencies)
    : config_(config),
      type_(frequencies.scalar_type()),
      frequencies_(frequencies.reshape({-1}).to(at::kDouble)) {
  int lmax = config.init_lmax;
  for (const model::BlockShape& block : config.blocks) lmax = std::max(lmax, block.lmax);
  coupling_.resize(static_cast<std::size_t>(lmax) + 1);
  raising_norm_.resize(coupling_.size());
  for (int l = 1; l <= lmax; ++l) {
    const auto index = static_cast<std::size_t>(l);
    coupling_[index] =
        constant(math::raising_coupling(l), {2 * l + 1, 2 * l - 1, 3}, frequencies.options());
    raising_norm_[index] = math::raising_norm(l);
  }
}

at::Tensor EdgeFunctions::cutoff_envelope(const at::Tensor& length, double rcut, int exponent) {
  const at::Tensor u = at::clamp((rcut - length) / rcut, 0.0, 1.0);
  const at::Tensor x = 1.0 - u;
  // coefficients C(k + 3, 3), Horner from the top
  const auto coefficient = [](int k) { return (k + 1.0) * (k + 2.0) * (k + 3.0) / 6.0; };
  at::Tensor series = at::full_like(x, coefficient(exponent - 1));
  for (int k = exponent - 2; k >= 0; --k) series = series * x + coefficient(k);
  const at::Tensor u2 = u * u;
  return u2 * u2 * series;
}

at::Tensor EdgeFunctions::clamped_length(const at::Tensor& length) const {
  const double inner = config_.bridging_r_inner, outer = config_.bridging_r_outer;
  const at::Tensor t = at::clamp((length - inner) / (outer - inner), 0.0, 1.0);
  const at::Tensor t2 = t * t;
  const at::Tensor h = t2 * t2 * (20.0 + t * (-45.0 + t * (36.0 - 10.0 * t)));
  return at::where(length >= outer, length, inner + (outer - inner) * h);
}

EdgeGeometry EdgeFunctions::geometry(const at::Tensor& vec) const {
  EdgeGeometry g;
  g.vec = vec;
  g.length = at::sqrt((vec * vec).sum(-1) + config_.eps * config_.eps);
  if (config_.bridging_zbl) {
    const at::Tensor clamped = clamped_length(g.length);
    g.vec = vec * (clamped / g.length).unsqueeze(-1);
    g.length = clamped;
  }
  // The reference keeps the cutoff of this envelope in float32, whatever the model's type.
  g.envelope = cutoff_envelope(g.length, static_cast<float>(config_.rcut), config_.edge_env_exp);
  return g;
}

at::Tensor EdgeFunctions::radial_basis(const EdgeGeometry& g) const {
  const at::Tensor r = g.length.unsqueeze(-1);
  at::Tensor phi;
  if (config_.basis == model::Basis::kBessel) {
    phi = frequencies_ * at::sinc(r * frequencies_ / std::numbers::pi);
  } else {
    const double width = config_.rcut / std::max(config_.n_radial - 1, 1);
    const at::Tensor shift = r - frequencies_;
    phi = at::exp(shift * shift * (-0.5 / (width * width)));
  }
  if (config_.basis_env_exp != 0) {
    phi = phi * cutoff_envelope(g.length, config_.rcut, config_.basis_env_exp).unsqueeze(-1);
  }
  return phi.to(type_);
}

at::Tensor EdgeFunctions::bridging_switch(const EdgeGeometry& g) const {
  const double inner = config_.bridging_r_inner, outer = config_.bridging_r_outer;
  const at::Tensor t = at::clamp((g.length - inner) / (outer - inner), 0.0, 1.0);
  const at::Tensor t2 = t * t;
  return (t2 * t2 * (35.0 + t * (-84.0 + t * (70.0 - 20.0 * t)))).to(type_);
}

at::Tensor EdgeFunctions::exact_direction(const EdgeGeometry& g) const {
  return g.vec / at::sqrt((g.vec * g.vec).sum(-1, true) + config_.eps * config_.eps);
}

at::Tensor EdgeFunctions::direction(const EdgeGeometry& g) const {
  return exact_direction(g).to(type_);
}

at::Tensor EdgeFunctions::environment(const EdgeGeometry& g) const {
  const at::Tensor strength = (g.envelope / g.length).unsqueeze(-1);
  return at::cat({strength, strength * exact_direction(g)}, -1).to(type_);
}

/// Global -> edge frame, from a blend of two quaternion charts (spec part 1, section 4.3): the roll
/// of the frame matters for product S2 grids in the SO(2) stack, so the published choice is kept.
at::Tensor EdgeFunctions::rotation(const EdgeGeometry& g) const {
  const double eps2 = config_.eps * config_.eps;
  const auto normalized = [eps2](const at::Tensor& q) {
    return q / at::sqrt((q * q).sum(-1, true) + eps2);
  };
  const at::Tensor u = direction(g);
  const at::Tensor x = u.select(-1, 0), y = u.select(-1, 1), z = u.select(-1, 2);
  const at::Tensor zero = at::zeros_like(x);
  at::Tensor plus = normalized(at::stack({1.0 + z, y, -x, zero}, -1));
  const at::Tensor minus = normalized(at::stack({-x, zero, 1.0 - z, y}, -1));
  const double tiny = u.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                     : std::numeric_limits<float>::epsilon();
  const at::Tensor tau = at::clamp(0.5 * (z + 1.0), 0.0, 1.0);
  const at::Tensor rise = at::exp(-1.0 / at::clamp_min(tau, tiny));
  const at::Tensor fall = at::exp(-1.0 / at::clamp_min(1.0 - tau, tiny));
  at::Tensor blend = rise / (rise + fall);
  blend = at::where(tau <= 0.0, at::zeros_like(blend), blend);
  blend = at::where(tau >= 1.0, at::ones_like(blend), blend).unsqueeze(-1);
  const at::Tensor opposite = (plus * minus).sum(-1, true) < 0.0;
  plus = at::where(opposite, -plus, plus);
  const at::Tensor q = normalized((1.0 - blend) * minus + blend * plus);
  const at::Tensor a = q.select(-1, 0), b = q.select(-1, 1), c = q.select(-1, 2),
                   d = q.select(-1, 3);
  return at::stack({1.0 - 2.0 * (c * c + d * d), 2.0 * (b * c - a * d), 2.0 * (b * d + a * c),
                    2.0 * (b * c + a * d), 1.0 - 2.0 * (b * b + d * d), 2.0 * (c * d - a * b),
                    2.0 * (b * d - a * c), 2.0 * (c * d + a * b), 1.0 - 2.0 * (b * b + c * c)},
                   -1)
      .reshape({-1, 3, 3});
}

std::vector<at::Tensor> EdgeFunctions::wigner(const EdgeGeometry& g, int lmax) const {
  const int64_t n = g.length.size(0);
  const at::TensorOptions options = g.vec.options().dtype(type_);
  std::vector<at::Tensor> blocks{at::ones({n, 1, 1}, options)};
  if (lmax == 0) return blocks;
  // D^1 = P R P^T with rows (y, z, -x)
  const at::Tensor axes = index_tensor({1, 2, 0}, options);
  const at::Tensor sign = constant({1, 1, -1}, {3}, options);
  const at::Tensor first = rotation(g).index_select(1, axes).index_select(2, axes) *
                           (sign.unsqueeze(1) * sign.unsqueeze(0));
  blocks.push_back(first);
  for (int l = 2; l <= lmax; ++l) {
    const at::Tensor& coupling = coupling_[static_cast<std::size_t>(l)];  // (a, i, j)
    const int64_t rows = 2 * l + 1, inner = 2 * l - 1;
    // half[e, a, k, m] = sum_ij C[a, i, j] D^(l-1)[i, k] D^1[j, m]
    const at::Tensor by_low = at::matmul(coupling.permute({0, 2, 1}).reshape({rows * 3, inner}),
                                         blocks.back());  // (e, a * j, k)
    const at::Tensor half = at::matmul(
        by_low.reshape({n, rows, 3, inner}).transpose(2, 3).reshape({n, rows * inner, 3}), first);
    blocks.push_back(
        at::matmul(half.reshape({n, rows, inner * 3}), coupling.reshape({rows, inner * 3}).t()));
  }
  return blocks;
}

at::Tensor EdgeFunctions::harmonics(const EdgeGeometry& g, int lmax) const {
  const at::Tensor u = direction(g);
  std::vector<at::Tensor> degrees{at::ones({u.size(0), 1}, u.options())};
  if (lmax >= 1)
    degrees.push_back(at::stack({u.select(-1, 1), u.select(-1, 2), -u.select(-1, 0)}, -1));
  for (int l = 2; l <= lmax; ++l) {
    const auto index = static_cast<std::size_t>(l);
    const at::Tensor product = (degrees.back().unsqueeze(-1) * degrees[1].unsqueeze(1))
                                   .reshape({u.size(0), degrees.back().size(1) * 3});
    degrees.push_back(at::matmul(product, coupling_[index].reshape({2 * l + 1, -1}).t()) *
                      raising_norm_[index]);
  }
  return at::cat(degrees, 1);
}

at::Tensor half_zbl(const at::Tensor& length, const at::Tensor& z_i, const at::Tensor& z_j) {
  constexpr double kBohr = 0.5291772109, kCoulomb = 14.3996;  // Angstrom, eV Angstrom
  const at::Tensor r = at::clamp_min(length, 1e-10);
  const at::Tensor x = r * (at::pow(z_i, 0.23) + at::pow(z_j, 0.23)) / (0.88534 * kBohr);
  const at::Tensor screening = 0.18175 * at::exp(-3.1998 * x) + 0.50986 * at::exp(-0.94229 * x) +
                               0.28022 * at::exp(-0.4029 * x) + 0.028171 * at::exp(-0.20162 * x);
  return 0.5 * kCoulomb * z_i * z_j / r * screening;
}

}  // namespace dpa4::eager
