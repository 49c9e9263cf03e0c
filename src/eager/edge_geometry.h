// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "src/model/model_config.h"

namespace dpa4::eager {

/// Lengths and directions of a cohort of edges (spec part 1, section 3), differentiable in the edge
/// vectors. All of it is float64, whatever the model's type: near the cutoff a float32 length would
/// lose half the digits of the envelope, and these few numbers per edge cost nothing.
struct EdgeGeometry {
  at::Tensor vec;       // (e, 3)  clamped edge vectors when bridging, else the edge vectors
  at::Tensor length;    // (e)     their length
  at::Tensor envelope;  // (e)     weight of the edge, 0 at and beyond the cutoff
};

/// The differentiable functions of an edge vector. They start from float64 and return the compute
/// type.
class EdgeFunctions {
 public:
  EdgeFunctions(const model::ModelConfig& config, at::Tensor frequencies);

  /// vec: (e, 3) float64.
  EdgeGeometry geometry(const at::Tensor& vec) const;

  /// (e) the edge weight.
  at::Tensor envelope(const EdgeGeometry& g) const { return g.envelope.to(type_); }

  /// (e, 4): envelope / r, then the same times the direction (environment seed).
  at::Tensor environment(const EdgeGeometry& g) const;

  /// (e, n_radial): basis times its own envelope.
  at::Tensor radial_basis(const EdgeGeometry& g) const;

  /// (e) w of the source freeze gate, 0 .. 1 (bridging only).
  at::Tensor bridging_switch(const EdgeGeometry& g) const;

  /// D^l (e, 2l+1, 2l+1) for l = 0..lmax of the rotation that takes the edge to +z.
  std::vector<at::Tensor> wigner(const EdgeGeometry& g, int lmax) const;

  /// Z_lm of the edge direction, (e, (lmax+1)^2).
  at::Tensor harmonics(const EdgeGeometry& g, int lmax) const;

  /// v / sqrt(v^2 + eps^2)
  at::Tensor direction(const EdgeGeometry& g) const;

 private:
  static at::Tensor cutoff_envelope(const at::Tensor& length, double rcut, int exponent);
  at::Tensor exact_direction(const EdgeGeometry& g) const;
  at::Tensor clamped_length(const at::Tensor& length) const;
  at::Tensor rotation(const EdgeGeometry& g) const;

  const model::ModelConfig& config_;
  at::ScalarType type_;               // the compute type
  at::Tensor frequencies_;            // (n_radial) float64
  std::vector<at::Tensor> coupling_;  // by l: (2l+1, 2l-1, 3)
  std::vector<double> raising_norm_;  // by l
};

/// ZBL screened nuclear repulsion [eV] of one directed edge, half the pair energy (spec part 1,
/// section 3.7). length: (e) [Angstrom] float64; z_i, z_j: (e) atomic numbers.
at::Tensor half_zbl(const at::Tensor& length, const at::Tensor& z_i, const at::Tensor& z_j);

}  // namespace dpa4::eager
