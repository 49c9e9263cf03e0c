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

/// Fraction of the free memory that kept pre-activations may take when the user gives no budget: on
/// a device hardly anybody else wants it.
constexpr double kKeptPartOfHost = 0.25, kKeptPartOfDevice = 0.5;

/// A cohort should hold the edges of a destination: one that is cut in two is looked at twice.
constexpr int kUsualNeighbors = 128;

/// This part of the free memory is left to others when pre-activations are kept.
constexpr std::int64_t kSparePart = 8;

/// Buffers take at most this part of the free memory or of the user's budget ...
constexpr std::int64_t kBufferPart = 8;
/// ... but a cohort that fills a large device is always given to them: as many edges, unless that
/// takes more than so many bytes, and no fewer than the smaller number.
constexpr std::int64_t kEnoughEdges = 57344, kEnoughBytes = 900'000'000, kFewestEdges = 16384;

/// Edges of a cohort and nodes of a chunk beyond which no machine becomes faster.
constexpr int kMostEdges = 1 << 19, kMostNodes = 1 << 16;

/// Steps with more cohorts in both orders together are not recorded.
constexpr std::size_t kMostRecordedCohorts = 16;

/// Arrays that have to grow during a run grow by this part more than they must.
constexpr std::int64_t kSlackPart = 32;

}  // namespace

template <class Real>
StepEngine<Real>::StepEngine(const model::ModelConfig& config, const model::Weights& weights,
                             const model::EvaluatorOptions& options, Backend<Real> backend)
    : config_(config),
      options_(options),
      backend_(std::move(backend)),
      free_when_opened_(backend_.machine->free_bytes()),
      timed_(options.profile
                 ? std::make_unique<TimedTable<Real>>(*backend_.table, *backend_.machine)
                 : nullptr),
      context_{timed_ ? &timed_->table() : backend_.table, backend_.machine.get()},
      store_(weights, *backend_.machine),
      radial_(context_, store_, config),
      initial_(context_, store_, config, radial_),
      readout_(context_, store_, config),
      array_memory_(*backend_.machine),
      kept_(*backend_.machine),
      kept_row_(*backend_.machine),
      cuts_(*backend_.machine) {
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const int index = static_cast<int>(i);
    Message<Real> message(context_, store_, config, index, radial_);
    const kernels::MessageShape shape = message.shape();
    blocks_.push_back(std::make_unique<Block>(
        Block{std::move(message), NodeUpdate<Real>(context_, store_, config, index, shape)}));
  }

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

  plan_buffers();
  warm_up();
}

/// What is kept of nodes and edges, and how many of them are worked on at a time.
template <class Real>
void StepEngine<Real>::plan_buffers() {
  const kernels::Machine& machine = *backend_.machine;
  const std::int64_t real = sizeof(Real);
  sizes_.row = row(0);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const kernels::MessageShape& shape = blocks_[i]->message.shape();
    sizes_.blocks.push_back({row(i), blocks_[i]->update.hidden_row(), shape.weights()});
    sizes_.hidden = std::max<std::int64_t>(sizes_.hidden, shape.hidden());
    sizes_.hidden_row = std::max<std::int64_t>(sizes_.hidden_row, blocks_[i]->update.hidden_row());
    sizes_.weights = std::max<std::int64_t>(sizes_.weights, shape.weights());
  }
  sizes_.environment = std::max(initial_.environment_width(), 1);
  sizes_.n_aparam = readout_.n_aparam();
  sizes_.gate = config_.bridging_zbl;
  sizes_.mirrors = !machine.host_memory();

  // Bytes for the buffers of all lanes together.
  const std::int64_t edge = lane_size(1, 0) * real, node = lane_size(0, 1) * real;
  const std::int64_t least =
      std::min(kEnoughEdges * edge, std::max(kEnoughBytes, kFewestEdges * edge));
  std::int64_t most = machine.free_bytes() / (kBufferPart * std::max(1, options_.sharers));
  if (options_.memory) most = std::min(most, *options_.memory / kBufferPart);
  const std::int64_t lane = std::max(least, most) / machine.lanes();
  const int edge_limit = options_.cohort > 0 ? options_.cohort : kMostEdges;
  const std::int64_t edges =
      std::min<std::int64_t>(machine.preferred_count(edge, edge_limit), lane / edge);
  cohort_ = static_cast<int>(
      std::clamp<std::int64_t>(edges, std::min(kUsualNeighbors, edge_limit), edge_limit));
  const std::int64_t nodes =
      std::min<std::int64_t>(machine.preferred_count(node, kMostNodes), lane / node);
  chunk_ = static_cast<int>(std::max<std::int64_t>(nodes, 1));
}

/// Runs a pair of atoms on a device: this loads the kernels and makes what they make at their first
/// use, so that the plan knows how much memory that takes.
template <class Real>
void StepEngine<Real>::warm_up() {
  kernels::Machine& machine = *backend_.machine;
  if (!machine.host_memory()) {
    const std::vector<double> aparam(static_cast<std::size_t>(2 * sizes_.n_aparam), 0);
    const int type[2] = {0, 0}, src[2] = {1, 0}, dst[2] = {0, 1}, begin[3] = {0, 1, 2};
    const int by_src[2] = {1, 0};
    const double length = config_.rcut / 2, vec[6] = {0, 0, length, 0, 0, -length};
    model::Structure pair;
    pair.type = {type, 2};
    pair.aparam = {aparam.data(), 2, static_cast<int>(sizes_.n_aparam)};
    pair.edges.n_owned = pair.edges.n_nodes = 2;
    pair.edges.src = {src, 2};
    pair.edges.dst = {dst, 2};
    pair.edges.vec = {vec, 2, 3};
    pair.edges.dst_begin = {begin, 3};
    pair.edges.by_src = {by_src, 2};
    pair.edges.src_begin = {begin, 3};
    model::NoHalo halo;
    model::Evaluation result;
    evaluate_structure(pair, halo, {}, result);
    release();
    // Weights in other forms, what the allocator rounds up, code. Others may have allocated
    // meanwhile, so what can be explained bounds what was measured.
    constexpr std::int64_t kCode = std::int64_t{64} << 20;
    const std::int64_t extra = machine.extra_bytes();
    overhead_ = std::clamp(free_when_opened_ - machine.free_bytes() - store_.bytes(), extra,
                           extra + store_.bytes() / 2 + kCode);
  }
  free_at_start_ = machine.free_bytes();
  const double part = machine.host_memory() ? kKeptPartOfHost : kKeptPartOfDevice;
  kept_limit_ = static_cast<std::int64_t>(part / std::max(1, options_.sharers) *
                                          static_cast<double>(free_at_start_));
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
  return arrays_.inputs[block];
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
        const Memory<Real>& memory = c.engine->lanes_[static_cast<std::size_t>(lane)];
        (*c.work)(Arena<Real>(memory.data(), memory.size()), i);
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
  if (const auto problem = model::charge_spin_problem(charge_spin)) throw InputError(*problem);
  const int charge = static_cast<int>(charge_spin[0]) + charge_table_.rows / 2;
  const int spin = static_cast<int>(charge_spin[1]);
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
  ++conditions_number_;
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
  cut(by_dst_, edges.dst_begin, step_.n_owned, structure.on_device);
  cut(by_src_, edges.src_begin, step_.n_nodes, structure.on_device);
  padding_ = 0;
  if (!structure.on_device) choose_padding(edges, !halo.active());
  reserve({step_.n_owned, step_.n_nodes, step_.n_edges});
  take_arrays(structure);
  choose_kept_edges();
  if (halo.active()) {
    int width = 9;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      width = std::max(width, static_cast<int>(row(i)));
    halo.reserve(width);
  }
}

/// What is on the device is used where it is: a recording can be replayed for a caller who keeps
/// its arrays and pads its edges.
template <class Real>
void StepEngine<Real>::take_arrays(const model::Structure& structure) {
  const graph::EdgeList& edges = structure.edges;
  const std::int64_t owned = step_.n_owned, nodes = step_.n_nodes, n_edges = edges.n_edges();
  const auto take = [&](auto* copy, const auto& array, std::int64_t count) {
    return structure.on_device ? array.data() : mirror(copy, array.data(), count);
  };
  step_.type = take(arrays_.type, structure.type, nodes);
  step_.src = take(arrays_.src, edges.src, n_edges);
  step_.dst = take(arrays_.dst, edges.dst, n_edges);
  step_.vec = take(arrays_.vec, edges.vec, 3 * n_edges);
  step_.dst_begin = take(arrays_.dst_begin, edges.dst_begin, owned + 1);
  step_.by_src = take(arrays_.by_src, edges.by_src, n_edges);
  step_.src_begin = take(arrays_.src_begin, edges.src_begin, nodes + 1);
  const int n_aparam = readout_.n_aparam();
  if (n_aparam > 0) {
    if (structure.aparam.extent(0) != step_.n_owned || structure.aparam.extent(1) != n_aparam) {
      throw InputError("the model needs " + std::to_string(n_aparam) +
                       " atomic parameters (aparam) for every atom");
    }
    host_aparam_ = readout_.normalized_aparam(structure.aparam.data(), step_.n_owned);
    step_aparam_ = mirror(arrays_.aparam, host_aparam_.data(), owned * n_aparam);
  }
  if (padding_ > 0) {
    kernels::PadEdgesArgs<Real> pad;
    pad.first = edges.n_edges();
    pad.count = padding_;
    pad.length = config_.rcut;
    pad.src = arrays_.src;
    pad.dst = arrays_.dst;
    pad.by_src = arrays_.by_src;
    pad.vec = arrays_.vec;
    context_.table->pad_edges(pad, context_.stream());
  }
}

/// Small steps are padded to a round number of edges, so that a recording can be replayed although
/// atoms enter and leave each other's cutoff. The edges on top belong to no node: no sum sees them.
template <class Real>
void StepEngine<Real>::choose_padding(const graph::EdgeList& edges, bool alone) {
  const int n = edges.n_edges();
  const bool single = by_dst_.cohorts().size() == 1 && by_src_.cohorts().size() == 1;
  if (!backend_.machine->records() || !sizes_.mirrors || !alone || !single || n == 0) return;
  constexpr int kFewest = 64, kPart = 16;  // the padding is at most this part of the edges
  int quantum = kFewest;
  while (2 * quantum <= n / kPart) quantum *= 2;
  padding_ = (n + quantum - 1) / quantum * quantum - n;
  if (n + padding_ > cohort_) padding_ = 0;  // the buffers hold a cohort
  if (padding_ == 0) return;
  step_.n_edges = n + padding_;
  by_dst_.pad(step_.n_edges);
  by_src_.pad(step_.n_edges);
}

/// Cuts the nodes with the CSR array `begin` into groups. Of an array on a device the host reads no
/// more than the cuts, 64 bytes at a time.
template <class Real>
void StepEngine<Real>::cut(Cohorts& cohorts, const TensorView<const int, 1>& begin, int n_nodes,
                           bool on_device) {
  const kernels::NodeCuts nodes{begin.data(), n_nodes, cohort_};
  kernels::Machine& machine = *backend_.machine;
  if (!on_device || machine.host_memory()) {
    cohorts.build(nodes);
    return;
  }
  cohorts.clear(cohort_);
  if (step_.n_edges <= cohort_ && n_nodes <= cohort_) {
    if (n_nodes > 0) cohorts.add_group({0, 0}, {n_nodes, step_.n_edges});
    return;
  }
  constexpr int kCuts = 8;
  Cut cuts[kCuts];
  kernels::CutNodesArgs<Real> args;
  args.nodes = nodes;
  args.count = kCuts;
  args.cuts = cuts_.reserve(2 * kCuts);
  while (args.first < n_nodes) {
    context_.table->cut_nodes(args, context_.stream());
    machine.download(cuts, args.cuts, sizeof cuts);
    for (int i = 0; i + 1 < kCuts && cuts[i].node < n_nodes; ++i) {
      cohorts.add_group(cuts[i], cuts[i + 1]);
    }
    args.first = cuts[kCuts - 1].node;
    args.group += kCuts - 1;
  }
}

/// The array as the machine sees it: in place, or copied.
template <class Real>
template <class T>
const T* StepEngine<Real>::mirror(T* copy, const T* array, std::int64_t count) {
  if (backend_.machine->host_memory()) return array;
  backend_.machine->upload(copy, array, static_cast<std::size_t>(count) * sizeof(T));
  return copy;
}

template <class Real>
void StepEngine<Real>::forget_arrays() {
  reserved_ = {};
  arrays_ = {};
  last_recipe_ = {};  // new arrays may lie at the old address and be divided in another way
  recorded_ = false;
}

template <class Real>
void StepEngine<Real>::release() {
  forget_arrays();
  array_memory_.release();
  lanes_.clear();
  kept_.release();
  kept_row_.release();
}

template <class Real>
void StepEngine<Real>::reserve(const StepCounts& counts) {
  kernels::Machine& machine = *backend_.machine;
  const std::size_t lanes = static_cast<std::size_t>(machine.lanes());
  if (reserved_.covers(counts) && lanes_.size() >= lanes) return;
  StepCounts wanted = counts;
  if (reserved_.nodes > 0) {
    // A system that grows would otherwise be given new arrays in every step.
    const auto grown = [](std::int64_t before, std::int64_t now) {
      return now > before ? now + now / kSlackPart : before;
    };
    wanted = {grown(reserved_.owned, counts.owned), grown(reserved_.nodes, counts.nodes),
              grown(reserved_.edges, counts.edges)};
  }
  kept_.release();  // made again with what is left
  kept_row_.release();
  const model::MemoryPlan plan = memory_plan();
  const std::int64_t room = room_bytes(plan);
  refuse_what_does_not_fit(counts, plan, room);
  if (plan.total(wanted.nodes, wanted.edges) > room) wanted = counts;
  forget_arrays();
  array_memory_.release();
  try {
    Carver carver(array_memory_.reserve(array_bytes<Real>(sizes_, wanted)));
    arrays_.lay_out(carver, sizes_, wanted);
    const std::int64_t elements =
        lane_size(static_cast<int>(std::min<std::int64_t>(cohort_, wanted.edges)),
                  static_cast<int>(std::min<std::int64_t>(chunk_, wanted.nodes)));
    while (lanes_.size() < lanes) lanes_.emplace_back(machine);
    for (Memory<Real>& lane : lanes_) lane.reserve(elements);
  } catch (...) {
    release();
    throw;
  }
  reserved_ = wanted;
}

/// Bytes for which there is room: what is free and held now, or the user's budget if that is less.
template <class Real>
std::int64_t StepEngine<Real>::room_bytes(const model::MemoryPlan& plan) const {
  const std::int64_t held = reserved_.nodes > 0 ? plan.total(reserved_.nodes, reserved_.edges)
                                                : plan.fixed_bytes - plan.buffer_bytes;
  const std::int64_t there_is = backend_.machine->free_bytes() + held;
  const bool limited = options_.memory && *options_.memory > 0;
  return limited ? std::min(*options_.memory, there_is) : there_is;
}

/// Throws before anything is allocated if the plan needs more than there is.
template <class Real>
void StepEngine<Real>::refuse_what_does_not_fit(const StepCounts& counts,
                                                const model::MemoryPlan& plan,
                                                std::int64_t room) const {
  const std::int64_t needed = plan.total(counts.nodes, counts.edges);
  if (needed <= room) return;
  const bool beyond_budget = options_.memory && *options_.memory == room;
  const double neighbors = static_cast<double>(counts.edges) /
                           static_cast<double>(std::max<std::int64_t>(counts.nodes, 1));
  throw InputError("not enough memory for " + std::to_string(counts.nodes) + " atoms with " +
                   std::to_string(counts.edges) + " edges: " + std::to_string(needed >> 20) +
                   " MiB are needed and " + std::to_string(room >> 20) +
                   (beyond_budget ? " MiB allowed by the keyword memory" : " MiB free") +
                   "; at this density about " + std::to_string(plan.most_atoms(room, neighbors)) +
                   " atoms fit; use more ranks, a smaller cohort or fewer threads");
}

/// Bytes of pre-activations of an edge that is not recomputed, in all blocks.
template <class Real>
std::int64_t StepEngine<Real>::kept_bytes_per_edge() const {
  std::int64_t elements = 0;
  for (const auto& block : blocks_) {
    if (block->message.n_layers() > 0) elements += block->message.kept_size();
  }
  return elements > 0 ? elements * static_cast<std::int64_t>(sizeof(Real)) +
                            static_cast<std::int64_t>(sizeof(int))
                      : 0;
}

template <class Real>
void StepEngine<Real>::choose_kept_edges() {
  kept_edges_ = 0;
  const std::int64_t per_edge = kept_bytes_per_edge();
  if (per_edge == 0) return;
  std::int64_t room = kept_.bytes() + kept_row_.bytes();
  if (room < per_edge * step_.n_edges) {
    // What others have taken since the start is not there any more, and they may need more.
    const std::int64_t free = backend_.machine->free_bytes();
    room = std::min(memory_plan().kept_bytes(step_.n_nodes, step_.n_edges),
                    room + free - free / kSparePart);
  }
  // Every edge has a number, edges that are kept have a row.
  constexpr std::int64_t kNumber = sizeof(int);
  const std::int64_t row_bytes = per_edge - kNumber;
  const std::int64_t limit =
      std::clamp<std::int64_t>((room - kNumber * step_.n_edges) / row_bytes, 0, step_.n_edges);
  for (const Cohort& cohort : by_src_.cohorts()) {
    if (cohort.first + cohort.count > limit) break;
    kept_edges_ = cohort.first + cohort.count;
  }
  if (kept_edges_ == 0) return;
  try {
    kept_.reserve(kept_edges_ * (row_bytes / static_cast<std::int64_t>(sizeof(Real))));
    step_kept_row_ = kept_row_.reserve(step_.n_edges);
  } catch (const InputError&) {
    // Another rank was faster. What is not kept is made again.
    kept_.release();
    kept_row_.release();
    kept_edges_ = 0;
  }
}

template <class Real>
void StepEngine<Real>::mark_kept_rows() {
  if (kept_edges_ == 0) return;
  kernels::KeptRowsArgs<Real> args;
  args.count = static_cast<int>(step_.n_edges);
  args.n_kept = static_cast<int>(kept_edges_);
  args.by_src = step_.by_src;
  args.row = step_kept_row_;
  context_.table->kept_rows(args, context_.stream());
}

template <class Real>
MessageNodes<Real> StepEngine<Real>::message_nodes(std::size_t block) const {
  MessageNodes<Real> nodes;
  nodes.features = arrays_.features;
  nodes.query = arrays_.query;
  nodes.key = arrays_.key;
  nodes.gate = config_.bridging_zbl ? arrays_.gate : nullptr;
  nodes.logit = arrays_.logit;
  nodes.lse = arrays_.lses[block];
  nodes.sum = arrays_.sums[block];
  return nodes;
}

template <class Real>
KeptStacks<Real> StepEngine<Real>::kept_stacks(std::size_t block) const {
  KeptStacks<Real> kept;
  if (kept_edges_ == 0 || blocks_[block]->message.n_layers() == 0) return kept;
  kept.edges = kept_edges_;
  kept.row = step_kept_row_;
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
  nodes.features = arrays_.features + first * hidden_row;
  nodes.sum = arrays_.sums[block] + first * hidden_row;
  nodes.kappa = arrays_.kappa + first;
  return nodes;
}

template <class Real>
InitialNodes<Real> StepEngine<Real>::initial_nodes() const {
  InitialNodes<Real> nodes;
  nodes.kappa = arrays_.kappa;
  nodes.gate = config_.bridging_zbl ? arrays_.gate : nullptr;
  nodes.environment = arrays_.environment;
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
    args.partial = arrays_.gate_partial;
    context_.table->source_gate_partial(args, context_.stream());
  });
  if (halo.active()) {
    exchange(halo, false, arrays_.gate_partial, 2, false);
    exchange(halo, true, arrays_.gate_partial, 2, false);
  }
  kernels::SourceGateArgs<Real> args;
  args.node_count = step_.n_nodes;
  args.partial = arrays_.gate_partial;
  args.gate = arrays_.gate;
  context_.table->source_gate(args, context_.stream());
}

template <class Real>
void StepEngine<Real>::make_initial_state(model::HaloExchange& halo) {
  if (config_.bridging_zbl) make_gate(halo);
  for_chunks(step_.n_owned, [&](Arena<Real>, int first, int count) {
    initial_.degree(step_, first, count, arrays_.kappa);
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
                         arrays_.features + first * static_cast<std::int64_t>(update.hidden_row()),
                         arrays_.query + first * static_cast<std::int64_t>(hidden),
                         arrays_.key + first * static_cast<std::int64_t>(hidden), arena);
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
    Real* grad = arrays_.grad_x + first * widest;
    const Real* aparam = readout_.n_aparam() > 0
                             ? step_aparam_ + static_cast<std::int64_t>(first) * readout_.n_aparam()
                             : nullptr;
    if (bare) {
      readout_.evaluate(count, step_.type + first, input(0) + first * widest, widest, aparam,
                        arrays_.energy + first, grad, widest, arena);
      return;
    }
    const NodeUpdate<Real>& update = blocks_[last]->update;
    const typename NodeUpdate<Real>::Buffers buffers(arena, update, count, true);
    const NodeRange<Real> nodes = node_range(last, first, count);
    update.update(nodes, buffers);
    readout_.evaluate(count, step_.type + first, buffers.state.back(), row(last), aparam,
                      arrays_.energy + first, grad, widest, arena);
    const int weights = blocks_[last]->message.shape().weights();
    const std::int64_t hidden_row = update.hidden_row();
    update.update_backward(nodes, buffers, grad, widest, arrays_.grad_sum + first * hidden_row,
                           arrays_.row_sum + static_cast<std::int64_t>(first) * weights,
                           arrays_.grad_features + first * hidden_row, arrays_.grad_kappa + first);
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
      update.update_backward(nodes, buffers, arrays_.grad_x + first * widest, widest,
                             arrays_.grad_sum + first * hidden_row,
                             arrays_.row_sum + static_cast<std::int64_t>(first) * shape.weights(),
                             arrays_.grad_features + first * hidden_row,
                             arrays_.grad_kappa + first);
    });
  }
  const std::int64_t copies = step_.n_nodes - step_.n_owned;
  machine.zero(arrays_.grad_features + step_.n_owned * hidden_row,
               static_cast<std::size_t>(copies * hidden_row) * sizeof(Real));
  machine.zero(arrays_.grad_key, static_cast<std::size_t>(step_.n_nodes * hidden) * sizeof(Real));
  machine.zero(arrays_.grad_query + step_.n_owned * hidden,
               static_cast<std::size_t>(copies * hidden) * sizeof(Real));

  const MessageNodes<Real> nodes = message_nodes(block);
  const KeptStacks<Real> kept = kept_stacks(block);
  MessageGradients<Real> gradients;
  gradients.sum = arrays_.grad_sum;
  gradients.row_sum = arrays_.row_sum;
  gradients.features = arrays_.grad_features;
  gradients.key = arrays_.grad_key;
  gradients.gate = config_.bridging_zbl ? arrays_.grad_gate : nullptr;
  gradients.vec = arrays_.grad_vec;
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
      query.grad_logit = arrays_.logit;
      query.key = arrays_.key;
      query.grad_query = arrays_.grad_query;
      context_.table->query_gradient(query, context_.stream());
    }
    update.features_backward(
        count, input(block) + first * row(block), arrays_.features + first * hidden_row,
        arrays_.grad_features + first * hidden_row, arrays_.grad_query + first * hidden,
        arrays_.grad_key + first * hidden, arrays_.grad_x + first * widest, widest, arena);
  });
  // Copies of block 0 without seed hold constants; elsewhere their gradient belongs to the owner.
  if (halo.active() && (block > 0 || initial_.seeded())) {
    exchange(halo, false, arrays_.grad_x, static_cast<int>(widest), false);
  }
}

template <class Real>
void StepEngine<Real>::gate_backward(model::HaloExchange& halo) {
  if (halo.active()) {
    exchange(halo, false, arrays_.grad_gate, 1, false);
    exchange(halo, true, arrays_.grad_gate, 1, false);
  }
  for_groups(by_src_, [&](Arena<Real> arena, int i) {
    initial_.gate_edges_backward(step_, by_src_, by_src_.groups()[i], arrays_.gate,
                                 arrays_.grad_gate, arrays_.grad_vec, arena);
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
    zbl.energy = arrays_.energy;
    zbl.grad_vec = arrays_.grad_vec;
    context_.table->zbl_pair(zbl, context_.stream());
  });
}

template <class Real>
void StepEngine<Real>::initial_backward(model::HaloExchange& halo) {
  const InitialNodes<Real> nodes = initial_nodes();
  InitialGradients<Real> gradients;
  gradients.x = arrays_.grad_x;
  gradients.environment = arrays_.grad_environment;
  gradients.degree = arrays_.grad_degree;
  gradients.kappa = config_.n_heads == 0 ? arrays_.grad_kappa : nullptr;
  gradients.gate = config_.bridging_zbl ? arrays_.grad_gate : nullptr;
  gradients.vec = arrays_.grad_vec;
  for_chunks(step_.n_owned, [&](Arena<Real> arena, int first, int count) {
    initial_.scalars_backward(step_, first, count, nodes, gradients, arena);
  });
  for_groups(by_src_, [&](Arena<Real> arena, int i) {
    initial_.sum_edges_backward(step_, by_src_, by_src_.groups()[i], nodes, gradients, arena);
  });
  if (config_.bridging_zbl) gate_backward(halo);
}

template <class Real>
void StepEngine<Real>::sum_forces() {
  for_chunks(step_.n_nodes, [&](Arena<Real>, int first, int count) {
    kernels::EdgeForceArgs<Real> args;
    args.node_first = first;
    args.node_count = count;
    args.n_owned = step_.n_owned;
    args.dst_begin = step_.dst_begin;
    args.src_begin = step_.src_begin;
    args.by_src = step_.by_src;
    args.vec = step_.vec;
    args.grad_vec = arrays_.grad_vec;
    args.force = arrays_.force;
    args.node_virial = arrays_.node_virial;
    context_.table->edge_force(args, context_.stream());
  });
}

/// Numbers from the first result to the last: energies, forces, virials, and what aligns them.
template <class Real>
std::size_t StepEngine<Real>::result_count() const {
  return static_cast<std::size_t>(arrays_.node_virial - arrays_.energy) +
         std::size_t{9} * static_cast<std::size_t>(step_.n_nodes);
}

/// Reads the results in one piece, which is the only time that a step waits for the machine. With
/// copies of other ranks' atoms the virial is complete before the gradients are sent home.
template <class Real>
void StepEngine<Real>::collect_results(model::HaloExchange& halo, model::Request request,
                                       model::Evaluation& result) {
  kernels::Machine& machine = *backend_.machine;
  const std::size_t nodes = static_cast<std::size_t>(step_.n_nodes);
  const std::size_t owned = static_cast<std::size_t>(step_.n_owned);
  const double* energy = arrays_.energy;
  const std::size_t count = result_count();
  const auto read = [&] {
    if (machine.host_memory()) return;
    host_results_.resize(count);
    machine.download(host_results_.data(), arrays_.energy, count * sizeof(double));
    energy = host_results_.data();
  };
  read();
  const auto force = [&] { return energy + (arrays_.force - arrays_.energy); };
  const auto virial = [&] { return energy + (arrays_.node_virial - arrays_.energy); };
  result.virial.fill(0);
  for (std::size_t n = 0; n < nodes; ++n)
    for (std::size_t k = 0; k < 9; ++k) result.virial[k] += virial()[9 * n + k];
  if (halo.active()) {
    exchange(halo, false, arrays_.force, 3, true);
    if (request.atom_virial) exchange(halo, false, arrays_.node_virial, 9, true);
    read();
  }
  result.force.assign(force(), force() + 3 * owned);
  result.atom_energy.assign(energy, energy + owned);
  result.energy = 0;
  for (double value : result.atom_energy) result.energy += value;
  result.atom_virial.clear();
  if (request.atom_virial) result.atom_virial.assign(virial(), virial() + 9 * owned);
}

template <class Real>
void StepEngine<Real>::evaluate(const model::Structure& structure,
                                const model::Conditions& conditions, model::HaloExchange& halo,
                                model::Request request, model::Evaluation& result) {
  backend_.machine->enter();
  make_conditions(conditions);
  evaluate_structure(structure, halo, request, result);
}

template <class Real>
void StepEngine<Real>::evaluate_structure(const model::Structure& structure,
                                          model::HaloExchange& halo, model::Request request,
                                          model::Evaluation& result) {
  prepare_step(structure, halo);
  run_step(halo);
  if (structure.on_device) {
    keep_results(halo, request, result);
  } else {
    collect_results(halo, request, result);
  }
}

template <class Real>
typename StepEngine<Real>::Recipe StepEngine<Real>::recipe() const {
  Recipe recipe;
  recipe.step = step_;
  recipe.by_dst = by_dst_.cohorts();
  recipe.by_src = by_src_.cohorts();
  recipe.kept_edges = kept_edges_;
  recipe.kept = kept_.data();
  recipe.kept_row = step_kept_row_;
  recipe.arrays = array_memory_.data();
  recipe.lane = lanes_[0].data();
  recipe.conditions = conditions_number_;
  return recipe;
}

/// Issues the work of a step. A machine that can record does so when a step is like the one before,
/// and from then on only replays, which costs the host next to nothing. (A step that is unlike the
/// one before is not worth recording: noting the work costs as much as issuing it.)
template <class Real>
void StepEngine<Real>::run_step(model::HaloExchange& halo) {
  kernels::Machine& machine = *backend_.machine;
  // With many cohorts the device is never waiting for the host, and a recording takes memory.
  const bool small = by_dst_.cohorts().size() + by_src_.cohorts().size() <= kMostRecordedCohorts;
  if (!machine.records() || !can_record_ || !small || halo.active() || timed_) {
    issue_step(halo);
    return;
  }
  Recipe now = recipe();
  if (now != last_recipe_) {
    last_recipe_ = std::move(now);
    recorded_ = false;
    issue_step(halo);
    return;
  }
  if (!recorded_) {
    try {
      machine.begin_recording();
      issue_step(halo);
      recorded_ = machine.end_recording();
    } catch (const std::exception&) {
      static_cast<void>(machine.end_recording());  // issued again below: real errors come back
    }
    if (!recorded_) {
      can_record_ = false;
      issue_step(halo);
      return;
    }
  }
  machine.replay();
}

template <class Real>
void StepEngine<Real>::issue_step(model::HaloExchange& halo) {
  kernels::Machine& machine = *backend_.machine;
  const std::size_t nodes = static_cast<std::size_t>(step_.n_nodes);
  const std::size_t owned = static_cast<std::size_t>(step_.n_owned);
  const std::size_t real = sizeof(Real);
  machine.zero(arrays_.grad_vec, std::size_t{3} * static_cast<std::size_t>(step_.n_edges) * real);
  machine.zero(arrays_.grad_x, nodes * static_cast<std::size_t>(row(0)) * real);
  machine.zero(arrays_.grad_kappa, owned * real);
  // Also the gaps between the arrays of results, which are read in one piece.
  machine.zero(arrays_.energy, result_count() * sizeof(double));
  if (config_.bridging_zbl) machine.zero(arrays_.grad_gate, nodes * real);
  mark_kept_rows();

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
  sum_forces();
}

/// Leaves the results in the device's memory.
template <class Real>
void StepEngine<Real>::keep_results(model::HaloExchange& halo, model::Request request,
                                    model::Evaluation& result) {
  if (halo.active()) {
    exchange(halo, false, arrays_.force, 3, true);
    if (request.atom_virial) exchange(halo, false, arrays_.node_virial, 9, true);
  }
  // On a stream that the caller knows it can go on without waiting.
  if (options_.stream == nullptr) backend_.machine->synchronize();
  result.device.atom_energy = {arrays_.energy, step_.n_owned};
  result.device.force = {arrays_.force, step_.n_owned, 3};
  result.device.node_virial = {arrays_.node_virial, step_.n_nodes, 9};
}

template <class Real>
std::string StepEngine<Real>::description() const {
  return "native, " + std::string(sizeof(Real) == 4 ? "float32" : "float64") + ", " +
         (options_.device == model::Device::kCpu ? "CPU " : backend_.machine->name() + ", ") +
         (backend_.arithmetic.empty() ? backend_.machine->name() : backend_.arithmetic);
}

template <class Real>
std::vector<model::OperationTime> StepEngine<Real>::take_profile() {
  return timed_ ? timed_->take() : std::vector<model::OperationTime>();
}

template <class Real>
model::MemoryPlan StepEngine<Real>::memory_plan() const {
  constexpr std::int64_t kMany = 1 << 16;  // the arrays' alignment does not show in a quotient
  const std::int64_t real = sizeof(Real), lanes = backend_.machine->lanes();
  model::MemoryPlan plan;
  plan.cohort = cohort_;
  plan.chunk = chunk_;
  plan.buffer_bytes = lanes * lane_size(cohort_, chunk_) * real;
  plan.buffer_bytes_per_edge = lanes * lane_size(cohort_, 0) * real / cohort_;
  plan.buffer_bytes_per_atom = lanes * lane_size(0, chunk_) * real / chunk_;
  plan.fixed_bytes = store_.bytes() + overhead_ + plan.buffer_bytes;
  const std::int64_t none = array_bytes<Real>(sizes_, {});
  plan.bytes_per_atom = (array_bytes<Real>(sizes_, {kMany, kMany, 0}) - none) / kMany;
  plan.bytes_per_edge = (array_bytes<Real>(sizes_, {0, 0, kMany}) - none) / kMany;
  plan.kept_bytes_per_edge = kept_bytes_per_edge();
  plan.kept_limit = kept_limit_;
  plan.budget = options_.memory;
  plan.available = free_at_start_ + store_.bytes() + overhead_;
  return plan;
}

template class StepEngine<float>;
template class StepEngine<double>;

}  // namespace dpa4::native
