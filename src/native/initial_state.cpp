// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/initial_state.h"

#include <algorithm>
#include <cmath>

namespace dpa4::native {

namespace {

kernels::EdgeSlice slice_of(const StepEdges& step, const Cohort& cohort, bool by_src) {
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

}  // namespace

template <class Real>
InitialState<Real>::InitialState(const EngineContext<Real>& context, WeightStore<Real>& store,
                                 const model::ModelConfig& config, const RadialNet<Real>& radial)
    : context_(context),
      radial_(radial),
      seeded_(config.use_env_seed),
      lmax_(config.init_lmax),
      channels_(config.channels),
      eps_(config.eps),
      degree_floor_(config.format_version >= 1.1 ? 0.25 : config.eps) {
  type_table_ = store.upload(HostMatrix(config.n_types(), channels_));
  if (!seeded_) return;
  const std::string prefix = "descriptor.env_seed_embedding.";
  zonal_ = make_linear(store, radial.output().col_range(channels_, lmax_ * channels_));
  const Linear<Real> first = make_linear(store, store.matrix(prefix + "rbf_proj_layer1.matrix"));
  first_ = {first.in, first.out, first.w, first.wt, nullptr};
  // The second layer has no activation, so it is multiplied into the third; the types' part of the
  // third layer's input becomes a table.
  const HostMatrix projection = store.matrix(prefix + "rbf_proj_layer2.matrix");
  const HostMatrix hidden = store.matrix(prefix + "g_layer1.matrix");
  HostMatrix types = store.matrix(prefix + "env_type_embed.adam_type_embedding");
  types = types.row_range(0, config.n_types());
  second_ = make_linear(store, projection * hidden.row_range(0, projection.cols));
  src_table_ = store.upload(types * hidden.row_range(projection.cols, types.cols));
  dst_table_ = store.upload(types * hidden.row_range(projection.cols + types.cols, types.cols));
  third_ = make_linear(store, store.matrix(prefix + "g_layer2.matrix"));
  film_ = make_linear(store, store.matrix(prefix + "output_proj.matrix"));
  embed_ = third_.out;
  axes_ = film_.in / embed_;
  if (config.edge_norm_film) {
    scale_norm_ = store.upload(store.list("descriptor.film_scale_norm.adam_scale"));
    shift_norm_ = store.upload(store.list("descriptor.film_shift_norm.adam_scale"));
  }
  scale_strength_ = std::exp(store.list("descriptor.film_scale_strength_log")[0]);
  shift_strength_ = std::exp(store.list("descriptor.film_shift_strength_log")[0]);
}

template <class Real>
void InitialState<Real>::set_type_features(WeightStore<Real>& store,
                                           const HostMatrix& type_features) {
  store.replace(type_table_, type_features.v);
}

template <class Real>
InitialState<Real>::EdgeBuffers::EdgeBuffers(Arena<Real>& arena, const InitialState& s, int count,
                                             bool backward) {
  const std::int64_t n = count;
  if (!s.seeded_) {
    radial = typename RadialNet<Real>::Buffers(arena, s.radial_, count, s.lmax_, backward);
  } else {
    radial.length = arena.take(n);
    radial.unit = arena.take(3 * n);
    radial.envelope = arena.take(n);
    radial.wigner = arena.take(n * kernels::wigner_size(s.lmax_));
    const kernels::KernelTable<Real>& table = *s.context_.table;
    zonal_work = arena.take(table.edge_condition_work(s.zonal_net(), count, backward));
    hidden_work = arena.take(table.edge_condition_work(s.hidden_net(), count, backward));
    zonal = arena.take(n * s.lmax_ * s.channels_);
    hidden = arena.take(n * s.second_.out);
    active = arena.take(n * s.second_.out);
    feature = arena.take(n * s.embed_);
  }
  if (!backward) return;
  if (s.seeded_) {
    radial.grad_envelope = arena.take(n);
    radial.torque = arena.take(3 * n);
  }
  grad_length = arena.take(n);
  grad_unit = arena.take(3 * n);
  grad_gate = arena.take(n);
}

template <class Real>
kernels::EdgeConditionNet<Real> InitialState<Real>::hidden_net() const {
  kernels::EdgeConditionNet<Real> net = radial_.condition_net(zonal_, nullptr);
  net.n_layers = 1;
  net.layers = &first_;
  net.width = second_.out;
  net.w = second_.w;
  net.w_transposed = second_.wt;
  net.src_table = src_table_;
  net.dst_table = dst_table_;
  return net;
}

template <class Real>
std::int64_t InitialState<Real>::edge_size(int count, bool backward) const {
  Arena<Real> arena, gates;
  EdgeBuffers(arena, *this, count, backward);
  typename RadialNet<Real>::Buffers(gates, radial_, count, 0, false);  // of gate_edges_backward
  gates.take(count);
  return std::max(arena.used(), gates.used());
}

template <class Real>
std::int64_t InitialState<Real>::node_size(int count) const {
  Arena<Real> arena;
  if (seeded_) {
    arena.take(static_cast<std::int64_t>(count) * film_.in);
    arena.take(static_cast<std::int64_t>(count) * film_.out);
  }
  return arena.used();
}

template <class Real>
void InitialState<Real>::degree(const StepEdges& step, int first, int count, Real* kappa) const {
  kernels::NodeDegreeArgs<Real> args;
  args.node_first = first;
  args.node_count = count;
  args.dst_begin = step.dst_begin;
  args.shape = radial_.shape();
  args.floor = degree_floor_;
  args.vec = step.vec;
  args.kappa = kappa;
  context_.table->node_degree(args, context_.stream());
}

template <class Real>
void InitialState<Real>::features(const StepEdges& step, const kernels::EdgeSlice& edges,
                                  const EdgeBuffers& b) const {
  const int count = edges.count;
  kernels::EdgeConditionArgs<Real> args;
  args.edges = edges;
  args.net = zonal_net();
  args.vec = step.vec;
  args.type = step.type;
  args.length = b.radial.length;
  args.unit = b.radial.unit;
  args.envelope = b.radial.envelope;
  args.y = b.zonal;
  args.work = b.zonal_work;
  context_.table->edge_condition(args, context_.stream());
  args.net = hidden_net();
  args.y = b.hidden;
  args.work = b.hidden_work;
  context_.table->edge_condition(args, context_.stream());
  kernels::WignerRowsArgs<Real> rows;
  rows.count = count;
  rows.lmax = lmax_;
  rows.unit = b.radial.unit;
  rows.wigner = b.radial.wigner;
  context_.table->wigner_rows(rows, context_.stream());
  kernels::RmsNormSiluArgs<Real> act;
  act.rows = count;
  act.width = second_.out;
  act.x = b.hidden;
  act.y = b.active;
  context_.table->rms_norm_silu(act, context_.stream());
  context_.multiply(count, b.active, third_.in, third_, b.feature, embed_);
}

template <class Real>
void InitialState<Real>::sum_edges(const StepEdges& step, const Cohorts& cohorts,
                                   const Group& group, const InitialNodes<Real>& nodes,
                                   Arena<Real> arena) const {
  if (!seeded_) return;
  const std::int64_t row = static_cast<std::int64_t>(lmax_ + 1) * (lmax_ + 1) * channels_;
  context_.machine->zero(nodes.x + group.node_first * row,
                         static_cast<std::size_t>(group.node_count * row) * sizeof(Real));
  context_.machine->zero(
      nodes.environment + std::int64_t{4} * group.node_first * embed_,
      static_cast<std::size_t>(std::int64_t{4} * group.node_count * embed_) * sizeof(Real));
  for (int i = 0; i < group.cohort_count; ++i) {
    const Cohort& cohort = cohorts.cohorts()[group.cohort_first + i];
    const kernels::EdgeSlice edges = slice_of(step, cohort, false);
    Arena<Real> buffers_arena = arena;
    const EdgeBuffers b(buffers_arena, *this, edges.count, false);
    features(step, edges, b);

    kernels::ZonalSumArgs<Real> zonal;
    zonal.edges = edges;
    zonal.lmax = lmax_;
    zonal.channels = channels_;
    zonal.kappa = nodes.kappa;
    zonal.gate = nodes.gate;
    zonal.factor = radial_.enveloped() ? b.radial.envelope : nullptr;
    zonal.wigner = b.radial.wigner;
    zonal.radial = b.zonal;
    zonal.x = nodes.x;
    context_.table->zonal_sum(zonal, context_.stream());

    kernels::EnvSeedSumArgs<Real> seed;
    seed.edges = edges;
    seed.width = embed_;
    seed.kappa = nodes.kappa;
    seed.gate = nodes.gate;
    seed.length = b.radial.length;
    seed.unit = b.radial.unit;
    seed.envelope = b.radial.envelope;
    seed.feature = b.feature;
    seed.sum = nodes.environment;
    context_.table->env_seed_sum(seed, context_.stream());
  }
}

template <class Real>
void InitialState<Real>::scalars(const StepEdges& step, int first, int count,
                                 const InitialNodes<Real>& nodes, Arena<Real> arena) const {
  const std::int64_t row = static_cast<std::int64_t>(lmax_ + 1) * (lmax_ + 1) * channels_;
  Real* x = nodes.x + first * row;
  if (!seeded_) {
    context_.machine->zero(x, static_cast<std::size_t>(count * row) * sizeof(Real));
    kernels::TypeRowsArgs<Real> rows;
    rows.rows = count;
    rows.width = channels_;
    rows.type = step.type + first;
    rows.table = type_table_;
    rows.y = x;
    rows.ldy = row;
    context_.table->type_rows(rows, context_.stream());
    return;
  }
  Real* gram = arena.take(static_cast<std::int64_t>(count) * film_.in);
  Real* film = arena.take(static_cast<std::int64_t>(count) * film_.out);
  kernels::FilmGramArgs<Real> gram_args;
  gram_args.n_nodes = count;
  gram_args.width = embed_;
  gram_args.axes = axes_;
  gram_args.sum = nodes.environment + std::int64_t{4} * first * embed_;
  gram_args.gram = gram;
  context_.table->film_gram(gram_args, context_.stream());
  context_.multiply(count, gram, film_.in, film_, film, film_.out);
  kernels::FilmApplyArgs<Real> apply;
  apply.n_nodes = count;
  apply.channels = channels_;
  apply.type = step.type + first;
  apply.type_table = type_table_;
  apply.film = film;
  apply.scale_norm = scale_norm_;
  apply.shift_norm = shift_norm_;
  apply.eps = eps_;
  apply.scale_strength = scale_strength_;
  apply.shift_strength = shift_strength_;
  apply.x = x;
  apply.ldx = row;
  context_.table->film_apply(apply, context_.stream());
}

template <class Real>
void InitialState<Real>::scalars_backward(const StepEdges& step, int first, int count,
                                          const InitialNodes<Real>& nodes,
                                          const InitialGradients<Real>& gradients,
                                          Arena<Real> arena) const {
  const std::int64_t row = static_cast<std::int64_t>(lmax_ + 1) * (lmax_ + 1) * channels_;
  const Real* environment = nodes.environment + std::int64_t{4} * first * embed_;
  Real* grad_environment = gradients.environment + std::int64_t{4} * first * embed_;
  kernels::NodeDegreeBackwardArgs<Real> degree;
  if (seeded_) {
    Real* gram = arena.take(static_cast<std::int64_t>(count) * film_.in);
    Real* film = arena.take(static_cast<std::int64_t>(count) * film_.out);
    kernels::FilmGramArgs<Real> gram_args;
    gram_args.n_nodes = count;
    gram_args.width = embed_;
    gram_args.axes = axes_;
    gram_args.sum = environment;
    gram_args.gram = gram;
    context_.table->film_gram(gram_args, context_.stream());
    context_.multiply(count, gram, film_.in, film_, film, film_.out);
    kernels::FilmApplyBackwardArgs<Real> apply;
    apply.n_nodes = count;
    apply.channels = channels_;
    apply.type = step.type + first;
    apply.type_table = type_table_;
    apply.film = film;
    apply.scale_norm = scale_norm_;
    apply.shift_norm = shift_norm_;
    apply.eps = eps_;
    apply.scale_strength = scale_strength_;
    apply.shift_strength = shift_strength_;
    apply.grad_x = gradients.x + first * row;
    apply.ldx = row;
    apply.grad_film = film;
    context_.table->film_apply_backward(apply, context_.stream());
    context_.multiply_transposed(count, film, film_.out, film_, gram, film_.in);
    kernels::FilmGramBackwardArgs<Real> gram_backward;
    gram_backward.n_nodes = count;
    gram_backward.width = embed_;
    gram_backward.axes = axes_;
    gram_backward.sum = environment;
    gram_backward.grad_gram = gram;
    gram_backward.grad_sum = grad_environment;
    context_.table->film_gram_backward(gram_backward, context_.stream());
    degree.width_a = static_cast<int>(row) - channels_;
    degree.ld_a = row;
    degree.value_a = nodes.x + first * row + channels_;
    degree.grad_a = gradients.x + first * row + channels_;
    degree.width_b = 4 * embed_;
    degree.ld_b = 4 * embed_;
    degree.value_b = environment;
    degree.grad_b = grad_environment;
  }
  degree.node_count = count;
  degree.kappa = nodes.kappa + first;
  degree.extra = gradients.kappa != nullptr ? gradients.kappa + first : nullptr;
  degree.grad_degree = gradients.degree + first;
  context_.table->node_degree_backward(degree, context_.stream());
}

template <class Real>
void InitialState<Real>::sum_edges_backward(const StepEdges& step, const Cohorts& cohorts,
                                            const Group& group, const InitialNodes<Real>& nodes,
                                            const InitialGradients<Real>& gradients,
                                            Arena<Real> arena) const {
  const kernels::Stream stream = context_.stream();
  const kernels::KernelTable<Real>& table = *context_.table;
  for (int i = 0; i < group.cohort_count; ++i) {
    const Cohort& cohort = cohorts.cohorts()[group.cohort_first + i];
    const kernels::EdgeSlice edges = slice_of(step, cohort, true);
    const int count = edges.count;
    Arena<Real> buffers_arena = arena;
    const EdgeBuffers b(buffers_arena, *this, count, true);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(Real);
    radial_.clear(b.radial, count);
    // Three arrays, one behind the other, at once.
    const std::int64_t sums = b.grad_gate - b.grad_length + count;
    context_.machine->zero(b.grad_length, static_cast<std::size_t>(sums) * sizeof(Real));
    Real* grad_gate = nodes.gate != nullptr ? b.grad_gate : nullptr;
    if (!seeded_) {
      radial_.geometry(step, edges, lmax_, b.radial);
      context_.machine->zero(b.radial.grad_basis, bytes * radial_.shape().n_radial);
    } else {
      features(step, edges, b);
      kernels::ZonalSumBackwardArgs<Real> zonal;
      zonal.edges = edges;
      zonal.lmax = lmax_;
      zonal.channels = channels_;
      zonal.kappa = nodes.kappa;
      zonal.gate = nodes.gate;
      zonal.factor = radial_.enveloped() ? b.radial.envelope : nullptr;
      zonal.wigner = b.radial.wigner;
      zonal.radial = b.zonal;
      zonal.grad_x = gradients.x;
      zonal.grad_radial = b.zonal;
      zonal.grad_factor = radial_.enveloped() ? b.radial.grad_envelope : nullptr;
      zonal.grad_gate = grad_gate;
      zonal.torque = b.radial.torque;
      table.zonal_sum_backward(zonal, stream);
      kernels::EnvSeedSumBackwardArgs<Real> seed;
      seed.edges = edges;
      seed.width = embed_;
      seed.kappa = nodes.kappa;
      seed.gate = nodes.gate;
      seed.length = b.radial.length;
      seed.unit = b.radial.unit;
      seed.envelope = b.radial.envelope;
      seed.feature = b.feature;
      seed.grad_sum = gradients.environment;
      seed.grad_feature = b.feature;
      seed.grad_length = b.grad_length;
      seed.grad_unit = b.grad_unit;
      seed.grad_envelope = b.radial.grad_envelope;
      seed.grad_gate = grad_gate;
      table.env_seed_sum_backward(seed, stream);

      context_.multiply_transposed(count, b.feature, embed_, third_, b.active, third_.in);
      kernels::RmsNormSiluBackwardArgs<Real> act;
      act.rows = count;
      act.width = second_.out;
      act.x = b.hidden;
      act.grad_y = b.active;
      act.grad_x = b.active;
      table.rms_norm_silu_backward(act, stream);
      kernels::EdgeConditionBackwardArgs<Real> hidden;
      hidden.edges = edges;
      hidden.net = hidden_net();
      hidden.vec = step.vec;
      hidden.type = step.type;
      hidden.envelope = b.radial.envelope;
      hidden.grad_y = b.active;
      hidden.grad_vec = gradients.vec;
      hidden.work = b.hidden_work;
      table.edge_condition_backward(hidden, stream);
    }
    kernels::EdgeDegreeBackwardArgs<Real> degree;
    degree.edges = edges;
    degree.envelope = b.radial.envelope;
    degree.grad_degree = gradients.degree;
    degree.grad_envelope = b.radial.grad_envelope;
    table.edge_degree_backward(degree, stream);
    if (!seeded_) {
      radial_.geometry_backward(step, edges, b.radial, b.grad_length, b.grad_unit, gradients.vec);
    } else {
      kernels::EdgeConditionBackwardArgs<Real> zonal;
      zonal.edges = edges;
      zonal.net = zonal_net();
      zonal.vec = step.vec;
      zonal.type = step.type;
      zonal.envelope = b.radial.envelope;
      zonal.grad_y = b.zonal;
      zonal.grad_envelope = b.radial.grad_envelope;
      zonal.grad_length = b.grad_length;
      zonal.grad_unit = b.grad_unit;
      zonal.torque = b.radial.torque;
      zonal.grad_vec = gradients.vec;
      zonal.work = b.zonal_work;
      table.edge_condition_backward(zonal, stream);
    }
    if (grad_gate != nullptr) {
      kernels::SourceGateSumArgs<Real> gate;
      gate.edges = edges;
      gate.grad = grad_gate;
      gate.grad_gate = gradients.gate;
      table.source_gate_sum(gate, stream);
    }
  }
}

template <class Real>
void InitialState<Real>::gate_edges_backward(const StepEdges& step, const Cohorts& cohorts,
                                             const Group& group, const Real* gate,
                                             const Real* grad_gate, Real* grad_vec,
                                             Arena<Real> arena) const {
  for (int i = 0; i < group.cohort_count; ++i) {
    const Cohort& cohort = cohorts.cohorts()[group.cohort_first + i];
    const kernels::EdgeSlice edges = slice_of(step, cohort, true);
    Arena<Real> buffers_arena = arena;
    const typename RadialNet<Real>::Buffers radial(buffers_arena, radial_, edges.count, 0, false);
    Real* grad_length = buffers_arena.take(edges.count);
    radial_.geometry(step, edges, 0, radial);
    context_.machine->zero(grad_length, static_cast<std::size_t>(edges.count) * sizeof(Real));
    kernels::SourceGateBackwardArgs<Real> args;
    args.edges = edges;
    args.shape = radial_.shape();
    args.length = radial.length;
    args.gate = gate;
    args.grad_gate = grad_gate;
    args.grad_length = grad_length;
    context_.table->source_gate_backward(args, context_.stream());
    kernels::EdgeGeometryBackwardArgs<Real> geometry;
    geometry.edges = edges;
    geometry.shape = radial_.shape();
    geometry.vec = step.vec;
    geometry.frequencies = radial_.frequencies();
    geometry.grad_length = grad_length;
    geometry.grad_vec = grad_vec;
    context_.table->edge_geometry_backward(geometry, context_.stream());
  }
}

template class InitialState<float>;
template class InitialState<double>;

}  // namespace dpa4::native
