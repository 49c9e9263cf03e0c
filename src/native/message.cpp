// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/message.h"

#include <cmath>

#include "src/base/error.h"

namespace dpa4::native {

using kernels::RadialMixing;

namespace {

/// Columns are padded to whole vectors.
int padded(int n) {
  constexpr int kStep = 16;
  return (n + kStep - 1) / kStep * kStep;
}

kernels::MessageShape message_shape(const model::ModelConfig& config,
                                    const model::BlockShape& block) {
  kernels::MessageShape shape;
  shape.lmax = block.lmax;
  shape.n_focus = config.n_focus;
  shape.width = config.focus_dim;
  shape.n_heads = config.n_heads;
  shape.mixing =
      config.radial_mode == model::RadialMode::kNone ? RadialMixing::kScale : RadialMixing::kMix;
  shape.rank = config.radial_rank;
  return shape;
}

/// Weights of the m = 0 part, focus by focus: stored (in, F, out), wanted (F, in, out).
template <class Real>
void load_part(WeightStore<Real>& store, const std::vector<HostMatrix>& by_focus, const Real*& w,
               const Real*& wt) {
  std::vector<double> plain, transposed;
  for (const HostMatrix& matrix : by_focus) {
    const HostMatrix t = matrix.transposed();
    plain.insert(plain.end(), matrix.v.begin(), matrix.v.end());
    transposed.insert(transposed.end(), t.v.begin(), t.v.end());
  }
  w = store.upload(plain);
  wt = store.upload(transposed);
}

template <class Real>
kernels::So2Layer<Real> load_layer(WeightStore<Real>& store, const std::string& prefix, int layer,
                                   bool gated, const kernels::MessageShape& shape) {
  const std::string linear = prefix + "so2_linears." + std::to_string(layer);
  const HostMatrix m0 = store.matrix(linear + ".weight_m0");
  const HostMatrix m1 = store.matrix(linear + ".weight_m.0");
  const int size0 = (shape.lmax + 1) * shape.width, half = shape.lmax * shape.width;
  std::vector<HostMatrix> parts0, parts1, gates;
  for (int f = 0; f < shape.n_focus; ++f) {
    parts0.push_back(m0.col_range(f * size0, size0));
    // x(-1) is the real and x(+1) the imaginary part of a product with U + iV.
    const HostMatrix u = m1.col_range(2 * f * half, half);
    HostMatrix v = m1.col_range((2 * f + 1) * half, half);
    HostMatrix whole(2 * half, 2 * half);
    place(whole, 0, 0, u);
    place(whole, half, half, u);
    place(whole, 0, half, v);
    for (double& value : v.v) value = -value;
    place(whole, half, 0, v);
    parts1.push_back(whole);
  }
  kernels::So2Layer<Real> result;
  load_part(store, parts0, result.m0, result.m0_transposed);
  load_part(store, parts1, result.m1, result.m1_transposed);
  if (gated) {
    const HostMatrix gate =
        store.matrix(prefix + "non_linearities." + std::to_string(layer) + ".gate_linear.weight");
    for (int f = 0; f < shape.n_focus; ++f) gates.push_back(gate.col_range(f * half, half));
    load_part(store, gates, result.gate, result.gate_transposed);
  }
  return result;
}

}  // namespace

template <class Real>
Message<Real>::Message(const EngineContext<Real>& context, WeightStore<Real>& store,
                       const model::ModelConfig& config, int block, const RadialNet<Real>& radial)
    : context_(context),
      radial_(radial),
      shape_(message_shape(config, config.blocks[block])),
      eps_(config.eps) {
  const std::string prefix = "descriptor.blocks." + std::to_string(block) + ".so2_conv.";
  const int channels = config.channels, hidden = shape_.hidden(), lmax = shape_.lmax;
  const int radial_size = shape_.radial_size();
  const int logits = shape_.n_focus * shape_.n_heads;
  ld_ = padded(radial_size + logits);

  // Rows of the map from a row of radial features (l, C) to the columns, degree by degree.
  const std::string projection_name = prefix + "radial_hidden_proj.weight";
  const HostMatrix projection = store.contains(projection_name) ? store.matrix(projection_name)
                                                                : HostMatrix::identity(channels);
  std::vector<HostMatrix> from_degree(lmax + 1, HostMatrix(channels, ld_));
  for (int l = 0; l <= lmax; ++l) {
    if (shape_.mixing == RadialMixing::kScale) {
      place(from_degree[l], 0, l * hidden, projection);
    } else {
      const HostMatrix mixer = store.matrix(prefix + "radial_degree_mixer.weight");
      DPA4_EXPECTS(mixer.cols == radial_size);
      place(from_degree[l], 0, 0, projection * mixer.row_range(l * hidden, hidden));
    }
  }
  if (logits > 0) {
    // (Cf, F, H) -> (F Cf, F H), a block for each focus stream.
    const HostMatrix weight = store.matrix(prefix + "adamw_attn_logit_w");
    const std::vector<double> flat = weight.v;
    HostMatrix blocks(hidden, logits);
    for (int i = 0; i < shape_.width; ++i)
      for (int f = 0; f < shape_.n_focus; ++f)
        for (int h = 0; h < shape_.n_heads; ++h)
          blocks(f * shape_.width + i, f * shape_.n_heads + h) =
              flat[static_cast<std::size_t>((i * shape_.n_focus + f) * shape_.n_heads + h)];
    place(from_degree[0], 0, radial_size, projection * blocks);
    std::vector<double> null_logit;
    for (double raw : store.list(prefix + "adamw_attn_z_bias_raw")) {
      null_logit.push_back(std::log((raw > 30 ? raw : std::log1p(std::exp(raw))) + config.eps));
    }
    null_logit_ = store.upload(null_logit);
  }
  HostMatrix conditioning(radial.hidden_width(), ld_);
  type_projection_ = HostMatrix(channels, ld_);
  for (int l = 0; l <= lmax; ++l) {
    conditioning =
        conditioning + radial.output().col_range(l * channels, channels) * from_degree[l];
    type_projection_ = type_projection_ + from_degree[l];
  }
  conditioning_ = make_linear(store, conditioning);
  type_table_ = store.upload(HostMatrix(config.n_types(), ld_));

  if (shape_.mixing == RadialMixing::kMix) {
    channel_basis_ = store.upload(store.list(prefix + "radial_degree_mixer.channel_basis"));
  }
  if (shape_.n_focus > 1) {
    competition_ = store.upload(store.list(prefix + "adamw_focus_compete_w"));
    if (config.edge_norm_focus) {
      focus_scale_ = store.upload(store.list(prefix + "focus_compete_norm.adam_scale"));
    }
  }
  for (int i = 0; i < config.mixing_layers; ++i) {
    layers_.push_back(load_layer(store, prefix, i, i + 1 < config.mixing_layers, shape_));
  }
}

template <class Real>
void Message<Real>::set_type_features(WeightStore<Real>& store, const HostMatrix& type_features) {
  store.replace(type_table_, (type_features * type_projection_).v);
}

template <class Real>
Message<Real>::Buffers::Buffers(Arena<Real>& arena, const Message& m, int count, bool backward) {
  const kernels::MessageShape& shape = m.shape_;
  const std::int64_t n = count;
  const std::int64_t rows = n * shape.n_focus * shape.row_size();
  unit = arena.take(3 * n);
  envelope = arena.take(n);
  wigner = arena.take(n * kernels::wigner_size(shape.lmax));
  condition_work =
      arena.take(m.context_.table->edge_condition_work(m.condition_net(), count, backward));
  conditioned = arena.take(n * m.ld_);
  alpha = arena.take(n * shape.weights());
  if (shape.n_focus > 1) focus = arena.take(n * shape.n_focus);
  u = arena.take(rows);
  work = arena.take(n * m.context_.table->so2_stack_work(shape));
  if (!backward) return;
  const std::int64_t sums_begin = arena.used();
  grad_envelope = arena.take(n);
  torque = arena.take(3 * n);
  grad_gate = arena.take(n);
  grad_conditioned = arena.take(n * m.ld_);
  sums_size = arena.used() - sums_begin;
  if (m.n_layers() > 1) kept = arena.take((m.n_layers() - 1) * rows);
  grad_alpha = arena.take(n * shape.weights());
  if (shape.n_focus > 1) {
    scalars = arena.take(n * shape.hidden());
    grad_focus = arena.take(n * shape.n_focus);
  }
  grad_u = u;
}

template <class Real>
std::int64_t Message<Real>::forward_size(int count) const {
  Arena<Real> arena;
  Buffers(arena, *this, count, false);
  return arena.used();
}

template <class Real>
std::int64_t Message<Real>::backward_size(int count) const {
  Arena<Real> arena;
  Buffers(arena, *this, count, true);
  return arena.used();
}

template <class Real>
kernels::EdgeSlice Message<Real>::slice(const StepEdges& step, const Cohort& cohort,
                                        bool by_src) const {
  kernels::EdgeSlice edges;
  edges.first = cohort.first;
  edges.count = cohort.count;
  edges.order = by_src ? step.by_src : nullptr;
  edges.src = step.src;
  edges.dst = step.dst;
  edges.begin = by_src ? step.src_begin : step.dst_begin;
  edges.node_first = cohort.node_first;
  edges.node_count = cohort.node_count;
  return edges;
}

template <class Real>
void Message<Real>::condition(const StepEdges& step, const kernels::EdgeSlice& edges,
                              const MessageNodes<Real>& nodes, const Buffers& b,
                              bool logits) const {
  kernels::EdgeConditionArgs<Real> condition;
  condition.edges = edges;
  condition.net = condition_net();
  condition.vec = step.vec;
  condition.type = step.type;
  condition.unit = b.unit;
  condition.envelope = b.envelope;
  condition.y = b.conditioned;
  condition.work = b.condition_work;
  context_.table->edge_condition(condition, context_.stream());

  kernels::WignerRowsArgs<Real> rows;
  rows.count = edges.count;
  rows.lmax = shape_.lmax;
  rows.unit = b.unit;
  rows.wigner = b.wigner;
  context_.table->wigner_rows(rows, context_.stream());
  if (!logits || shape_.n_heads == 0) return;

  kernels::AttentionLogitsArgs<Real> args;
  args.edges = edges;
  args.shape = shape_;
  args.query = nodes.query;
  args.key = nodes.key;
  args.radial = b.conditioned + shape_.radial_size();
  args.ld_radial = ld_;
  args.envelope = b.envelope;
  args.gate = nodes.gate;
  args.logit = nodes.logit;
  context_.table->attention_logits(args, context_.stream());
}

template <class Real>
void Message<Real>::prepare(const kernels::EdgeSlice& edges, const MessageNodes<Real>& nodes,
                            const Buffers& b, bool with_stack) const {
  kernels::MessageWeightArgs<Real> weight;
  weight.edges = edges;
  weight.shape = shape_;
  weight.logit = nodes.logit;
  weight.lse = nodes.lse;
  weight.envelope = b.envelope;
  weight.gate = nodes.gate;
  weight.alpha = b.alpha;
  context_.table->message_weight(weight, context_.stream());

  if (!with_stack && shape_.n_focus == 1) return;
  kernels::RotateMixArgs<Real> rotate;
  rotate.edges = edges;
  rotate.shape = shape_;
  rotate.x = nodes.features;
  rotate.wigner = b.wigner;
  rotate.radial = b.conditioned;
  rotate.ld_radial = ld_;
  rotate.channel_basis = channel_basis_;
  rotate.scalars_only = !with_stack;
  rotate.u = with_stack ? b.u : b.scalars;
  context_.table->rotate_mix(rotate, context_.stream());

  if (shape_.n_focus == 1) return;
  kernels::FocusWeightsArgs<Real> focus;
  focus.count = edges.count;
  focus.shape = shape_;
  focus.eps = eps_;
  focus.u = rotate.u;
  focus.scalars_only = rotate.scalars_only;
  focus.scale = focus_scale_;
  focus.competition = competition_;
  focus.weight = b.focus;
  focus.scalars = with_stack ? b.scalars : nullptr;
  context_.table->focus_weights(focus, context_.stream());
}

template <class Real>
void Message<Real>::stack(int count, const Buffers& b, Real* kept, std::int64_t kept_rows,
                          const int* kept_row, bool keep_result) const {
  if (layers_.empty()) return;
  kernels::So2StackArgs<Real> args;
  args.count = count;
  args.shape = shape_;
  args.n_layers = n_layers();
  args.layers = layers_.data();
  args.u = b.u;
  args.kept = kept;
  args.kept_rows = kept_rows;
  args.kept_row = kept_row;
  args.keep_result = keep_result;
  args.work = b.work;
  context_.table->so2_stack(args, context_.stream());
}

template <class Real>
void Message<Real>::aggregate(const kernels::EdgeSlice& edges, const MessageNodes<Real>& nodes,
                              const Buffers& b) const {
  kernels::RotateBackSumArgs<Real> args;
  args.edges = edges;
  args.shape = shape_;
  args.wigner = b.wigner;
  args.u = b.u;
  args.focus_stride = static_cast<std::int64_t>(edges.count) * shape_.row_size();
  args.focus = b.focus;
  args.alpha = b.alpha;
  args.sum = nodes.sum;
  context_.table->rotate_back_sum(args, context_.stream());
}

template <class Real>
void Message<Real>::forward(const StepEdges& step, const Cohorts& cohorts, const Group& group,
                            const MessageNodes<Real>& nodes, const KeptStacks<Real>& kept,
                            Arena<Real> arena) const {
  const std::int64_t row = static_cast<std::int64_t>(shape_.full_rows()) * shape_.hidden();
  context_.machine->zero(nodes.sum + group.node_first * row,
                         static_cast<std::size_t>(group.node_count * row) * sizeof(Real));
  const auto cohort_at = [&](int i) { return cohorts.cohorts()[group.cohort_first + i]; };
  // A destination with more edges than a cohort needs its normaliser before any message is
  // weighted.
  const bool whole = group.cohort_count == 1;
  int most = 0;
  for (int i = 0; i < group.cohort_count; ++i) most = std::max(most, cohort_at(i).count);
  const Buffers b(arena, *this, most, false);
  for (int i = 0; i < group.cohort_count; ++i) {
    condition(step, slice(step, cohort_at(i), false), nodes, b, true);
  }
  if (shape_.n_heads > 0) {
    kernels::AttentionLseArgs<Real> lse;
    lse.node_first = group.node_first;
    lse.node_count = group.node_count;
    lse.n_weights = shape_.weights();
    lse.dst_begin = step.dst_begin;
    lse.logit = nodes.logit;
    lse.null_logit = null_logit_;
    lse.lse = nodes.lse;
    context_.table->attention_lse(lse, context_.stream());
  }
  for (int i = 0; i < group.cohort_count; ++i) {
    const Cohort cohort = cohort_at(i);
    const kernels::EdgeSlice edges = slice(step, cohort, false);
    if (!whole) condition(step, edges, nodes, b, false);
    prepare(edges, nodes, b, true);
    const bool keep = kept.edges > 0;
    stack(edges.count, b, keep ? kept.data : nullptr, kept.edges,
          keep ? kept.row + cohort.first : nullptr, true);
    aggregate(edges, nodes, b);
  }
}

template <class Real>
void Message<Real>::backward(const StepEdges& step, const Cohorts& cohorts, const Group& group,
                             const MessageNodes<Real>& nodes,
                             const MessageGradients<Real>& gradients, const KeptStacks<Real>& kept,
                             Arena<Real> arena) const {
  const kernels::Stream stream = context_.stream();
  const kernels::KernelTable<Real>& table = *context_.table;
  int most = 0;
  for (int i = 0; i < group.cohort_count; ++i) {
    most = std::max(most, cohorts.cohorts()[group.cohort_first + i].count);
  }
  const Buffers b(arena, *this, most, true);
  for (int i = 0; i < group.cohort_count; ++i) {
    const Cohort& cohort = cohorts.cohorts()[group.cohort_first + i];
    const kernels::EdgeSlice edges = slice(step, cohort, true);
    const int count = edges.count;
    condition(step, edges, nodes, b, true);
    const std::int64_t row = shape_.row_size();
    const bool is_kept = n_layers() > 0 && cohort.first + count <= kept.edges;
    prepare(edges, nodes, b, !is_kept);

    const Real* stack_kept = b.kept;
    std::int64_t stack_rows = count;
    const Real* result = b.u;
    if (is_kept) {
      stack_kept = kept.data + cohort.first * row;
      stack_rows = kept.edges;
      result = stack_kept + (n_layers() - 1) * shape_.n_focus * stack_rows * row;
    } else {
      stack(count, b, b.kept, count, nullptr, false);
    }

    context_.machine->zero(b.grad_envelope, static_cast<std::size_t>(b.sums_size) * sizeof(Real));
    Real* grad_gate = nodes.gate != nullptr ? b.grad_gate : nullptr;

    kernels::RotateBackSumBackwardArgs<Real> back;
    back.edges = edges;
    back.shape = shape_;
    back.wigner = b.wigner;
    back.u = result;
    back.focus_stride = is_kept ? stack_rows * row : count * row;
    back.focus = b.focus;
    back.alpha = b.alpha;
    back.grad_sum = gradients.sum;
    back.grad_u = b.grad_u;
    back.grad_alpha = b.grad_alpha;
    back.grad_focus = b.grad_focus;
    back.torque = b.torque;
    table.rotate_back_sum_backward(back, stream);

    kernels::MessageWeightBackwardArgs<Real> weight;
    weight.edges = edges;
    weight.shape = shape_;
    weight.alpha = b.alpha;
    weight.grad_alpha = b.grad_alpha;
    weight.row_sum = gradients.row_sum;
    weight.query = nodes.query;
    weight.envelope = b.envelope;
    weight.gate = nodes.gate;
    weight.grad_logit = nodes.logit;
    weight.grad_radial = b.grad_conditioned + shape_.radial_size();
    weight.ld_radial = ld_;
    weight.grad_envelope = b.grad_envelope;
    weight.grad_gate = grad_gate;
    weight.grad_key = gradients.key;
    table.message_weight_backward(weight, stream);

    if (!layers_.empty()) {
      kernels::So2StackBackwardArgs<Real> stack_args;
      stack_args.count = count;
      stack_args.shape = shape_;
      stack_args.n_layers = n_layers();
      stack_args.layers = layers_.data();
      stack_args.kept = stack_kept;
      stack_args.kept_rows = stack_rows;
      stack_args.grad_u = b.grad_u;
      stack_args.work = b.work;
      table.so2_stack_backward(stack_args, stream);
    }
    if (shape_.n_focus > 1) {
      kernels::FocusWeightsBackwardArgs<Real> focus;
      focus.count = count;
      focus.shape = shape_;
      focus.eps = eps_;
      focus.scalars = b.scalars;
      focus.scale = focus_scale_;
      focus.competition = competition_;
      focus.weight = b.focus;
      focus.grad_weight = b.grad_focus;
      focus.grad_u = b.grad_u;
      table.focus_weights_backward(focus, stream);
    }

    kernels::RotateMixBackwardArgs<Real> rotate;
    rotate.edges = edges;
    rotate.shape = shape_;
    rotate.x = nodes.features;
    rotate.wigner = b.wigner;
    rotate.radial = b.conditioned;
    rotate.ld_radial = ld_;
    rotate.channel_basis = channel_basis_;
    rotate.grad_u = b.grad_u;
    rotate.grad_radial = b.grad_conditioned;
    rotate.torque = b.torque;
    rotate.grad_x = gradients.features;
    table.rotate_mix_backward(rotate, stream);

    kernels::EdgeConditionBackwardArgs<Real> condition;
    condition.edges = edges;
    condition.net = condition_net();
    condition.vec = step.vec;
    condition.type = step.type;
    condition.envelope = b.envelope;
    condition.grad_y = b.grad_conditioned;
    condition.grad_envelope = b.grad_envelope;
    condition.torque = b.torque;
    condition.grad_vec = gradients.vec;
    condition.work = b.condition_work;
    table.edge_condition_backward(condition, stream);
    if (grad_gate != nullptr) {
      kernels::SourceGateSumArgs<Real> gate;
      gate.edges = edges;
      gate.grad = grad_gate;
      gate.grad_gate = gradients.gate;
      table.source_gate_sum(gate, stream);
    }
  }
}

template class Message<float>;
template class Message<double>;

}  // namespace dpa4::native
