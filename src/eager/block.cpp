// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/block.h"

#include "src/base/error.h"
#include "src/eager/halo.h"
#include "src/math/harmonics.h"

namespace dpa4::eager {

using model::AttnResidual;
using model::GridKind;

namespace {

int64_t rows_of(int lmax) { return static_cast<int64_t>(lmax + 1) * (lmax + 1); }

}  // namespace

Ffn::Ffn(const Options& options, const TensorStore& weights) : options_(options), w_(weights) {
  const std::vector<int> degrees = math::packed_degrees(options.lmax);
  degree_ = index_tensor(degrees, w_.options());
  if (options.grid == GridKind::kNone) return;
  const math::GridMatrices grid =
      options.grid == GridKind::kSO3
          ? math::so3_grid(options.lmax, options.lmax, options.kmax, math::RowLayout::kPacked)
          : math::s2_grid(
                options.lmax, options.lmax, math::RowLayout::kPacked,
                options.lebedev ? math::S2Points::kLebedev : math::S2Points::kProductSquare);
  grid_.emplace(w_.scope("act"), options.op, grid, degrees, options.hidden, 1);
}

at::Tensor Ffn::forward(const at::Tensor& x) const {
  at::Tensor h = so3_linear(w_.scope("so3_linear_1"), x.unsqueeze(2), degree_);  // (n, d, 1, ..)
  if (grid_) {
    h = grid_->self(h);
  } else {
    const int64_t hidden = options_.hidden;
    const at::Tensor value = h.narrow(-1, 0, hidden);
    const at::Tensor gate = options_.glu ? h.narrow(-1, hidden, hidden) : at::Tensor();
    h = gated_activation(w_.scope("act"), options_.activation, value, gate, degree_, options_.lmax);
  }
  return so3_linear(w_.scope("so3_linear_2"), h, degree_).squeeze(2);
}

BlockStack::BlockStack(const model::ModelConfig& config, const TensorStore& descriptor,
                       const Embedding& embedding)
    : config_(config), w_(descriptor) {
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    const model::BlockShape& shape = config.blocks[i];
    const TensorStore w = w_.scope("blocks", static_cast<int>(i));
    Block block{shape, w, So2Conv(config, shape, w.scope("so2_conv"), embedding), {}};
    for (int j = 0; j < config.ffn_blocks; ++j) {
      block.ffns.emplace_back(
          Ffn::Options{shape.node_lmax, shape.kmax, config.ffn_neurons, config.ffn_grid,
                       config.ffn_op, config.lebedev_ffn,
                       config.ffn_grid != GridKind::kNone || config.glu_activation,
                       config.activation},
          w.scope("ffns", j));
    }
    blocks_.push_back(std::move(block));
  }
  const bool scalar = config.readout_grid == GridKind::kNone;
  const Ffn::Options readout{scalar ? 0 : config.readout_lmax,
                             config.readout_kmax,
                             config.readout_neurons,
                             config.readout_grid,
                             config.readout_op,
                             /*lebedev=*/true,
                             config.glu_activation,
                             config.activation};
  for (int j = 0; j + 1 < config.readout_layers; ++j) {
    readout_.emplace_back(readout, w_.scope("readout_pre_layers", j));
  }
  readout_.emplace_back(readout, w_.scope("output_ffn"));
}

Var BlockStack::truncated(Tape& tape, const Var& x, int lmax, int64_t n) const {
  if (x->value.size(1) == rows_of(lmax)) return x;
  return tape.rows({x}, n, [lmax](const std::vector<at::Tensor>& in, RowRange) {
    return std::vector<at::Tensor>{in[0].narrow(1, 0, rows_of(lmax))};
  })[0];
}

Var BlockStack::conv_unit(Tape& tape, EdgeStream& edges, const Block& block, const Var& input,
                          const NodeState& state, const at::Tensor& type_table,
                          model::HaloExchange& halo) const {
  const Var all = extend_to_copies(tape, input, edges.n_nodes(), halo);
  std::optional<TensorStore> norm;
  if (config_.sandwich_norm[0]) norm = block.w.scope("pre_so2_norm");
  return block.conv.forward(tape, edges, all, state, type_table, norm);
}

/// Post-norm of a convolution's output, padded with zeros to the node's rows.
at::Tensor BlockStack::conv_post(const Block& block, const at::Tensor& message) const {
  at::Tensor y = message;
  if (config_.sandwich_norm[1]) {
    y = equivariant_norm(block.w.scope("post_so2_norm"), y, block.shape.lmax,
                         config_.edge_norm_radial ? 1e-5 : 1.0, config_.precision);
  }
  const int64_t missing = rows_of(block.shape.node_lmax) - y.size(1);
  return missing == 0 ? y : at::constant_pad_nd(y, {0, 0, 0, missing});
}

at::Tensor BlockStack::ffn_unit(const Block& block, std::size_t j, const at::Tensor& x) const {
  const int index = static_cast<int>(j), lmax = block.shape.node_lmax;
  at::Tensor t = x;
  if (config_.sandwich_norm[2])
    t = equivariant_norm(block.w.scope("pre_ffn_norms", index), t, lmax, 1e-5, config_.precision);
  t = block.ffns[j].forward(t);
  if (config_.sandwich_norm[3])
    t = equivariant_norm(block.w.scope("post_ffn_norms", index), t, lmax, 1e-5, config_.precision);
  if (config_.layer_scale) t = t * block.w("adam_ffn_layer_scales." + std::to_string(index));
  return t;
}

Var BlockStack::plain_blocks(Tape& tape, EdgeStream& edges, const NodeState& state,
                             const at::Tensor& type_table, model::HaloExchange& halo) const {
  const int64_t n = edges.n_owned();
  Var x = state.features;
  for (const Block& block : blocks_) {
    x = truncated(tape, x, block.shape.node_lmax, n);
    const Var message = conv_unit(tape, edges, block, x, state, type_table, halo);
    x = tape.rows({x, message}, n, [this, &block](const std::vector<at::Tensor>& in, RowRange) {
      at::Tensor y = in[0] + conv_post(block, in[1]);
      for (std::size_t j = 0; j < block.ffns.size(); ++j) y = y + ffn_unit(block, j, y);
      return std::vector<at::Tensor>{y};
    })[0];
  }
  return x;
}

/// Depth attention over node tables, truncated to degree lmax.
Var BlockStack::attend(Tape& tape, const TensorStore& w, const std::vector<Var>& sources,
                       const Var& current, int lmax, int64_t n) const {
  if (sources.size() == 1) return truncated(tape, sources[0], lmax, n);
  std::vector<Var> inputs = sources;
  inputs.push_back(current);
  return tape.rows(inputs, n, [this, w, lmax](const std::vector<at::Tensor>& in, RowRange) {
    std::vector<at::Tensor> values, scalars;
    for (std::size_t j = 0; j + 1 < in.size(); ++j) {
      values.push_back(in[j].narrow(1, 0, rows_of(lmax)));
      scalars.push_back(in[j].select(1, 0));
    }
    return std::vector<at::Tensor>{
        depth_attention(w, values, scalars, in.back().select(1, 0), config_.eps)};
  })[0];
}

/// Blocks whose units read an attention over the history instead of a running sum (section 8.2).
Var BlockStack::attention_blocks(Tape& tape, EdgeStream& edges, const NodeState& state,
                                 const at::Tensor& type_table, model::HaloExchange& halo) const {
  const int64_t n = edges.n_owned();
  const bool full = config_.full_attn_res != AttnResidual::kNone;
  const std::string prefix = full ? "full_attn_res" : "block_attn_res";
  Var x = state.features;
  std::vector<Var> history{x};
  for (const Block& block : blocks_) {
    const int lmax = block.shape.node_lmax;
    x = truncated(tape, x, lmax, n);
    const Var input = attend(tape, block.w.scope(prefix + "_so2"), history, x, lmax, n);
    const Var message = conv_unit(tape, edges, block, input, state, type_table, halo);
    Var unit = tape.rows({message}, n, [this, &block](const std::vector<at::Tensor>& in, RowRange) {
      return std::vector<at::Tensor>{conv_post(block, in[0])};
    })[0];
    std::vector<Var> units{unit};
    Var partial = unit;  // block mode: the sum of this block's units so far
    for (std::size_t j = 0; j < block.ffns.size(); ++j) {
      std::vector<Var> sources = history;
      if (full) {
        sources.insert(sources.end(), units.begin(), units.end());
      } else {
        sources.push_back(partial);
      }
      const Var ffn_input = attend(tape, block.w.scope(prefix + "_ffns", static_cast<int>(j)),
                                   sources, unit, lmax, n);
      unit =
          tape.rows({ffn_input}, n, [this, &block, j](const std::vector<at::Tensor>& in, RowRange) {
            return std::vector<at::Tensor>{ffn_unit(block, j, in[0])};
          })[0];
      units.push_back(unit);
      if (!full) {
        partial = tape.rows({partial, unit}, n, [](const std::vector<at::Tensor>& in, RowRange) {
          return std::vector<at::Tensor>{in[0] + in[1]};
        })[0];
      }
    }
    if (full) {
      history.insert(history.end(), units.begin(), units.end());
    } else {
      history.push_back(partial);
    }
    x = unit;
  }
  return attend(tape, w_.scope("final_" + prefix), history, x, config_.readout_lmax, n);
}

Var BlockStack::forward(Tape& tape, EdgeStream& edges, const NodeState& state,
                        const at::Tensor& type_table, model::HaloExchange& halo) const {
  const bool attention =
      config_.full_attn_res != AttnResidual::kNone || config_.block_attn_res != AttnResidual::kNone;
  const Var x = attention ? attention_blocks(tape, edges, state, type_table, halo)
                          : plain_blocks(tape, edges, state, type_table, halo);
  const int lmax = config_.readout_grid == GridKind::kNone ? 0 : config_.readout_lmax;
  return tape.rows({x}, edges.n_owned(), [this, lmax](const std::vector<at::Tensor>& in, RowRange) {
    at::Tensor y = in[0].narrow(1, 0, rows_of(lmax));
    for (const Ffn& layer : readout_) y = y + layer.forward(y);
    return std::vector<at::Tensor>{y.select(1, 0)};
  })[0];
}

}  // namespace dpa4::eager
