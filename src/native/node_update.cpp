// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/node_update.h"

#include "src/base/error.h"
#include "src/math/norm.h"

namespace dpa4::native {

namespace {

template <class Real>
So3Norm<Real> load_norm(WeightStore<Real>& store, const model::ModelConfig& config,
                        const std::string& prefix, int lmax, double eps) {
  std::vector<double> balance;
  for (int l = 0; l <= lmax; ++l) {
    balance.push_back(math::norm_balance(2 * l + 1, lmax, config.channels,
                                         config.precision == model::FloatType::kFloat64));
  }
  return {lmax,
          config.channels,
          eps,
          store.upload(balance),
          store.upload(store.list(prefix + ".adam_scale")),
          store.upload(store.list(prefix + ".bias"))};
}

math::GridMatrices ffn_grid(const model::ModelConfig& config, const model::BlockShape& block) {
  if (config.ffn_grid == model::GridKind::kSO3) {
    return math::so3_grid(block.node_lmax, block.node_lmax, block.kmax, math::RowLayout::kPacked);
  }
  return math::s2_grid(
      block.node_lmax, block.node_lmax, math::RowLayout::kPacked,
      config.lebedev_ffn ? math::S2Points::kLebedev : math::S2Points::kProductSquare);
}

}  // namespace

template <class Real>
NodeUpdate<Real>::NodeUpdate(const EngineContext<Real>& context, WeightStore<Real>& store,
                             const model::ModelConfig& config, int block,
                             const kernels::MessageShape& shape)
    : context_(context),
      shape_(shape),
      channels_(config.channels),
      rows_(shape.full_rows()),
      eps_(config.eps) {
  constexpr double kNormEps = 1e-5;
  const model::BlockShape& block_shape = config.blocks[block];
  const std::string prefix = "descriptor.blocks." + std::to_string(block) + ".";
  const std::string conv = prefix + "so2_conv.";
  const int lmax = shape.lmax, focus = shape.n_focus, width = shape.width;
  if (config.sandwich_norm[0]) {
    pre_so2_ = load_norm(store, config, prefix + "pre_so2_norm", lmax, kNormEps);
  }
  if (config.sandwich_norm[1]) {
    post_so2_ = load_norm(store, config, prefix + "post_so2_norm", lmax,
                          config.edge_norm_radial ? kNormEps : 1.0);
  }
  pre_mix_ =
      make_degree_linear(store, by_degree(store.matrix(conv + "pre_focus_mix.weight"), lmax));
  post_mix_ =
      make_degree_linear(store, by_degree(store.matrix(conv + "post_focus_mix.weight"), lmax));
  if (shape.n_heads > 0) {
    qk_scale_ = store.upload(store.list(conv + "attn_qk_norm.adam_scale"));
    gate_scale_ = store.upload(store.list(conv + "attn_output_gate_norm.adam_scale"));
    const HostMatrix q = store.matrix(conv + "attn_q_proj.weight");
    const HostMatrix k = store.matrix(conv + "attn_k_proj.weight");
    const std::vector<double> gate = store.list(conv + "adamw_attn_gate_w");  // (Cf, F, H)
    const HostMatrix gates(width, focus * shape.n_heads, gate);
    for (int f = 0; f < focus; ++f) {
      query_.push_back(make_linear(store, q.col_range(f * width, width)));
      key_.push_back(make_linear(store, k.col_range(f * width, width)));
      gate_.push_back(make_linear(store, gates.col_range(f * shape.n_heads, shape.n_heads)));
    }
  }
  if (config.message_node != model::GridKind::kNone) {
    typename GridNet<Real>::Options options;
    options.lmax = lmax;
    options.n_focus = focus;
    options.in = options.width = options.out = width;
    options.n_frames = 2 * block_shape.kmax + 1;
    options.op = config.message_node_op;
    cross_ = GridNet<Real>::cross(
        context, store, conv + "message_node_grid_product", options,
        math::so3_grid(lmax, lmax, block_shape.kmax, math::RowLayout::kPacked));
  }
  for (int j = 0; j < config.ffn_blocks; ++j) {
    const std::string n = "." + std::to_string(j);
    typename GridNet<Real>::Options options;
    options.lmax = lmax;
    options.in = options.out = channels_;
    options.width = config.ffn_neurons;
    options.n_frames = config.ffn_grid == model::GridKind::kSO3 ? 2 * block_shape.kmax + 1 : 1;
    options.op = config.ffn_op;
    Ffn ffn{std::nullopt, std::nullopt,
            GridNet<Real>::ffn(context, store, prefix + "ffns" + n, options,
                               ffn_grid(config, block_shape))};
    if (config.sandwich_norm[2]) {
      ffn.pre = load_norm(store, config, prefix + "pre_ffn_norms" + n, lmax, kNormEps);
    }
    if (config.sandwich_norm[3]) {
      ffn.post = load_norm(store, config, prefix + "post_ffn_norms" + n, lmax, kNormEps);
    }
    ffns_.push_back(std::move(ffn));
  }
}

template <class Real>
void NodeUpdate<Real>::norm(const So3Norm<Real>& norm, int count, const Real* x, std::int64_t ldx,
                            Real* y) const {
  kernels::So3NormArgs<Real> args;
  args.n_nodes = count;
  args.lmax = norm.lmax;
  args.channels = norm.channels;
  args.eps = norm.eps;
  args.x = x;
  args.ldx = ldx;
  args.balance = norm.balance;
  args.scale = norm.scale;
  args.bias = norm.bias;
  args.y = y;
  context_.table->so3_norm(args, context_.stream());
}

template <class Real>
void NodeUpdate<Real>::norm_backward(const So3Norm<Real>& norm, int count, const Real* x,
                                     std::int64_t ldx, const Real* grad_y, Real* grad_x,
                                     std::int64_t ld_grad, bool accumulate) const {
  kernels::So3NormBackwardArgs<Real> args;
  args.n_nodes = count;
  args.lmax = norm.lmax;
  args.channels = norm.channels;
  args.eps = norm.eps;
  args.x = x;
  args.ldx = ldx;
  args.balance = norm.balance;
  args.scale = norm.scale;
  args.grad_y = grad_y;
  args.grad_x = grad_x;
  args.ld_grad = ld_grad;
  args.accumulate = accumulate;
  context_.table->so3_norm_backward(args, context_.stream());
}

template <class Real>
std::int64_t NodeUpdate<Real>::features_size(int count) const {
  Arena<Real> arena;
  arena.take(static_cast<std::int64_t>(count) * row());            // normed x or its gradient
  arena.take(static_cast<std::int64_t>(count) * shape_.hidden());  // normed scalars
  return arena.used();
}

template <class Real>
void NodeUpdate<Real>::make_features(int count, const Real* x, Real* features, Real* query,
                                     Real* key, Arena<Real> arena) const {
  const int hidden = shape_.hidden(), width = shape_.width;
  Real* normed = arena.take(static_cast<std::int64_t>(count) * row());
  Real* scalars = arena.take(static_cast<std::int64_t>(count) * hidden);
  const Real* input = x;
  if (pre_so2_) {
    norm(*pre_so2_, count, x, row(), normed);
    input = normed;
  }
  context_.multiply_degrees(count, input, row(), channels_, pre_mix_, features, hidden_row(),
                            hidden);
  if (shape_.n_heads == 0) return;
  kernels::ScalarNormArgs<Real> args;
  args.n_nodes = count;
  args.n_focus = shape_.n_focus;
  args.width = width;
  args.eps = eps_;
  args.x = features;
  args.ldx = hidden_row();
  args.scale = qk_scale_;
  args.y = scalars;
  context_.table->scalar_norm(args, context_.stream());
  for (int f = 0; f < shape_.n_focus; ++f) {
    context_.multiply(count, scalars + f * width, hidden, query_[f], query + f * width, hidden);
    context_.multiply(count, scalars + f * width, hidden, key_[f], key + f * width, hidden);
  }
}

template <class Real>
void NodeUpdate<Real>::features_backward(int count, const Real* x, const Real* features,
                                         Real* grad_features, const Real* grad_query,
                                         const Real* grad_key, Real* grad_x, std::int64_t ld_grad,
                                         Arena<Real> arena) const {
  const int hidden = shape_.hidden(), width = shape_.width;
  Real* grad_normed = arena.take(static_cast<std::int64_t>(count) * row());
  Real* scalars = arena.take(static_cast<std::int64_t>(count) * hidden);
  if (shape_.n_heads > 0) {
    for (int f = 0; f < shape_.n_focus; ++f) {
      context_.multiply_transposed(count, grad_query + f * width, hidden, query_[f],
                                   scalars + f * width, hidden);
      context_.multiply_transposed(count, grad_key + f * width, hidden, key_[f],
                                   scalars + f * width, hidden, true);
    }
    kernels::ScalarNormBackwardArgs<Real> args;
    args.n_nodes = count;
    args.n_focus = shape_.n_focus;
    args.width = width;
    args.eps = eps_;
    args.x = features;
    args.ldx = hidden_row();
    args.scale = qk_scale_;
    args.grad_y = scalars;
    args.grad_x = grad_features;
    args.ld_grad = hidden_row();
    context_.table->scalar_norm_backward(args, context_.stream());
  }
  if (!pre_so2_) {
    context_.multiply_degrees_transposed(count, grad_features, hidden_row(), hidden, pre_mix_,
                                         grad_x, ld_grad, channels_, true);
    return;
  }
  context_.multiply_degrees_transposed(count, grad_features, hidden_row(), hidden, pre_mix_,
                                       grad_normed, row(), channels_);
  norm_backward(*pre_so2_, count, x, row(), grad_normed, grad_x, ld_grad, true);
}

template <class Real>
NodeUpdate<Real>::Buffers::Buffers(Arena<Real>& arena, const NodeUpdate& u, int count,
                                   bool backward) {
  const std::int64_t n = count, row = n * u.row(), hidden_row = n * u.hidden_row();
  if (u.shape_.n_heads > 0) {
    normed_scalars = arena.take(n * u.shape_.hidden());
    gate_logit = arena.take(n * u.shape_.weights());
  }
  gated = arena.take(hidden_row);
  mixed = gated;
  if (u.cross_) {
    mixed = arena.take(hidden_row);
    cross = typename GridNet<Real>::Buffers(arena, *u.cross_, count, backward);
  }
  message = arena.take(row);
  normed = arena.take(row);
  state.push_back(arena.take(row));
  // Going forward only, all FFNs share their buffers.
  typename GridNet<Real>::Buffers shared;
  for (std::size_t j = 0; j < u.ffns_.size(); ++j) {
    if (backward || j == 0) {
      shared = typename GridNet<Real>::Buffers(arena, u.ffns_[j].net, count, backward);
      if (u.ffns_[j].post) ffn_out = arena.take(row);
    }
    ffns.push_back(shared);
    ffn_results.push_back(ffn_out);
    state.push_back(backward ? arena.take(row) : state.back());
  }
  if (!backward) return;
  grad_mixed = arena.take(hidden_row);
  grad_message = arena.take(row);
  grad_normed = arena.take(row);
  if (u.shape_.n_heads > 0) grad_logit = arena.take(n * u.shape_.weights());
}

template <class Real>
std::int64_t NodeUpdate<Real>::update_size(int count, bool backward) const {
  Arena<Real> arena;
  Buffers(arena, *this, count, backward);
  return arena.used();
}

template <class Real>
void NodeUpdate<Real>::update(const NodeRange<Real>& nodes, const Buffers& b) const {
  const int count = nodes.count, hidden = shape_.hidden(), width = shape_.width;
  const int heads = shape_.n_heads;
  if (heads > 0) {
    kernels::ScalarNormArgs<Real> scalars;
    scalars.n_nodes = count;
    scalars.n_focus = shape_.n_focus;
    scalars.width = width;
    scalars.eps = eps_;
    scalars.x = nodes.features;
    scalars.ldx = hidden_row();
    scalars.scale = gate_scale_;
    scalars.y = b.normed_scalars;
    context_.table->scalar_norm(scalars, context_.stream());
    for (int f = 0; f < shape_.n_focus; ++f) {
      context_.multiply(count, b.normed_scalars + f * width, hidden, gate_[f],
                        b.gate_logit + f * heads, shape_.weights());
    }
  }
  kernels::HeadGateArgs<Real> gate;
  gate.n_nodes = count;
  gate.shape = shape_;
  gate.sum = nodes.sum;
  gate.logit = b.gate_logit;
  gate.kappa = nodes.kappa;
  gate.out = b.gated;
  context_.table->head_gate(gate, context_.stream());
  if (cross_) {
    context_.rows(count, hidden_row(), b.gated, hidden_row(), b.mixed, hidden_row(), false);
    cross_->forward(count, b.gated, hidden_row(), nodes.features, hidden_row(), b.mixed,
                    hidden_row(), b.cross);
  }
  context_.multiply_degrees(count, b.mixed, hidden_row(), hidden, post_mix_, b.message, row(),
                            channels_);
  const Real* message = b.message;
  if (post_so2_) {
    norm(*post_so2_, count, b.message, row(), b.normed);
    message = b.normed;
  }
  context_.add_rows(count, row(), nodes.x, message, b.state[0], row());

  for (std::size_t j = 0; j < ffns_.size(); ++j) {
    const Ffn& ffn = ffns_[j];
    const Real* input = b.state[j];
    if (ffn.pre) {
      norm(*ffn.pre, count, b.state[j], row(), b.normed);
      input = b.normed;
    }
    if (ffn.post) {
      context_.machine->zero(b.ffn_results[j],
                             static_cast<std::size_t>(count) * row() * sizeof(Real));
      ffn.net.forward(count, input, row(), input, row(), b.ffn_results[j], row(), b.ffns[j]);
      norm(*ffn.post, count, b.ffn_results[j], row(), b.normed);
      context_.add_rows(count, row(), b.state[j], b.normed, b.state[j + 1], row());
      continue;
    }
    if (b.state[j + 1] != b.state[j]) {
      context_.rows(count, row(), b.state[j], row(), b.state[j + 1], row(), false);
    }
    ffn.net.forward(count, input, row(), input, row(), b.state[j + 1], row(), b.ffns[j]);
  }
}

template <class Real>
void NodeUpdate<Real>::update_backward(const NodeRange<Real>& nodes, const Buffers& b, Real* grad,
                                       std::int64_t ld_grad, Real* grad_sum, Real* row_sum,
                                       Real* grad_features, Real* kappa_times_grad) const {
  const int count = nodes.count, hidden = shape_.hidden(), width = shape_.width;
  const int heads = shape_.n_heads;
  for (std::size_t j = ffns_.size(); j-- > 0;) {
    const Ffn& ffn = ffns_[j];
    const Real* grad_result = grad;
    std::int64_t ld_result = ld_grad;
    if (ffn.post) {
      context_.rows(count, row(), grad, ld_grad, b.grad_normed, row(), false);
      norm_backward(*ffn.post, count, b.ffn_results[j], row(), b.grad_normed, b.grad_message, row(),
                    false);
      grad_result = b.grad_message;
      ld_result = row();
    }
    if (ffn.pre) {
      ffn.net.backward(count, grad_result, ld_result, b.grad_normed, row(), b.grad_normed, row(),
                       false, b.ffns[j]);
      norm_backward(*ffn.pre, count, b.state[j], row(), b.grad_normed, grad, ld_grad, true);
    } else {
      ffn.net.backward(count, grad_result, ld_result, grad, ld_grad, grad, ld_grad, true,
                       b.ffns[j]);
    }
  }
  const Real* grad_message = grad;
  std::int64_t ld_message = ld_grad;
  if (post_so2_) {
    context_.rows(count, row(), grad, ld_grad, b.grad_normed, row(), false);
    norm_backward(*post_so2_, count, b.message, row(), b.grad_normed, b.grad_message, row(), false);
    grad_message = b.grad_message;
    ld_message = row();
  }
  context_.multiply_degrees_transposed(count, grad_message, ld_message, channels_, post_mix_,
                                       b.grad_mixed, hidden_row(), hidden);
  context_.machine->zero(grad_features,
                         static_cast<std::size_t>(count) * hidden_row() * sizeof(Real));
  if (cross_) {
    // The product is added to the messages: their gradient is that of the sum plus its own.
    context_.rows(count, hidden_row(), b.grad_mixed, hidden_row(), b.mixed, hidden_row(), false);
    cross_->backward(count, b.mixed, hidden_row(), b.grad_mixed, hidden_row(), grad_features,
                     hidden_row(), true, b.cross);
  }
  kernels::HeadGateBackwardArgs<Real> gate;
  gate.n_nodes = count;
  gate.shape = shape_;
  gate.sum = nodes.sum;
  gate.logit = b.gate_logit;
  gate.kappa = nodes.kappa;
  gate.grad_out = b.grad_mixed;
  gate.grad_sum = grad_sum;
  gate.row_sum = row_sum;
  gate.grad_logit = b.grad_logit;
  gate.kappa_times_grad = kappa_times_grad;
  context_.table->head_gate_backward(gate, context_.stream());
  if (heads == 0) return;
  for (int f = 0; f < shape_.n_focus; ++f) {
    context_.multiply_transposed(count, b.grad_logit + f * heads, shape_.weights(), gate_[f],
                                 b.normed_scalars + f * width, hidden);
  }
  kernels::ScalarNormBackwardArgs<Real> scalars;
  scalars.n_nodes = count;
  scalars.n_focus = shape_.n_focus;
  scalars.width = width;
  scalars.eps = eps_;
  scalars.x = nodes.features;
  scalars.ldx = hidden_row();
  scalars.scale = gate_scale_;
  scalars.grad_y = b.normed_scalars;
  scalars.grad_x = grad_features;
  scalars.ld_grad = hidden_row();
  context_.table->scalar_norm_backward(scalars, context_.stream());
}

template class NodeUpdate<float>;
template class NodeUpdate<double>;

}  // namespace dpa4::native
