// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/eager/edge_geometry.h"
#include "src/eager/edge_stream.h"
#include "src/eager/tape.h"
#include "src/eager/tensor_store.h"
#include "src/model/evaluator.h"

namespace dpa4::eager {

/// Node quantities shared by all blocks of one step.
struct NodeState {
  Var features;             // (n_owned, (init_lmax+1)^2, C)
  Var inverse_root_degree;  // (n_owned, 1)
  Var source_gate;          // (n_nodes, 1), null without bridging
};

/// Everything between edge vectors and the first block: radial features, type embedding,
/// environment seed and geometric initial embedding (spec part 1, section 6).
class Embedding {
 public:
  Embedding(const model::ModelConfig& config, const TensorStore& descriptor);

  /// Type embedding with the charge/spin condition added, (n_types, C).
  at::Tensor type_table(const at::Tensor& charge_spin) const;

  /// Radial features without the type features: (e, init_lmax+1, C).
  at::Tensor radial(const EdgeGeometry& g) const;

  const EdgeFunctions& functions() const { return functions_; }

  NodeState initial_state(Tape& tape, EdgeStream& edges, const at::Tensor& type_table,
                          model::HaloExchange& halo) const;

 private:
  Var source_gate(Tape& tape, EdgeStream& edges, model::HaloExchange& halo) const;
  at::Tensor environment_terms(const Cohort& c) const;
  at::Tensor film(const at::Tensor& moments, const at::Tensor& type_rows) const;

  const model::ModelConfig& config_;
  TensorStore w_;
  EdgeFunctions functions_;
};

}  // namespace dpa4::eager
