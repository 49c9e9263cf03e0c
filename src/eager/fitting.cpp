// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/fitting.h"

#include <ATen/core/grad_mode.h>

namespace dpa4::eager {

Fitting::Fitting(const model::ModelConfig& config, const TensorStore& weights,
                 at::Tensor bias_atom_e)
    : config_(config), w_(weights), bias_atom_e_(bias_atom_e.reshape({-1})) {
  included_ = at::ones_like(bias_atom_e_);
  for (int type : config.fitting_exclude_types) included_[type].zero_();
  if (config.case_film_embd && config.dim_case_embd > 0) {
    const TensorStore film = w_.scope("filter_layers.networks.0.case_film");
    const at::Tensor code =
        at::matmul(w_("case_embd").reshape({1, -1}), film("case_layer1.matrix"));
    film_code_ = at::matmul(activate(config.fitting_activation, code), film("case_layer2.matrix"));
  }
}

/// Scale and shift of a layer's features by the constant case code.
at::Tensor Fitting::film(int target, const at::Tensor& x) const {
  const TensorStore w = w_.scope("filter_layers.networks.0.case_film");
  const at::Tensor code = at::matmul(film_code_, w("projectors." + std::to_string(target)));
  const int64_t width = x.size(1);
  const at::Tensor scale_strength =
      at::exp(w("adam_case_film_scale_strength_log").reshape({-1})[target]);
  const at::Tensor shift_strength =
      at::exp(w("adam_case_film_shift_strength_log").reshape({-1})[target]);
  return x * (1.0 + scale_strength * at::tanh(code.narrow(1, 0, width))) +
         shift_strength * at::tanh(code.narrow(1, width, width));
}

at::Tensor Fitting::network(const at::Tensor& descriptor, const at::Tensor& fparam,
                            const at::Tensor& aparam) const {
  const bool film_on = film_code_.defined();
  const int64_t n = descriptor.size(0);
  std::vector<at::Tensor> parts{film_on ? film(0, descriptor) : descriptor};
  if (fparam.defined()) parts.push_back((fparam - w_("fparam_avg")) * w_("fparam_inv_std"));
  if (aparam.defined()) parts.push_back((aparam - w_("aparam_avg")) * w_("aparam_inv_std"));
  if (config_.dim_case_embd > 0 && !config_.case_film_embd) {
    parts.push_back(w_("case_embd").reshape({1, -1}).expand({n, -1}));
  }
  at::Tensor x = parts.size() == 1 ? parts[0] : at::cat(parts, 1);
  const TensorStore net = w_.scope("filter_layers.networks.0");
  for (std::size_t k = 0; k < config_.fitting_neuron.size(); ++k) {
    const TensorStore layer = net.scope("hidden_layers", static_cast<int>(k)).scope("linear");
    const at::Tensor y = at::matmul(x, layer("matrix")) + layer("bias");
    const int64_t width = y.size(1) / 2;
    x = y.narrow(1, 0, width) * activate(config_.fitting_activation, y.narrow(1, width, width));
    if (film_on) x = film(static_cast<int>(k) + 1, x);
  }
  at::Tensor e = at::matmul(x, net("output_layer.matrix"));
  if (net.has("output_layer.bias")) e = e + net("output_layer.bias");
  return e.reshape({n});
}

at::Tensor Fitting::energy(const at::Tensor& descriptor, const at::Tensor& types,
                           const at::Tensor& fparam, const at::Tensor& aparam,
                           const at::Tensor& vacuum) const {
  at::Tensor e = network(descriptor, fparam, aparam);
  if (config_.subtract_zero_descriptor) {
    e = e - network(at::zeros_like(descriptor), fparam, aparam);
  }
  if (vacuum.defined()) e = e - network(vacuum.index_select(0, types), fparam, aparam);
  return (e + bias_atom_e_.index_select(0, types)) * included_.index_select(0, types);
}

}  // namespace dpa4::eager
