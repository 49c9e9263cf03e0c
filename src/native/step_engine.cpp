// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/step_engine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/base/error.h"
#include "src/math/activation.h"
#include "src/model/elements.h"

namespace dpa4::native {

namespace {

/// Fraction of the free memory that kept pre-activations may take when the user gives no budget.
constexpr double kDefaultBudget = 0.25;

/// A cohort should hold the edges of a destination: one that is cut in two is looked at twice.
constexpr int kUsualNeighbors = 128;

}  // namespace

template <class Real>
StepEngine<Real>::StepEngine(const model::ModelConfig& config, const model::Weights& weights,
                             const model::EvaluatorOptions& options, Backend<Real> backend)
    : config_(config),
      options_(options),
      backend_(std::move(backend)),
      context_{backend_.table, backend_.machine.get()},
      store_(weights, *backend_.machine),
      radial_(context_, store_, config),
      initial_(context_, store_, config, radial_),
      readout_(context_, store_, config),
      type_(*backend_.machine),
      src_(*backend_.machine),
      dst_(*backend_.machine),
      dst_begin_(*backend_.machine),
      by_src_order_(*backend_.machine),
      src_begin_(*backend_.machine),
      kept_row_(*backend_.machine),
      vec_(*backend_.machine),
      aparam_(*backend_.machine),
      kappa_(*backend_.machine),
      gate_partial_(*backend_.machine),
      gate_(*backend_.machine),
      environment_(*backend_.machine),
      features_(*backend_.machine),
      query_(*backend_.machine),
      key_(*backend_.machine),
      logit_(*backend_.machine),
      grad_x_(*backend_.machine),
      grad_sum_(*backend_.machine),
      row_sum_(*backend_.machine),
      grad_features_(*backend_.machine),
      grad_query_(*backend_.machine),
      grad_key_(*backend_.machine),
      grad_environment_(*backend_.machine),
      grad_degree_(*backend_.machine),
      grad_kappa_(*backend_.machine),
      grad_gate_(*backend_.machine),
      grad_vec_(*backend_.machine),
      energy_(*backend_.machine),
      force_(*backend_.machine),
      node_virial_(*backend_.machine),
      kept_(*backend_.machine) {
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const int index = static_cast<int>(i);
    Message<Real> message(context_, store_, config, index, radial_);
    const kernels::MessageShape shape = message.shape();
    blocks_.push_back(std::make_unique<Block>(
        Block{std::move(message), NodeUpdate<Real>(context_, store_, config, index, shape)}));
    inputs_.emplace_back(*backend_.machine);
    sums_.emplace_back(*backend_.machine);
    lses_.emplace_back(*backend_.machine);
  }
  if (blocks_.empty()) inputs_.emplace_back(*backend_.machine);

  type_embedding_ =
      store_.matrix("descriptor.type_embedding.adam_type_embedding").row_range(0, config.n_types());
  if (config.add_chg_spin_ebd) {
    const std::string prefix = "descriptor.charge_spin_embedding.";
    charge_table_ = store_.matrix(prefix + "charge_embedding.adam_type_embedding");
    spin_table_ = store_.matrix(prefix + "spin_embedding.adam_type_embedding");
    charge_spin_mix_ = store_.matrix(prefix + "mix_layer.matrix");
    charge_spin_bias_ = store_.list(prefix + "mix_layer.bias");
  }
  if (config.bridging_zbl) {
    std::vector<int> included;
    for (int t = 0; t < config.n_types(); ++t) {
      atomic_number_.push_back(model::atomic_number(config.type_map[t]));
      const auto& excluded = config.atom_exclude_types;
      included.push_back(std::find(excluded.begin(), excluded.end(), t) == excluded.end() ? 1 : 0);
    }
    atomic_number_table_ = store_.template upload<double>(atomic_number_);
    zbl_included_ = store_.upload_as_is(included);
  }
  store_.forget_weights();

  const kernels::Machine& machine = *backend_.machine;
  const std::int64_t real = sizeof(Real);
  cohort_ = std::min(
      options.cohort,
      std::max(machine.preferred_count(lane_size(1, 0) * real, options.cohort), kUsualNeighbors));
  chunk_ = machine.preferred_count(lane_size(0, 1) * real, 1 << 16);
  lane_elements_ = lane_size(cohort_, chunk_);
}

template <class Real>
std::int64_t StepEngine<Real>::lane_size(int edges, int nodes) const {
  std::int64_t size = 0;
  if (edges > 0) {
    size = std::max(initial_.edge_size(edges, false), initial_.edge_size(edges, true));
  }
  if (nodes > 0) size = std::max({size, initial_.node_size(nodes), readout_.size(nodes)});
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (edges > 0) {
      size = std::max({size, blocks_[i]->message.forward_size(edges),
                       blocks_[i]->message.backward_size(edges)});
    }
    if (nodes > 0) {
      std::int64_t update = blocks_[i]->update.update_size(nodes, true);
      if (i + 1 == blocks_.size()) update += readout_.size(nodes);
      size = std::max({size, update, blocks_[i]->update.features_size(nodes)});
    }
  }
  return size;
}

template <class Real>
std::int64_t StepEngine<Real>::row(std::size_t block) const {
  const int lmax = blocks_.empty() ? config_.init_lmax : config_.blocks[block].lmax;
  return static_cast<std::int64_t>(lmax + 1) * (lmax + 1) * config_.channels;
}

template <class Real>
Real* StepEngine<Real>::input(std::size_t block) const {
  return inputs_[block].data();
}

template <class Real>
void StepEngine<Real>::run(int n, const Work& work) {
  struct Context {
    StepEngine* engine;
    const Work* work;
  } context{this, &work};
  backend_.machine->for_each(
      n,
      [](void* opaque, int lane, int i) {
        const Context& c = *static_cast<Context*>(opaque);
        Memory<Real>& memory = c.engine->lanes_[static_cast<std::size_t>(lane)];
        (*c.work)(Arena<Real>(memory.data(), c.engine->lane_elements_), i);
      },
      &context);
}

template <class Real>
void StepEngine<Real>::for_groups(const Cohorts& cohorts, const Work& work) {
  run(static_cast<int>(cohorts.groups().size()), work);
}

template <class Real>
void StepEngine<Real>::for_chunks(
    int n_nodes, const std::function<void(Arena<Real>, int first, int count)>& work) {
  const int chunks = (n_nodes + chunk_ - 1) / chunk_;
  run(chunks, [&](Arena<Real> arena, int i) {
    const int first = i * chunk_;
    work(arena, first, std::min(chunk_, n_nodes - first));
  });
}

template <class Real>
void StepEngine<Real>::exchange(model::HaloExchange& halo, bool forward, void* rows, int width,
                                bool doubles) const {
  model::NodeRows table;
  table.data = rows;
  table.n_nodes = step_.n_nodes;
  table.width = width;
  table.type = doubles || sizeof(Real) == 8 ? model::NodeRows::Type::kFloat64
                                            : model::NodeRows::Type::kFloat32;
  table.stream = context_.stream();
  kernels::Machine& machine = *backend_.machine;
  const bool stage = !machine.host_memory() && !halo.takes_device_rows();
  const std::size_t number = table.type == model::NodeRows::Type::kFloat64 ? 8 : 4;
  const std::size_t bytes =
      static_cast<std::size_t>(table.n_nodes) * static_cast<std::size_t>(width) * number;
  std::vector<std::byte> host(stage ? bytes : 0);
  if (stage) {
    machine.download(host.data(), rows, bytes);
    table.data = host.data();
  } else if (!machine.host_memory()) {
    table.space = model::NodeRows::Space::kDevice;
  }
  if (forward) {
    halo.forward(table);
  } else {
    halo.reverse(table);
  }
  if (stage) machine.upload(rows, host.data(), bytes);
}

/// Features of one type under a total charge and a spin multiplicity.
template <class Real>
HostMatrix StepEngine<Real>::type_features(int type,
                                           const std::array<double, 2>& charge_spin) const {
  HostMatrix features = type_embedding_.row_range(type, 1);
  const int charge = static_cast<int>(charge_spin[0]) + charge_table_.rows / 2;
  const int spin = static_cast<int>(charge_spin[1]);
  if (charge < 0 || charge >= charge_table_.rows || spin < 0 || spin >= spin_table_.rows) {
    throw InputError("charge_spin: charge " + std::to_string(static_cast<int>(charge_spin[0])) +
                     " and multiplicity " + std::to_string(spin) +
                     " are outside the model's tables (charge -100..99, multiplicity 0..99)");
  }
  HostMatrix both(1, 2 * config_.channels);
  place(both, 0, 0, charge_table_.row_range(charge, 1));
  place(both, 0, config_.channels, spin_table_.row_range(spin, 1));
  const HostMatrix mixed = both * charge_spin_mix_;
  for (int c = 0; c < features.cols; ++c) {
    const double value = mixed(0, c) + charge_spin_bias_[static_cast<std::size_t>(c)];
    features(0, c) += math::silu(value);
  }
  return features;
}

template <class Real>
void StepEngine<Real>::set_type_features(const HostMatrix& features) {
  initial_.set_type_features(store_, features);
  for (const auto& block : blocks_) block->message.set_type_features(store_, features);
}

template <class Real>
void StepEngine<Real>::make_conditions(const model::Conditions& conditions) {
  if (conditions_made_ && conditions.fparam == conditions_.fparam &&
      conditions.charge_spin == conditions_.charge_spin) {
    return;
  }
  HostMatrix features = type_embedding_;
  if (config_.add_chg_spin_ebd) {
    const auto pair = conditions.charge_spin ? conditions.charge_spin : config_.default_chg_spin;
    if (!pair) throw InputError("the model needs charge_spin: total charge and spin multiplicity");
    for (int t = 0; t < features.rows; ++t) place(features, t, 0, type_features(t, *pair));
  }
  readout_.set_conditions(store_, conditions);
  if (config_.vacuum_ref) remove_vacuum(features);
  set_type_features(features);
  conditions_ = conditions;
  conditions_made_ = true;
}

/// Makes the network's energy of isolated atoms zero: evaluates one atom of each type without
/// edges. With charge and spin, an isolated atom is neutral and has the spin of its ground state.
template <class Real>
void StepEngine<Real>::remove_vacuum(const HostMatrix& features) {
  const int n = config_.n_types();
  HostMatrix isolated_features = features;
  if (config_.add_chg_spin_ebd) {
    for (int t = 0; t < n; ++t) {
      const int z = model::atomic_number(config_.type_map[static_cast<std::size_t>(t)]);
      if (z == 0) {
        throw InputError("vacuum_ref: type_map entry '" +
                         config_.type_map[static_cast<std::size_t>(t)] + "' is no element");
      }
      place(isolated_features, t, 0, type_features(t, {0.0, model::unpaired_electrons(z) + 1.0}));
    }
  }
  set_type_features(isolated_features);
  const std::vector<double>& base = readout_.type_energy();
  readout_.set_type_energy(store_, base);
  std::vector<int> type(static_cast<std::size_t>(n)), begin(static_cast<std::size_t>(n) + 1, 0);
  for (int t = 0; t < n; ++t) type[static_cast<std::size_t>(t)] = t;
  model::Structure structure;
  structure.type = TensorView<const int, 1>(type.data(), n);
  structure.edges.n_owned = structure.edges.n_nodes = n;
  structure.edges.dst_begin = TensorView<const int, 1>(begin.data(), n + 1);
  structure.edges.src_begin = TensorView<const int, 1>(begin.data(), n + 1);
  model::NoHalo halo;
  model::Evaluation isolated;
  evaluate_structure(structure, halo, {}, isolated);
  std::vector<double> energy = base;
  for (std::size_t t = 0; t < energy.size(); ++t) energy[t] -= isolated.atom_energy[t] - base[t];
  readout_.set_type_energy(store_, energy);
}

template <class Real>
void StepEngine<Real>::prepare_step(const model::Structure& structure, model::HaloExchange& halo) {
  const graph::EdgeList& edges = structure.edges;
  step_.n_owned = edges.n_owned;
  step_.n_nodes = edges.n_nodes;
  step_.n_edges = edges.n_edges();
  step_.type = type_.update(structure.type.data(), step_.n_nodes);
  step_.src = src_.update(edges.src.data(), step_.n_edges);
  step_.dst = dst_.update(edges.dst.data(), step_.n_edges);
  step_.vec = vec_.update(edges.vec.data(), std::int64_t{3} * step_.n_edges);
  step_.dst_begin = dst_begin_.update(edges.dst_begin.data(), step_.n_owned + 1);
  step_.by_src = by_src_order_.update(edges.by_src.data(), step_.n_edges);
  step_.src_begin = src_begin_.update(edges.src_begin.data(), step_.n_nodes + 1);
  by_dst_.build(edges.dst_begin.data(), step_.n_owned, cohort_);
  by_src_.build(edges.src_begin.data(), step_.n_nodes, cohort_);

  const int n_aparam = readout_.n_aparam();
  if (n_aparam > 0) {
    if (structure.aparam.extent(0) != step_.n_owned || structure.aparam.extent(1) != n_aparam) {
      throw InputError("the model needs " + std::to_string(n_aparam) +
                       " atomic parameters (aparam) for every atom");
    }
    host_aparam_ = readout_.normalized_aparam(structure.aparam.data(), step_.n_owned);
    aparam_.update(host_aparam_.data(), static_cast<std::int64_t>(host_aparam_.size()));
  }

  reserve_nodes_and_edges();
  choose_kept_edges();
  if (kept_edges_ > 0) {
    host_kept_row_.assign(static_cast<std::size_t>(step_.n_edges), -1);
    for (int p = 0; p < kept_edges_; ++p) host_kept_row_[edges.by_src(p)] = p;
    kept_row_.update(host_kept_row_.data(), step_.n_edges);
  }
  if (halo.active()) {
    int width = 9;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      width = std::max(width, static_cast<int>(row(i)));
    halo.reserve(width);
  }
}

template <class Real>
void StepEngine<Real>::reserve_nodes_and_edges() {
  const std::int64_t nodes = std::max(step_.n_nodes, 1), owned = std::max(step_.n_owned, 1);
  const std::int64_t edges = std::max(step_.n_edges, 1);
  if (nodes > reserved_nodes_ || edges > reserved_edges_) {
    refuse_what_does_not_fit();
    reserved_nodes_ = std::max(reserved_nodes_, nodes);
    reserved_edges_ = std::max(reserved_edges_, edges);
  }
  std::int64_t widest = row(0), hidden = 1, hidden_row = 1, weights = 1;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const kernels::MessageShape& shape = blocks_[i]->message.shape();
    inputs_[i].reserve(nodes * row(i));
    sums_[i].reserve(owned * blocks_[i]->update.hidden_row());
    lses_[i].reserve(owned * shape.weights());
    hidden = std::max<std::int64_t>(hidden, shape.hidden());
    hidden_row = std::max<std::int64_t>(hidden_row, blocks_[i]->update.hidden_row());
    weights = std::max<std::int64_t>(weights, shape.weights());
  }
  if (blocks_.empty()) inputs_[0].reserve(nodes * row(0));
  kappa_.reserve(owned);
  if (config_.bridging_zbl) {
    gate_partial_.reserve(2 * nodes);
    gate_.reserve(nodes);
    grad_gate_.reserve(nodes);
  }
  environment_.reserve(owned * 4 * std::max(initial_.environment_width(), 1));
  grad_environment_.reserve(owned * 4 * std::max(initial_.environment_width(), 1));
  grad_degree_.reserve(owned);
  grad_kappa_.reserve(owned);
  grad_x_.reserve(nodes * widest);
  if (!blocks_.empty()) {
    features_.reserve(nodes * hidden_row);
    query_.reserve(nodes * hidden);
    key_.reserve(nodes * hidden);
    logit_.reserve(edges * weights);
    grad_sum_.reserve(owned * hidden_row);
    row_sum_.reserve(owned * weights);
    grad_features_.reserve(nodes * hidden_row);
    grad_query_.reserve(nodes * hidden);
    grad_key_.reserve(nodes * hidden);
  }
  grad_vec_.reserve(3 * edges);
  energy_.reserve(owned);
  force_.reserve(3 * nodes);
  node_virial_.reserve(9 * nodes);
  const std::size_t lanes = static_cast<std::size_t>(backend_.machine->lanes());
  while (lanes_.size() < lanes) lanes_.emplace_back(*backend_.machine);
  for (std::size_t i = 0; i < lanes; ++i) lanes_[i].reserve(lane_elements_);
}

/// Throws before anything is allocated if the plan needs more than there is.
template <class Real>
void StepEngine<Real>::refuse_what_does_not_fit() {
  kept_.release();  // made again with what is left
  const model::MemoryPlan plan = memory_plan();
  const std::int64_t held = reserved_nodes_ > 0 ? plan.total(reserved_nodes_, reserved_edges_) : 0;
  const std::int64_t there_is = backend_.machine->free_bytes() + held;
  if (plan.total(step_.n_nodes, step_.n_edges) <= there_is) return;
  const double per_atom =
      static_cast<double>(plan.bytes_per_atom) +
      static_cast<double>(plan.bytes_per_edge) * step_.n_edges / std::max(step_.n_nodes, 1);
  const double most = std::max(0.0, static_cast<double>(there_is - plan.fixed_bytes) / per_atom);
  throw InputError("not enough memory for " + std::to_string(step_.n_nodes) + " atoms with " +
                   std::to_string(step_.n_edges) +
                   " edges: " + std::to_string(plan.total(step_.n_nodes, step_.n_edges) >> 20) +
                   " MiB are needed and " + std::to_string(there_is >> 20) +
                   " MiB free; at this density about " +
                   std::to_string(static_cast<std::int64_t>(most)) +
                   " atoms fit; use more ranks, a smaller cohort or fewer threads");
}

template <class Real>
void StepEngine<Real>::choose_kept_edges() {
  kept_edges_ = 0;
  std::int64_t per_edge = 0;
  for (const auto& block : blocks_) {
    if (block->message.n_layers() > 0) {
      per_edge += block->message.kept_size() * static_cast<std::int64_t>(sizeof(Real));
    }
  }
  if (per_edge == 0) return;
  std::int64_t room = kept_.bytes();
  if (options_.memory) {
    room = *options_.memory - memory_plan().total(step_.n_nodes, step_.n_edges);
  } else if (room < per_edge * step_.n_edges) {
    room = static_cast<std::int64_t>(
        kDefaultBudget / std::max(1, options_.sharers) *
        static_cast<double>(backend_.machine->free_bytes() + kept_.bytes()));
  }
  const std::int64_t limit = std::clamp<std::int64_t>(room / per_edge, 0, step_.n_edges);
  for (const Cohort& cohort : by_src_.cohorts()) {
    if (cohort.first + cohort.count > limit) break;
    kept_edges_ = cohort.first + cohort.count;
  }
  kept_.reserve(kept_edges_ * (per_edge / static_cast<std::int64_t>(sizeof(Real))));
}

template <class Real>
MessageNodes<Real> StepEngine<Real>::message_nodes(std::size_t block) const {
  MessageNodes<Real> nodes;
  nodes.features = features_.data();
  nodes.query = query_.data();
  nodes.key = key_.data();
  nodes.gate = config_.bridging_zbl ? gate_.data() : nullptr;
  nodes.logit = logit_.data();
  nodes.lse = lses_[block].data();
  nodes.sum = sums_[block].data();
  return nodes;
}

template <class Real>
KeptStacks<Real> StepEngine<Real>::kept_stacks(std::size_t block) const {
  KeptStacks<Real> kept;
  if (kept_edges_ == 0 || blocks_[block]->message.n_layers() == 0) return kept;
  kept.edges = kept_edges_;
  kept.row = kept_row_.data();
  kept.data = kept_.data();
  for (std::size_t i = 0; i < block; ++i) {
    if (blocks_[i]->message.n_layers() > 0) {
      kept.data += kept_edges_ * blocks_[i]->message.kept_size();
    }
  }
  return kept;
}

template <class Real>
NodeRange<Real> StepEngine<Real>::node_range(std::size_t block, int first, int count) const {
  const std::int64_t hidden_row = blocks_[block]->update.hidden_row();
  NodeRange<Real> nodes;
  nodes.count = count;
  nodes.x = input(block) + first * row(block);
  nodes.features = features_.data() + first * hidden_row;
  nodes.sum = sums_[block].data() + first * hidden_row;
  nodes.kappa = kappa_.data() + first;
  return nodes;
}

template <class Real>
InitialNodes<Real> StepEngine<Real>::initial_nodes() const {
  InitialNodes<Real> nodes;
  nodes.kappa = kappa_.data();
  nodes.gate = config_.bridging_zbl ? gate_.data() : nullptr;
  nodes.environment = environment_.data();
  nodes.x = input(0);
  return nodes;
}

template <class Real>
void StepEngine<Real>::make_gate(model::HaloExchange& halo) {
  for_chunks(step_.n_nodes, [&](Arena<Real>, int first, int count) {
    kernels::SourceGatePartialArgs<Real> args;
    args.node_first = first;
    args.node_count = count;
    args.src_begin = step_.src_begin;
    args.by_src = step_.by_src;
    args.shape = radial_.shape();
    args.vec = step_.vec;
    args.partial = gate_partial_.data();
    context_.table->source_gate_partial(args, context_.stream());
  });
  if (halo.active()) {
    exchange(halo, false, gate_partial_.data(), 2, false);
    exchange(halo, true, gate_partial_.data(), 2, false);
  }
  kernels::SourceGateArgs<Real> args;
  args.node_count = step_.n_nodes;
  args.partial = gate_partial_.data();
  args.gate = gate_.data();
  context_.table->source_gate(args, context_.stream());
}

template <class Real>
void StepEngine<Real>::make_initial_state(model::HaloExchange& halo) {
  if (config_.bridging_zbl) make_gate(halo);
  for_chunks(step_.n_owned, [&](Arena<Real>, int first, int count) {
    initial_.degree(step_, first, count, kappa_.data());
  });
  const InitialNodes<Real> nodes = initial_nodes();
  if (initial_.seeded()) {
    for_groups(by_dst_, [&](Arena<Real> arena, int i) {
      initial_.sum_edges(step_, by_dst_, by_dst_.groups()[i], nodes, arena);
    });
  }
  const int filled = initial_.seeded() ? step_.n_owned : step_.n_nodes;
  for_chunks(filled, [&](Arena<Real> arena, int first, int count) {
    initial_.scalars(step_, first, count, nodes, arena);
  });
}

template <class Real>
void StepEngine<Real>::make_features(std::size_t block) {
  const NodeUpdate<Real>& update = blocks_[block]->update;
  const int hidden = blocks_[block]->message.shape().hidden();
  for_chunks(step_.n_nodes, [&](Arena<Real> arena, int first, int count) {
    update.make_features(count, input(block) + first * row(block),
                         features_.data() + first * static_cast<std::int64_t>(update.hidden_row()),
                         query_.data() + first * static_cast<std::int64_t>(hidden),
                         key_.data() + first * static_cast<std::int64_t>(hidden), arena);
  });
}

template <class Real>
void StepEngine<Real>::run_messages(std::size_t block) {
  const MessageNodes<Real> nodes = message_nodes(block);
  const KeptStacks<Real> kept = kept_stacks(block);
  for_groups(by_dst_, [&](Arena<Real> arena, int i) {
    blocks_[block]->message.forward(step_, by_dst_, by_dst_.groups()[i], nodes, kept, arena);
  });
}

/// Last block's node part, read-out and the beginning of the backward pass, chunk by chunk: nothing
/// of the node part is made twice.
template <class Real>
void StepEngine<Real>::finish_forward() {
  const bool bare = blocks_.empty();
  const std::size_t last = bare ? 0 : blocks_.size() - 1;
  const std::int64_t widest = row(0);
  for_chunks(step_.n_owned, [&](Arena<Real> arena, int first, int count) {
    Real* grad = grad_x_.data() + first * widest;
    const Real* aparam =
        readout_.n_aparam() > 0
            ? aparam_.data() + static_cast<std::int64_t>(first) * readout_.n_aparam()
            : nullptr;
    if (bare) {
      readout_.evaluate(count, step_.type + first, input(0) + first * widest, widest, aparam,
                        energy_.data() + first, grad, widest, arena);
      return;
    }
    const NodeUpdate<Real>& update = blocks_[last]->update;
    const typename NodeUpdate<Real>::Buffers buffers(arena, update, count, true);
    const NodeRange<Real> nodes = node_range(last, first, count);
    update.update(nodes, buffers);
    readout_.evaluate(count, step_.type + first, buffers.state.back(), row(last), aparam,
                      energy_.data() + first, grad, widest, arena);
    const int weights = blocks_[last]->message.shape().weights();
    const std::int64_t hidden_row = update.hidden_row();
    update.update_backward(nodes, buffers, grad, widest, grad_sum_.data() + first * hidden_row,
                           row_sum_.data() + static_cast<std::int64_t>(first) * weights,
                           grad_features_.data() + first * hidden_row, grad_kappa_.data() + first);
  });
}

template <class Real>
void StepEngine<Real>::block_backward(std::size_t block, model::HaloExchange& halo) {
  const Message<Real>& message = blocks_[block]->message;
  const NodeUpdate<Real>& update = blocks_[block]->update;
  const kernels::MessageShape& shape = message.shape();
  const std::int64_t hidden_row = update.hidden_row(), hidden = shape.hidden();
  const std::int64_t widest = row(0);
  kernels::Machine& machine = *backend_.machine;
  if (block + 1 < blocks_.size()) {
    make_features(block);
    for_chunks(step_.n_owned, [&](Arena<Real> arena, int first, int count) {
      const typename NodeUpdate<Real>::Buffers buffers(arena, update, count, true);
      const NodeRange<Real> nodes = node_range(block, first, count);
      update.update(nodes, buffers);
      update.update_backward(nodes, buffers, grad_x_.data() + first * widest, widest,
                             grad_sum_.data() + first * hidden_row,
                             row_sum_.data() + static_cast<std::int64_t>(first) * shape.weights(),
                             grad_features_.data() + first * hidden_row,
                             grad_kappa_.data() + first);
    });
  }
  const std::int64_t copies = step_.n_nodes - step_.n_owned;
  machine.zero(grad_features_.data() + step_.n_owned * hidden_row,
               static_cast<std::size_t>(copies * hidden_row) * sizeof(Real));
  machine.zero(grad_key_.data(), static_cast<std::size_t>(step_.n_nodes * hidden) * sizeof(Real));
  machine.zero(grad_query_.data() + step_.n_owned * hidden,
               static_cast<std::size_t>(copies * hidden) * sizeof(Real));

  const MessageNodes<Real> nodes = message_nodes(block);
  const KeptStacks<Real> kept = kept_stacks(block);
  MessageGradients<Real> gradients;
  gradients.sum = grad_sum_.data();
  gradients.row_sum = row_sum_.data();
  gradients.features = grad_features_.data();
  gradients.key = grad_key_.data();
  gradients.gate = config_.bridging_zbl ? grad_gate_.data() : nullptr;
  gradients.vec = grad_vec_.data();
  for_groups(by_src_, [&](Arena<Real> arena, int i) {
    message.backward(step_, by_src_, by_src_.groups()[i], nodes, gradients, kept, arena);
  });
  for_chunks(step_.n_nodes, [&](Arena<Real> arena, int first, int count) {
    const int owned = std::clamp(step_.n_owned - first, 0, count);
    if (shape.n_heads > 0 && owned > 0) {
      kernels::QueryGradientArgs<Real> query;
      query.node_first = first;
      query.node_count = owned;
      query.shape = shape;
      query.dst_begin = step_.dst_begin;
      query.src = step_.src;
      query.grad_logit = logit_.data();
      query.key = key_.data();
      query.grad_query = grad_query_.data();
      context_.table->query_gradient(query, context_.stream());
    }
    update.features_backward(
        count, input(block) + first * row(block), features_.data() + first * hidden_row,
        grad_features_.data() + first * hidden_row, grad_query_.data() + first * hidden,
        grad_key_.data() + first * hidden, grad_x_.data() + first * widest, widest, arena);
  });
  // Copies of block 0 without seed hold constants; elsewhere their gradient belongs to the owner.
  if (halo.active() && (block > 0 || initial_.seeded())) {
    exchange(halo, false, grad_x_.data(), static_cast<int>(widest), false);
  }
}

template <class Real>
void StepEngine<Real>::gate_backward(model::HaloExchange& halo) {
  if (halo.active()) {
    exchange(halo, false, grad_gate_.data(), 1, false);
    exchange(halo, true, grad_gate_.data(), 1, false);
  }
  for_groups(by_src_, [&](Arena<Real> arena, int i) {
    initial_.gate_edges_backward(step_, by_src_, by_src_.groups()[i], gate_.data(),
                                 grad_gate_.data(), grad_vec_.data(), arena);
  });
  for_chunks(step_.n_owned, [&](Arena<Real>, int first, int count) {
    kernels::ZblPairArgs<Real> zbl;
    zbl.node_first = first;
    zbl.node_count = count;
    zbl.dst_begin = step_.dst_begin;
    zbl.src = step_.src;
    zbl.type = step_.type;
    zbl.vec = step_.vec;
    zbl.atomic_number = atomic_number_table_;
    zbl.included = zbl_included_;
    zbl.energy = energy_.data();
    zbl.grad_vec = grad_vec_.data();
    context_.table->zbl_pair(zbl, context_.stream());
  });
}

template <class Real>
void StepEngine<Real>::initial_backward(model::HaloExchange& halo) {
  const InitialNodes<Real> nodes = initial_nodes();
  InitialGradients<Real> gradients;
  gradients.x = grad_x_.data();
  gradients.environment = grad_environment_.data();
  gradients.degree = grad_degree_.data();
  gradients.kappa = config_.n_heads == 0 ? grad_kappa_.data() : nullptr;
  gradients.gate = config_.bridging_zbl ? grad_gate_.data() : nullptr;
  gradients.vec = grad_vec_.data();
  for_chunks(step_.n_owned, [&](Arena<Real> arena, int first, int count) {
    initial_.scalars_backward(step_, first, count, nodes, gradients, arena);
  });
  for_groups(by_src_, [&](Arena<Real> arena, int i) {
    initial_.sum_edges_backward(step_, by_src_, by_src_.groups()[i], nodes, gradients, arena);
  });
  if (config_.bridging_zbl) gate_backward(halo);
}

template <class Real>
void StepEngine<Real>::read_results(model::HaloExchange& halo, model::Request request,
                                    model::Evaluation& result) {
  for_chunks(step_.n_nodes, [&](Arena<Real>, int first, int count) {
    kernels::EdgeForceArgs<Real> args;
    args.node_first = first;
    args.node_count = count;
    args.n_owned = step_.n_owned;
    args.dst_begin = step_.dst_begin;
    args.src_begin = step_.src_begin;
    args.by_src = step_.by_src;
    args.vec = step_.vec;
    args.grad_vec = grad_vec_.data();
    args.force = force_.data();
    args.node_virial = node_virial_.data();
    context_.table->edge_force(args, context_.stream());
  });
  kernels::Machine& machine = *backend_.machine;
  const std::size_t nodes = static_cast<std::size_t>(step_.n_nodes);
  const std::size_t owned = static_cast<std::size_t>(step_.n_owned);
  const double* node_virial = node_virial_.data();
  if (!machine.host_memory()) {
    host_virial_.resize(9 * nodes);
    machine.download(host_virial_.data(), node_virial, 9 * nodes * sizeof(double));
    node_virial = host_virial_.data();
  }
  result.virial.fill(0);
  for (std::size_t n = 0; n < nodes; ++n)
    for (std::size_t k = 0; k < 9; ++k) result.virial[k] += node_virial[9 * n + k];
  if (halo.active()) {
    exchange(halo, false, force_.data(), 3, true);
    if (request.atom_virial) exchange(halo, false, node_virial_.data(), 9, true);
  }
  result.force.resize(3 * owned);
  machine.download(result.force.data(), force_.data(), 3 * owned * sizeof(double));
  result.atom_energy.resize(owned);
  machine.download(result.atom_energy.data(), energy_.data(), owned * sizeof(double));
  result.energy = 0;
  for (double energy : result.atom_energy) result.energy += energy;
  result.atom_virial.clear();
  if (request.atom_virial) {
    result.atom_virial.resize(9 * owned);
    machine.download(result.atom_virial.data(), node_virial_.data(), 9 * owned * sizeof(double));
  }
}

template <class Real>
void StepEngine<Real>::evaluate(const model::Structure& structure,
                                const model::Conditions& conditions, model::HaloExchange& halo,
                                model::Request request, model::Evaluation& result) {
  make_conditions(conditions);
  evaluate_structure(structure, halo, request, result);
}

template <class Real>
void StepEngine<Real>::evaluate_structure(const model::Structure& structure,
                                          model::HaloExchange& halo, model::Request request,
                                          model::Evaluation& result) {
  prepare_step(structure, halo);
  kernels::Machine& machine = *backend_.machine;
  const std::size_t nodes = static_cast<std::size_t>(step_.n_nodes);
  const std::size_t owned = static_cast<std::size_t>(step_.n_owned);
  const std::size_t real = sizeof(Real);
  machine.zero(grad_vec_.data(), std::size_t{3} * static_cast<std::size_t>(step_.n_edges) * real);
  machine.zero(grad_x_.data(), nodes * static_cast<std::size_t>(row(0)) * real);
  machine.zero(grad_kappa_.data(), owned * real);
  machine.zero(energy_.data(), owned * sizeof(double));
  if (config_.bridging_zbl) machine.zero(grad_gate_.data(), nodes * real);

  make_initial_state(halo);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (halo.active() && (i > 0 || initial_.seeded())) {
      exchange(halo, true, input(i), static_cast<int>(row(i)), false);
    }
    make_features(i);
    run_messages(i);
    if (i + 1 == blocks_.size()) break;
    for_chunks(step_.n_owned, [&](Arena<Real> arena, int first, int count) {
      const NodeUpdate<Real>& update = blocks_[i]->update;
      const typename NodeUpdate<Real>::Buffers buffers(arena, update, count, false);
      update.update(node_range(i, first, count), buffers);
      // The next block may have fewer degrees: the rows of the others are dropped.
      context_.rows(count, static_cast<int>(row(i + 1)), buffers.state.back(), row(i),
                    input(i + 1) + first * row(i + 1), row(i + 1), false);
    });
  }
  finish_forward();
  for (std::size_t i = blocks_.size(); i-- > 0;) block_backward(i, halo);
  initial_backward(halo);
  read_results(halo, request, result);
}

template <class Real>
std::string StepEngine<Real>::description() const {
  return "native, " + std::string(sizeof(Real) == 4 ? "float32" : "float64") + ", " +
         (options_.device == model::Device::kCpu ? "CPU " : "") + backend_.machine->name();
}

template <class Real>
model::MemoryPlan StepEngine<Real>::memory_plan() const {
  const std::int64_t real = sizeof(Real);
  model::MemoryPlan plan;
  plan.cohort = cohort_;
  plan.fixed_bytes = store_.bytes() + backend_.machine->lanes() * lane_elements_ * real;
  std::int64_t node = 2 + 4 + 2 * 4 * initial_.environment_width() + row(0);  // elements of a node
  std::int64_t hidden = 0, hidden_row = 0, weights = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const kernels::MessageShape& shape = blocks_[i]->message.shape();
    node += row(i) + blocks_[i]->update.hidden_row() + shape.weights();
    hidden = std::max<std::int64_t>(hidden, shape.hidden());
    hidden_row = std::max<std::int64_t>(hidden_row, blocks_[i]->update.hidden_row());
    weights = std::max<std::int64_t>(weights, shape.weights());
  }
  if (blocks_.empty()) node += row(0);
  node += 3 * hidden_row + 4 * hidden + weights;
  plan.bytes_per_atom = node * real + 13 * static_cast<std::int64_t>(sizeof(double));
  plan.bytes_per_edge = (3 + weights) * real;
  if (!backend_.machine->host_memory()) {
    // Copies of the caller's arrays: type and two offsets of a node; ends, order and vector of an
    // edge.
    plan.bytes_per_atom += 3 * static_cast<std::int64_t>(sizeof(int));
    plan.bytes_per_edge += 3 * static_cast<std::int64_t>(sizeof(int) + sizeof(double));
  }
  return plan;
}

template class StepEngine<float>;
template class StepEngine<double>;

}  // namespace dpa4::native
