// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/energy_readout.h"

#include <algorithm>

#include "src/base/error.h"

namespace dpa4::native {

template <class Real>
EnergyReadout<Real>::EnergyReadout(const EngineContext<Real>& context, WeightStore<Real>& store,
                                   const model::ModelConfig& config)
    : context_(context), channels_(config.channels) {
  const bool on_grid = config.readout_grid != model::GridKind::kNone;
  if (on_grid) rows_ = (config.readout_lmax + 1) * (config.readout_lmax + 1);
  for (int j = 0; j < config.readout_layers; ++j) {
    const bool last = j + 1 == config.readout_layers;
    const std::string prefix =
        last ? "descriptor.output_ffn" : "descriptor.readout_pre_layers." + std::to_string(j);
    if (on_grid) {
      typename GridNet<Real>::Options options;
      options.lmax = config.readout_lmax;
      options.in = options.out = channels_;
      options.width = config.readout_neurons;
      options.n_frames = 2 * config.readout_kmax + 1;
      options.op = config.readout_op;
      options.scalar_result = last && !GridNet<Real>::ffn_has_stored_grid(store, prefix);
      scalar_result_ = options.scalar_result;
      grids_.push_back(
          GridNet<Real>::ffn(context, store, prefix, options,
                             math::so3_grid(config.readout_lmax, config.readout_lmax,
                                            config.readout_kmax, math::RowLayout::kPacked)));
    } else {
      ScalarLayer layer;
      layer.first = make_linear(store, store.matrix(prefix + ".so3_linear_1.weight"));
      layer.second = make_linear(store, store.matrix(prefix + ".so3_linear_2.weight"));
      layer.plain = !config.glu_activation;
      scalar_layers_.push_back(layer);
    }
  }

  const std::string fitting = "fitting_net.";
  const std::string net = fitting + "filter_layers.networks.0.";
  n_aparam_ = config.use_aparam_as_mask ? 0 : config.numb_aparam;
  int in = channels_;
  for (std::size_t k = 0; k < config.fitting_neuron.size(); ++k) {
    const std::string prefix = net + "hidden_layers." + std::to_string(k) + ".linear.";
    HostMatrix matrix = store.matrix(prefix + "matrix");
    const std::vector<double> bias = store.list(prefix + "bias");
    if (k == 0) {
      // Input rows: descriptor, fparam, aparam, case.
      int row = channels_;
      fparam_rows_ = matrix.row_range(row, config.numb_fparam);
      row += config.numb_fparam;
      const HostMatrix aparam_rows = matrix.row_range(row, n_aparam_);
      if (n_aparam_ > 0) aparam_ = make_linear(store, aparam_rows);
      row += n_aparam_;
      case_rows_ = matrix.row_range(row, matrix.rows - row);
      matrix = matrix.row_range(0, channels_);
      bias_ = bias;
    }
    GluLayer layer;
    layer.linear = make_linear(store, matrix);
    layer.bias = store.upload(bias);
    layer.width = config.fitting_neuron[k];
    fit_.push_back(layer);
    in = layer.width;
  }
  last_width_ = in;
  output_ = store.upload(store.list(net + "output_layer.matrix"));

  if (config.numb_fparam > 0) {
    fparam_avg_ = store.list(fitting + "fparam_avg");
    fparam_inv_std_ = store.list(fitting + "fparam_inv_std");
    if (config.default_fparam) default_fparam_ = *config.default_fparam;
  }
  if (n_aparam_ > 0) {
    aparam_avg_ = store.list(fitting + "aparam_avg");
    aparam_inv_std_ = store.list(fitting + "aparam_inv_std");
  }
  if (config.dim_case_embd > 0) case_embd_ = store.list(fitting + "case_embd");

  const std::vector<double> type_bias = store.list(fitting + "bias_atom_e");
  const std::vector<double> out_bias = store.list("out_bias");
  const double head_bias = config.bias_out ? store.list(net + "output_layer.bias")[0] : 0;
  std::vector<double> scale;
  const auto contains = [](const std::vector<int>& list, int type) {
    return std::find(list.begin(), list.end(), type) != list.end();
  };
  for (int t = 0; t < config.n_types(); ++t) {
    const bool counted = !contains(config.atom_exclude_types, t);
    const bool fitted = counted && !contains(config.fitting_exclude_types, t);
    scale.push_back(fitted ? 1 : 0);
    shift_.push_back((fitted ? head_bias + type_bias[t] : 0) + (counted ? out_bias[t] : 0));
  }
  type_scale_ = store.template upload<double>(scale);
  type_shift_ = store.template upload<double>(shift_);
}

template <class Real>
void EnergyReadout<Real>::set_conditions(WeightStore<Real>& store,
                                         const model::Conditions& conditions) {
  if (fit_.empty()) return;
  std::vector<double> bias = bias_;
  if (fparam_rows_.rows > 0) {
    const std::vector<double>& fparam =
        conditions.fparam.empty() ? default_fparam_ : conditions.fparam;
    if (static_cast<int>(fparam.size()) != fparam_rows_.rows) {
      throw InputError("the model needs " + std::to_string(fparam_rows_.rows) +
                       " frame parameters (fparam), got " + std::to_string(fparam.size()));
    }
    for (int i = 0; i < fparam_rows_.rows; ++i) {
      const double value = (fparam[i] - fparam_avg_[i]) * fparam_inv_std_[i];
      for (std::size_t j = 0; j < bias.size(); ++j) bias[j] += value * fparam_rows_(i, j);
    }
  }
  for (int i = 0; i < case_rows_.rows; ++i) {
    for (std::size_t j = 0; j < bias.size(); ++j) bias[j] += case_embd_[i] * case_rows_(i, j);
  }
  store.replace(fit_[0].bias, bias);
}

template <class Real>
void EnergyReadout<Real>::set_type_energy(WeightStore<Real>& store,
                                          const std::vector<double>& energy) {
  store.replace(type_shift_, energy);
}

template <class Real>
std::vector<Real> EnergyReadout<Real>::normalized_aparam(const double* aparam, int n) const {
  std::vector<Real> result(static_cast<std::size_t>(n) * n_aparam_);
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n_aparam_; ++k)
      result[static_cast<std::size_t>(i) * n_aparam_ + k] =
          static_cast<Real>((aparam[static_cast<std::size_t>(i) * n_aparam_ + k] - aparam_avg_[k]) *
                            aparam_inv_std_[k]);
  return result;
}

template <class Real>
EnergyReadout<Real>::Buffers::Buffers(Arena<Real>& arena, const EnergyReadout& r, int count) {
  const std::int64_t n = count;
  for (const GridNet<Real>& grid : r.grids_) {
    state.push_back(arena.take(n * r.rows_ * r.channels_));
    grids.emplace_back(arena, grid, count, true);
  }
  for (const ScalarLayer& layer : r.scalar_layers_) {
    state.push_back(arena.take(n * r.channels_));
    scalar_linear.push_back(arena.take(n * layer.first.out));
    scalar_active.push_back(arena.take(n * layer.second.in));
  }
  if (!r.grids_.empty() && !r.scalar_result_)
    state.push_back(arena.take(n * r.rows_ * r.channels_));
  state.push_back(arena.take(n * r.channels_));
  for (const GluLayer& layer : r.fit_) {
    fit_linear.push_back(arena.take(n * 2 * layer.width));
    fit_active.push_back(arena.take(n * layer.width));
    grad_fit.push_back(arena.take(n * layer.width));
  }
  grad_head = arena.take(n * r.last_width_);
  grad_state = arena.take(n * r.channels_);
}

template <class Real>
std::int64_t EnergyReadout<Real>::size(int count) const {
  Arena<Real> arena;
  Buffers(arena, *this, count);
  return arena.used();
}

template <class Real>
void EnergyReadout<Real>::glu(int rows, int width, bool plain, const Real* x, const Real* bias,
                              Real* y) const {
  kernels::GluArgs<Real> args;
  args.rows = rows;
  args.width = width;
  args.plain = plain;
  args.x = x;
  args.bias = bias;
  args.y = y;
  context_.table->glu(args, context_.stream());
}

template <class Real>
void EnergyReadout<Real>::glu_backward(int rows, int width, bool plain, const Real* x,
                                       const Real* bias, const Real* grad_y, Real* grad_x) const {
  kernels::GluBackwardArgs<Real> args;
  args.rows = rows;
  args.width = width;
  args.plain = plain;
  args.x = x;
  args.bias = bias;
  args.grad_y = grad_y;
  args.grad_x = grad_x;
  context_.table->glu_backward(args, context_.stream());
}

template <class Real>
void EnergyReadout<Real>::read_out(int count, const Real* x, std::int64_t ldx,
                                   const Buffers& b) const {
  const std::int64_t row = static_cast<std::int64_t>(rows_) * channels_;
  context_.rows(count, static_cast<int>(row), x, ldx, b.state[0], row, false);
  for (std::size_t j = 0; j < grids_.size(); ++j) {
    const std::int64_t next = j + 1 == grids_.size() && scalar_result_ ? channels_ : row;
    context_.rows(count, static_cast<int>(next), b.state[j], row, b.state[j + 1], next, false);
    grids_[j].forward(count, b.state[j], row, b.state[j], row, b.state[j + 1], next, b.grids[j]);
  }
  if (!grids_.empty() && !scalar_result_) {
    const std::size_t last = grids_.size();
    context_.rows(count, channels_, b.state[last], row, b.state[last + 1], channels_, false);
  }
  for (std::size_t j = 0; j < scalar_layers_.size(); ++j) {
    const ScalarLayer& layer = scalar_layers_[j];
    context_.multiply(count, b.state[j], channels_, layer.first, b.scalar_linear[j],
                      layer.first.out);
    glu(count, layer.second.in, layer.plain, b.scalar_linear[j], nullptr, b.scalar_active[j]);
    context_.rows(count, channels_, b.state[j], channels_, b.state[j + 1], channels_, false);
    context_.multiply(count, b.scalar_active[j], layer.second.in, layer.second, b.state[j + 1],
                      channels_, true);
  }
}

template <class Real>
void EnergyReadout<Real>::read_out_backward(int count, Real* grad, std::int64_t ld_grad,
                                            const Buffers& b) const {
  const int row = rows_ * channels_;
  if (!grids_.empty()) {
    // The descriptor is row 0 of the last layer's result: grad_state holds its gradient.
    std::size_t j = grids_.size();
    if (scalar_result_) {
      --j;
      grids_[j].backward(count, b.grad_state, channels_, grad, ld_grad, grad, ld_grad, false,
                         b.grids[j]);
      context_.rows(count, channels_, b.grad_state, channels_, grad, ld_grad, true);
    } else {
      context_.rows(count, channels_, b.grad_state, channels_, grad, ld_grad, false);
    }
    while (j-- > 0) {
      // A layer adds to its input; the copy of its result's gradient goes through it.
      context_.rows(count, row, grad, ld_grad, b.state[j + 1], row, false);
      grids_[j].backward(count, b.state[j + 1], row, grad, ld_grad, grad, ld_grad, true,
                         b.grids[j]);
    }
    return;
  }
  for (std::size_t j = scalar_layers_.size(); j-- > 0;) {
    const ScalarLayer& layer = scalar_layers_[j];
    context_.multiply_transposed(count, b.grad_state, channels_, layer.second, b.scalar_active[j],
                                 layer.second.in);
    glu_backward(count, layer.second.in, layer.plain, b.scalar_linear[j], nullptr,
                 b.scalar_active[j], b.scalar_linear[j]);
    context_.multiply_transposed(count, b.scalar_linear[j], layer.first.out, layer.first,
                                 b.grad_state, channels_, true);
  }
  context_.rows(count, channels_, b.grad_state, channels_, grad, ld_grad, false);
}

template <class Real>
void EnergyReadout<Real>::evaluate(int count, const int* type, const Real* x, std::int64_t ldx,
                                   const Real* aparam, double* energy, Real* grad,
                                   std::int64_t ld_grad, Arena<Real> arena) const {
  const Buffers b(arena, *this, count);
  read_out(count, x, ldx, b);
  const Real* input = b.state.back();
  int width = channels_;
  for (std::size_t k = 0; k < fit_.size(); ++k) {
    const GluLayer& layer = fit_[k];
    context_.multiply(count, input, width, layer.linear, b.fit_linear[k], 2 * layer.width);
    if (k == 0 && n_aparam_ > 0) {
      context_.multiply(count, aparam, n_aparam_, aparam_, b.fit_linear[k], 2 * layer.width, true);
    }
    glu(count, layer.width, false, b.fit_linear[k], layer.bias, b.fit_active[k]);
    input = b.fit_active[k];
    width = layer.width;
  }
  kernels::EnergyHeadArgs<Real> head;
  head.n_nodes = count;
  head.width = last_width_;
  head.type = type;
  head.x = input;
  head.output = output_;
  head.scale = type_scale_;
  head.shift = type_shift_;
  head.energy = energy;
  head.grad_x = fit_.empty() ? b.grad_state : b.grad_head;
  context_.table->energy_head(head, context_.stream());

  const Real* grad_active = b.grad_head;
  for (std::size_t k = fit_.size(); k-- > 0;) {
    const GluLayer& layer = fit_[k];
    glu_backward(count, layer.width, false, b.fit_linear[k], layer.bias, grad_active,
                 b.fit_linear[k]);
    Real* to = k == 0 ? b.grad_state : b.grad_fit[k - 1];
    context_.multiply_transposed(count, b.fit_linear[k], 2 * layer.width, layer.linear, to,
                                 layer.linear.in);
    grad_active = to;
  }
  read_out_backward(count, grad, ld_grad, b);
}

template class EnergyReadout<float>;
template class EnergyReadout<double>;

}  // namespace dpa4::native
