// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/eager/layers.h"
#include "src/eager/tensor_store.h"

namespace dpa4::eager {

/// The energy head: descriptor -> energy of an atom (spec part 1, section 1.2; part 3, section 5).
class Fitting {
 public:
  Fitting(const model::ModelConfig& config, const TensorStore& weights, at::Tensor bias_atom_e);

  /// Network value per atom, (n), without biases.
  /// descriptor: (n, C); fparam: (n, numb_fparam) or undefined; aparam: (n, numb_aparam) or
  /// undefined.
  at::Tensor network(const at::Tensor& descriptor, const at::Tensor& fparam,
                     const at::Tensor& aparam) const;

  /// Network value plus bias_atom_e minus the reference of the atom's type, (n).
  /// vacuum: descriptors of isolated atoms by type (n_types, C), or undefined.
  at::Tensor energy(const at::Tensor& descriptor, const at::Tensor& types, const at::Tensor& fparam,
                    const at::Tensor& aparam, const at::Tensor& vacuum) const;

 private:
  at::Tensor film(int target, const at::Tensor& x) const;

  const model::ModelConfig& config_;
  TensorStore w_;           // scope "fitting_net"
  at::Tensor bias_atom_e_;  // (n_types)
  at::Tensor included_;     // (n_types) 0 for excluded types
  at::Tensor film_code_;    // (1, 4C) or undefined
};

}  // namespace dpa4::eager
