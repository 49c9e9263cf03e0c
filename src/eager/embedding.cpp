// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/embedding.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "src/eager/halo.h"
#include "src/eager/layers.h"
#include "src/math/harmonics.h"

namespace dpa4::eager {
namespace {

/// x W + b (the bias where the file has one).
at::Tensor dense(const TensorStore& w, const at::Tensor& x) {
  at::Tensor y = at::matmul(x, w("matrix"));
  if (w.has("bias")) y = y + w("bias");
  return y;
}

}  // namespace

Embedding::Embedding(const model::ModelConfig& config, const TensorStore& descriptor)
    : config_(config), w_(descriptor), functions_(config, descriptor("radial_basis.adam_freqs")) {}

at::Tensor Embedding::type_table(const at::Tensor& charge_spin) const {
  const at::Tensor table = w_("type_embedding.adam_type_embedding").narrow(0, 0, config_.n_types());
  if (!config_.add_chg_spin_ebd) return table;
  const TensorStore w = w_.scope("charge_spin_embedding");
  const at::Tensor index = charge_spin.to(at::kLong);  // (.., 2): charge, multiplicity
  const at::Tensor charge = w("charge_embedding.adam_type_embedding")
                                .index_select(0, index.select(-1, 0).reshape({-1}) + 100);
  const at::Tensor spin =
      w("spin_embedding.adam_type_embedding").index_select(0, index.select(-1, 1).reshape({-1}));
  return table +
         activate(config_.activation, dense(w.scope("mix_layer"), at::cat({charge, spin}, -1)));
}

at::Tensor Embedding::radial(const EdgeGeometry& g) const {
  const TensorStore w = w_.scope("radial_embedding.net");
  at::Tensor x = functions_.radial_basis(g);
  int slot = 0;
  for (std::size_t layer = 0; layer < config_.radial_mlp.size(); ++layer) {
    x = at::matmul(x, w.scope(std::to_string(slot))("matrix"));
    if (config_.edge_norm_radial) {
      x = rms_norm(x, w.scope(std::to_string(slot + 1))("adam_scale"), 1e-7);
      ++slot;
    }
    x = activate(config_.activation, x);
    slot += 2;
  }
  x = at::matmul(x, w.scope(std::to_string(slot))("matrix"));
  if (config_.format_version >= 1.1) x = x * functions_.envelope(g).unsqueeze(-1);
  return x.reshape({x.size(0), config_.init_lmax + 1, config_.channels});
}

Var Embedding::source_gate(Tape& tape, EdgeStream& edges, model::HaloExchange& halo) const {
  // Per source: the sum of ln w over its edges with w > 0, and the number of edges with w = 0.
  const Var partial = edges.sum(tape, {}, Side::kSrc, edges.n_nodes(), [this](const Cohort& c) {
    const at::Tensor w = functions_.bridging_switch(functions_.geometry(c.vec));
    const at::Tensor open = w > 0.0;
    return at::stack(
        {at::log(at::where(open, w, at::ones_like(w))), at::logical_not(open).to(w.dtype())}, -1);
  });
  const Var total = complete_over_ranks(tape, partial, halo);
  return tape.rows({total}, edges.n_nodes(), [](const std::vector<at::Tensor>& in, RowRange) {
    const at::Tensor product = at::exp(in[0].narrow(1, 0, 1));
    const at::Tensor blocked = in[0].narrow(1, 1, 1) > 0.5;
    return std::vector<at::Tensor>{at::where(blocked, at::zeros_like(product), product)};
  })[0];
}

/// The moment of one edge: [w/r, w x/r^2, ...] (x) g(basis, types), (e, 4, width).
at::Tensor Embedding::environment_terms(const Cohort& c) const {
  const TensorStore w = w_.scope("env_seed_embedding");
  const EdgeGeometry g = functions_.geometry(c.vec);
  const at::Tensor rho = functions_.environment(g);
  const at::Tensor& types = w("env_type_embed.adam_type_embedding");
  const at::Tensor basis = dense(
      w.scope("rbf_proj_layer2"),
      activate(config_.activation, dense(w.scope("rbf_proj_layer1"), functions_.radial_basis(g))));
  const at::Tensor joined =
      at::cat({basis, types.index_select(0, c.src_type), types.index_select(0, c.dst_type)}, -1);
  const at::Tensor gamma =
      dense(w.scope("g_layer2"), activate(config_.activation, dense(w.scope("g_layer1"), joined)));
  at::Tensor moment = rho.unsqueeze(-1) * gamma.unsqueeze(1);
  if (!c.gathered.empty()) moment = moment * c.gathered[0].unsqueeze(-1);
  return moment;
}

/// Feature-wise scale and shift of the type features from the environment moments M (n, 4, width).
at::Tensor Embedding::film(const at::Tensor& moments, const at::Tensor& type_rows) const {
  const int64_t width = moments.size(2);
  const int64_t axes = std::min<int64_t>(width < 64 ? 4 : 8, std::max<int64_t>(1, width - 1));
  const at::Tensor gram = at::matmul(moments.transpose(1, 2), moments.narrow(2, 0, axes));
  const at::Tensor logits = at::matmul(gram.reshape({moments.size(0), width * axes}),
                                       w_("env_seed_embedding.output_proj.matrix"));
  at::Tensor scale = logits.narrow(1, 0, config_.channels);
  at::Tensor shift = logits.narrow(1, config_.channels, config_.channels);
  if (config_.edge_norm_film) {
    scale = rms_norm(scale, w_("film_scale_norm.adam_scale"), config_.eps);
    shift = rms_norm(shift, w_("film_shift_norm.adam_scale"), config_.eps);
  }
  return type_rows * (1.0 + at::exp(w_("film_scale_strength_log")) * at::tanh(scale)) +
         at::exp(w_("film_shift_strength_log")) * at::tanh(shift);
}

NodeState Embedding::initial_state(Tape& tape, EdgeStream& edges, const at::Tensor& type_table,
                                   model::HaloExchange& halo) const {
  NodeState state;
  const int64_t n = edges.n_owned();
  if (config_.bridging_zbl) state.source_gate = source_gate(tape, edges, halo);

  const Var degree = edges.sum(tape, {}, Side::kDst, n, [this](const Cohort& c) {
    const at::Tensor w = functions_.envelope(functions_.geometry(c.vec));
    return (w * w).unsqueeze(-1);
  });
  const double floor = config_.format_version >= 1.1 ? 0.25 : config_.eps;
  state.inverse_root_degree =
      tape.rows({degree}, n, [floor](const std::vector<at::Tensor>& in, RowRange) {
        return std::vector<at::Tensor>{at::rsqrt(in[0] + floor)};
      })[0];

  const int64_t n_rows = static_cast<int64_t>(config_.init_lmax + 1) * (config_.init_lmax + 1);
  const at::Tensor types = edges.node_type().narrow(0, 0, n);
  // One row of the table per type, or (isolated atoms with conditions of their own) one per node.
  const auto type_rows = [type_table, types](RowRange rows) {
    return type_table.index_select(0, rows.of(types));
  };
  if (!config_.use_env_seed) {
    state.features = tape.rows(
        {state.inverse_root_degree}, n, [=](const std::vector<at::Tensor>&, RowRange rows) {
          const at::Tensor scalar = type_rows(rows).unsqueeze(1);
          return std::vector<at::Tensor>{at::constant_pad_nd(scalar, {0, 0, 0, n_rows - 1})};
        })[0];
    return state;
  }

  std::vector<EdgeInput> gate;
  if (state.source_gate) gate.push_back({state.source_gate, Side::kSrc});
  const Var moments = edges.sum(tape, gate, Side::kDst, n,
                                [this](const Cohort& c) { return environment_terms(c); });
  std::vector<Var> inputs{moments, state.inverse_root_degree};
  if (config_.init_lmax >= 1) {
    const at::Tensor degree_of_row =
        index_tensor(math::packed_degrees(config_.init_lmax), type_table.options())
            .narrow(0, 1, n_rows - 1);
    inputs.push_back(edges.sum(tape, gate, Side::kDst, n, [this, degree_of_row](const Cohort& c) {
      const EdgeGeometry g = functions_.geometry(c.vec);
      const at::Tensor z =
          functions_.harmonics(g, config_.init_lmax).narrow(1, 1, degree_of_row.size(0));
      at::Tensor terms = z.unsqueeze(-1) * radial(g).index_select(1, degree_of_row);
      if (!c.gathered.empty()) terms = terms * c.gathered[0].unsqueeze(-1);
      return terms;
    }));
  }
  state.features =
      tape.rows(inputs, n, [=, this](const std::vector<at::Tensor>& in, RowRange rows) {
        const at::Tensor weight = in[1].unsqueeze(-1);
        const at::Tensor scalar = film(in[0] * weight, type_rows(rows)).unsqueeze(1);
        if (in.size() == 2) return std::vector<at::Tensor>{scalar};
        return std::vector<at::Tensor>{at::cat({scalar, in[2] * weight}, 1)};
      })[0];
  return state;
}

}  // namespace dpa4::eager
