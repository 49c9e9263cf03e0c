// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/eager_evaluator.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/eager/block.h"
#include "src/eager/cuda_library.h"
#include "src/eager/fitting.h"
#include "src/model/assembly.h"
#include "src/model/elements.h"

namespace dpa4::eager {
namespace {

using model::Conditions;
using model::Device;
using model::Evaluation;
using model::EvaluatorOptions;
using model::HaloExchange;
using model::MemoryPlan;
using model::ModelConfig;
using model::Precision;
using model::Request;
using model::Structure;
using model::Weights;

at::TensorOptions tensor_options(const EvaluatorOptions& options) {
  at::TensorOptions out = at::TensorOptions().dtype(
      options.precision == Precision::kFloat64 ? at::kDouble : at::kFloat);
  if (options.device == Device::kCpu) return out.device(at::kCPU);
  std::string reason;
  const int count = load_cuda(reason);
  if (count == 0)
    throw InputError("device cuda: " + reason + "; use 'device cpu' or 'device auto'");
  if (options.device_index < 0 || options.device_index >= count) {
    throw InputError("device cuda: index " + std::to_string(options.device_index) + ", but " +
                     std::to_string(count) + " device(s) are visible");
  }
  return out.device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(options.device_index)));
}

/// The options with a number of edges where the user leaves it to the engine.
EvaluatorOptions with_cohort(EvaluatorOptions options) {
  constexpr int kUsualCohort = 8192;
  if (options.cohort == 0) options.cohort = kUsualCohort;
  return options;
}

class EagerEvaluator final : public model::Evaluator {
 public:
  EagerEvaluator(const ModelConfig& config, const Weights& weights, const EvaluatorOptions& options)
      : config_(config),
        options_(with_cohort(options)),
        tensor_options_(tensor_options(options)),
        store_(weights, tensor_options_),
        embedding_(config_, store_.scope("descriptor")),
        blocks_(config_, store_.scope("descriptor"), embedding_),
        fitting_(config_, store_.scope("fitting_net"), store_("fitting_net.bias_atom_e")) {
    if (options.cohort < 0) throw InputError("cohort: must be at least 1 edge");
    const at::TensorOptions exact = tensor_options_.dtype(at::kDouble);
    const auto n_types = static_cast<int64_t>(config_.n_types());
    out_bias_ = constant(weights.at("out_bias").to<double>(), {n_types}, exact);
    type_weight_ = at::ones({n_types}, exact);
    for (int type : config_.atom_exclude_types) type_weight_[type].zero_();
    if (config_.bridging_zbl) {
      std::vector<double> numbers;
      for (const std::string& symbol : config_.type_map) {
        const int z = model::atomic_number(symbol);
        if (z == 0)
          throw InputError("bridging_method ZBL: type_map entry '" + symbol + "' is no element");
        numbers.push_back(z);
      }
      atomic_number_ = constant(numbers, {n_types}, exact);
    }
    if (config_.vacuum_ref) vacuum_ = isolated_atoms();
  }

  void evaluate(const Structure& structure, const Conditions& conditions, HaloExchange& halo,
                Request request, Evaluation& result) override {
    halo.reserve(widest_row());
    const graph::EdgeList& edges = structure.edges;
    Tape tape(row_chunk());
    EdgeStream stream(structure, options_.cohort, tensor_options_);

    const Var descriptor = run(tape, stream, embedding_.type_table(charge_spin(conditions)), halo);
    const Var energy = atom_energies(tape, stream, descriptor, structure, conditions);

    const at::Tensor host_energy = energy->value.to(at::kCPU);
    const double* values = host_energy.data_ptr<double>();
    result.atom_energy.assign(values, values + edges.n_owned);
    result.energy = 0;
    for (double e : result.atom_energy) result.energy += e;

    energy->grad = at::ones_like(energy->value);
    tape.backward();
    const at::Tensor grad_vec = stream.grad_vec().to(at::kCPU).contiguous();
    model::assemble_forces(edges, {grad_vec.data_ptr<double>(), edges.n_edges(), 3}, halo, request,
                           result);
  }

  std::string description() const override {
    return "eager (LibTorch), " +
           std::string(options_.precision == Precision::kFloat64 ? "float64" : "float32") + ", " +
           (options_.device == Device::kCpu ? "cpu"
                                            : "cuda:" + std::to_string(options_.device_index));
  }

  MemoryPlan memory_plan() const override;

 private:
  /// Everything from edges to the descriptor.
  Var run(Tape& tape, EdgeStream& stream, const at::Tensor& type_table, HaloExchange& halo) const {
    const NodeState state = embedding_.initial_state(tape, stream, type_table, halo);
    return blocks_.forward(tape, stream, state, type_table, halo);
  }

  /// (n_owned) float64: network, biases, ZBL, excluded types.
  Var atom_energies(Tape& tape, EdgeStream& stream, const Var& descriptor,
                    const Structure& structure, const Conditions& conditions) const {
    const int64_t n = stream.n_owned();
    const at::Tensor types = stream.node_type().narrow(0, 0, n);
    const at::Tensor fparam = frame_parameters(conditions, n);
    const at::Tensor aparam = atom_parameters(structure, n);
    std::vector<Var> inputs{descriptor};
    if (config_.bridging_zbl) {
      inputs.push_back(stream.sum(tape, {}, Side::kDst, n, [this](const Cohort& c) {
        const at::Tensor length = at::sqrt((c.vec * c.vec).sum(-1));
        const at::Tensor weight =
            type_weight_.index_select(0, c.src_type) * type_weight_.index_select(0, c.dst_type);
        return weight * half_zbl(length, atomic_number_.index_select(0, c.dst_type),
                                 atomic_number_.index_select(0, c.src_type));
      }));
    }
    return tape.rows(inputs, n, [=, this](const std::vector<at::Tensor>& in, RowRange rows) {
      const at::Tensor type = rows.of(types);
      at::Tensor e = fitting_
                         .energy(in[0], type, fparam.defined() ? rows.of(fparam) : fparam,
                                 aparam.defined() ? rows.of(aparam) : aparam, vacuum_)
                         .to(at::kDouble) +
                     out_bias_.index_select(0, type);
      if (in.size() > 1) e = e + in[1];
      return std::vector<at::Tensor>{e * type_weight_.index_select(0, type)};
    })[0];
  }

  at::Tensor charge_spin(const Conditions& conditions) const {
    if (!config_.add_chg_spin_ebd) return at::Tensor();
    const auto& value = conditions.charge_spin ? conditions.charge_spin : config_.default_chg_spin;
    if (!value) {
      throw InputError(
          "this model needs a total charge and a spin multiplicity: give charge and spin");
    }
    if (const auto problem = model::charge_spin_problem(*value)) throw InputError(*problem);
    return constant({(*value)[0], (*value)[1]}, {1, 2}, tensor_options_);
  }

  at::Tensor frame_parameters(const Conditions& conditions, int64_t n) const {
    if (config_.numb_fparam == 0) {
      if (!conditions.fparam.empty())
        throw InputError("fparam: this model takes no frame parameters");
      return at::Tensor();
    }
    std::vector<double> values = conditions.fparam;
    if (values.empty() && config_.default_fparam) values = *config_.default_fparam;
    if (static_cast<int>(values.size()) != config_.numb_fparam) {
      throw InputError("fparam: this model needs " + std::to_string(config_.numb_fparam) +
                       " value(s), got " + std::to_string(values.size()));
    }
    return constant(values, {1, config_.numb_fparam}, tensor_options_).expand({n, -1});
  }

  at::Tensor atom_parameters(const Structure& structure, int64_t n) const {
    if (config_.numb_aparam == 0 || config_.use_aparam_as_mask) return at::Tensor();
    if (structure.aparam.extent(0) != n || structure.aparam.extent(1) != config_.numb_aparam) {
      throw InputError("aparam: this model needs " + std::to_string(config_.numb_aparam) +
                       " value(s) per atom");
    }
    return at::from_blob(const_cast<double*>(structure.aparam.data()), {n, config_.numb_aparam},
                         at::TensorOptions().dtype(at::kDouble))
        .to(tensor_options_);
  }

  /// Descriptors of one isolated atom of every type (spec part 3, section 5).
  at::Tensor isolated_atoms() const {
    const int n = config_.n_types();
    std::vector<int> types(static_cast<std::size_t>(n)), begin(static_cast<std::size_t>(n) + 1, 0);
    for (int i = 0; i < n; ++i) types[static_cast<std::size_t>(i)] = i;
    Structure atoms;
    atoms.type = {types.data(), n};
    atoms.edges.n_owned = atoms.edges.n_nodes = n;
    atoms.edges.vec = {static_cast<const double*>(nullptr), 0, 3};
    atoms.edges.dst_begin = atoms.edges.src_begin = {begin.data(), n + 1};
    at::Tensor condition;
    if (config_.add_chg_spin_ebd) {
      std::vector<double> values;
      for (const std::string& symbol : config_.type_map) {
        const int z = model::atomic_number(symbol);
        if (z == 0) throw InputError("vacuum_ref: type_map entry '" + symbol + "' is no element");
        values.push_back(0);
        values.push_back(model::unpaired_electrons(z) + 1);
      }
      condition = constant(values, {n, 2}, tensor_options_);
    }
    Tape tape(row_chunk());
    EdgeStream stream(atoms, options_.cohort, tensor_options_);
    model::NoHalo halo;
    return run(tape, stream, embedding_.type_table(condition), halo)->value;
  }

  /// Node-side work is cut into chunks whose tables are about as large as those of an edge cohort.
  int64_t row_chunk() const { return std::max<int64_t>(1, options_.cohort / 32); }

  int widest_row() const {
    int width = 9;  // a per-atom virial
    for (const model::BlockShape& block : config_.blocks) {
      width = std::max(width, (block.node_lmax + 1) * (block.node_lmax + 1) * config_.channels);
    }
    return width;
  }

  const ModelConfig config_;
  const EvaluatorOptions options_;
  const at::TensorOptions tensor_options_;
  TensorStore store_;
  Embedding embedding_;
  BlockStack blocks_;
  Fitting fitting_;
  at::Tensor out_bias_;       // (n_types) float64 [eV]
  at::Tensor type_weight_;    // (n_types) float64, 0 for types whose energy does not count
  at::Tensor atomic_number_;  // (n_types) float64, bridging only
  at::Tensor vacuum_;         // (n_types, C), undefined without the isolated-atom reference
};

MemoryPlan EagerEvaluator::memory_plan() const {
  const auto size = static_cast<int64_t>(options_.precision == Precision::kFloat64 ? 8 : 4);
  const int64_t width = config_.hidden_width(), channels = config_.channels;
  const auto rows_of = [](int lmax) { return static_cast<int64_t>(lmax + 1) * (lmax + 1); };

  MemoryPlan plan;
  plan.cohort = options_.cohort;
  // Edge list (3 x int32), vectors and their gradients (float64).
  plan.bytes_per_edge = 3 * 4 + 2 * 3 * 8;

  // Tables that live from forward to backward: state, mixed rows, aggregated and convolved
  // messages.
  int64_t kept = 2 * rows_of(config_.init_lmax) * channels;
  int64_t cohort_row = 0, chunk_row = 0;
  for (const model::BlockShape& block : config_.blocks) {
    const int64_t d = rows_of(block.lmax), node = rows_of(block.node_lmax);
    kept += 2 * d * width + d * channels + node * channels + 2 * width;
    int64_t reduced = block.lmax + 1;
    for (int m = 1; m <= block.mmax; ++m) reduced += 2 * (block.lmax - m + 1);
    // Activations autograd keeps inside a cohort: about six tables a layer, the rotations, the
    // values.
    cohort_row = std::max(cohort_row, reduced * width * (8 + 7 * config_.mixing_layers) +
                                          6 * d * width + 3 * reduced * d);
    int64_t grid = node;
    if (config_.ffn_grid == model::GridKind::kSO3)
      grid = rows_of(block.lmax) * 2 * (2 * block.kmax + 1) * 4;
    chunk_row = std::max(chunk_row, 14 * grid * config_.ffn_neurons);
  }
  plan.bytes_per_atom = size * (kept + 3 * rows_of(config_.init_lmax) * width);
  plan.fixed_bytes =
      store_.bytes() + size * (cohort_row * options_.cohort + chunk_row * row_chunk());
  return plan;
}

}  // namespace

std::unique_ptr<model::Evaluator> make_evaluator(const ModelConfig& config, const Weights& weights,
                                                 const EvaluatorOptions& options) {
  return std::make_unique<EagerEvaluator>(config, weights, options);
}

}  // namespace dpa4::eager
