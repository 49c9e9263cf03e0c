// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "src/eager/embedding.h"
#include "src/eager/layers.h"
#include "src/eager/so2_conv.h"

namespace dpa4::eager {

/// Feed-forward net on the rows of a node (spec part 2, section 8.1): linear, nonlinearity, linear.
class Ffn {
 public:
  struct Options {
    int lmax = 0;
    int kmax = 0;
    int hidden = 0;
    model::GridKind grid = model::GridKind::kNone;
    model::GridOp op;
    bool lebedev = true;
    bool glu = true;
    model::Activation activation;
  };

  Ffn(const Options& options, const TensorStore& weights);

  /// (n, (lmax+1)^2, C) -> the same shape.
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Options options_;
  TensorStore w_;
  at::Tensor degree_;
  std::optional<GridNet> grid_;
};

/// The interaction blocks and the read-out: node features -> invariant descriptor (spec part 2,
/// section 8).
class BlockStack {
 public:
  BlockStack(const model::ModelConfig& config, const TensorStore& descriptor,
             const Embedding& embedding);

  /// The descriptor of every owned atom, (n_owned, C).
  Var forward(Tape& tape, EdgeStream& edges, const NodeState& state, const at::Tensor& type_table,
              model::HaloExchange& halo) const;

 private:
  struct Block {
    model::BlockShape shape;
    TensorStore w;
    So2Conv conv;
    std::vector<Ffn> ffns;
  };

  /// A step of a residual stream: the output of one unit, not yet added to anything.
  Var conv_unit(Tape& tape, EdgeStream& edges, const Block& block, const Var& input,
                const NodeState& state, const at::Tensor& type_table,
                model::HaloExchange& halo) const;
  at::Tensor conv_post(const Block& block, const at::Tensor& message) const;
  at::Tensor ffn_unit(const Block& block, std::size_t j, const at::Tensor& x) const;
  Var truncated(Tape& tape, const Var& x, int lmax, int64_t n) const;
  Var attend(Tape& tape, const TensorStore& w, const std::vector<Var>& sources, const Var& current,
             int lmax, int64_t n) const;

  Var plain_blocks(Tape& tape, EdgeStream& edges, const NodeState& state,
                   const at::Tensor& type_table, model::HaloExchange& halo) const;
  Var attention_blocks(Tape& tape, EdgeStream& edges, const NodeState& state,
                       const at::Tensor& type_table, model::HaloExchange& halo) const;

  const model::ModelConfig& config_;
  TensorStore w_;
  std::vector<Block> blocks_;
  std::vector<Ffn> readout_;  // pre layers, then the output layer
};

}  // namespace dpa4::eager
