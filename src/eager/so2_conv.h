// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>

#include "src/eager/embedding.h"
#include "src/eager/layers.h"

namespace dpa4::eager {

/// Messages along edges and their aggregation (spec part 2, section 7).
class So2Conv {
 public:
  So2Conv(const model::ModelConfig& config, const model::BlockShape& shape,
          const TensorStore& weights, const Embedding& embedding);

  /// input: (n_nodes, D, C), owned rows and copies. Returns (n_owned, D, C).
  /// `norm` is the pre-norm of the block, applied first where it exists.
  Var forward(Tape& tape, EdgeStream& edges, const Var& input, const NodeState& state,
              const at::Tensor& type_table, std::optional<TensorStore> norm) const;

 private:
  struct Rows;  // gathered node rows of a cohort, by meaning
  struct Features {
    EdgeGeometry geometry;
    at::Tensor envelope;  // (e)
    at::Tensor radial;    // (e, L+1, Cw)
  };

  Features features(const Cohort& c, const at::Tensor& type_table) const;
  at::Tensor message(const Features& f, const at::Tensor& source,
                     const at::Tensor& destination) const;
  at::Tensor local_message(const Features& f, const at::Tensor& source,
                           const at::Tensor& destination) const;
  at::Tensor cartesian_message(const Features& f, const at::Tensor& source) const;
  at::Tensor mix_radial(const at::Tensor& local, const at::Tensor& radial) const;
  at::Tensor mixing_stack(at::Tensor u, const Features& f) const;
  at::Tensor so2_linear(int layer, const at::Tensor& u) const;
  at::Tensor focus_weights(const at::Tensor& scalars) const;
  at::Tensor logits(const at::Tensor& q, const at::Tensor& k, const Features& f,
                    const at::Tensor& gate) const;
  at::Tensor node_cartesian(const at::Tensor& message, const at::Tensor& node) const;
  at::Tensor cartesian_layers(const TensorStore& w, int n_layers, at::Tensor h,
                              const std::function<at::Tensor(const at::Tensor&)>& product) const;

  const model::ModelConfig& config_;
  model::BlockShape shape_;
  TensorStore w_;
  const Embedding& embedding_;

  int lmax_, mmax_, n_rows_, n_reduced_;
  int focus_, focus_dim_, width_;  // F, Cf, Cw
  int attn_focus_, attn_dim_, heads_, head_dim_;
  bool cartesian_, local_frame_;
  model::Activation activation_;
  at::Tensor packed_of_reduced_, degree_of_reduced_, degree_of_packed_;
  at::Tensor back_scale_;  // (D) inverse-rotation rescale
  struct LinearWeights {
    at::Tensor m0;              // (F, (L+1) Cin, (L+1) Cout)
    std::vector<at::Tensor> m;  // [m-1]: (F, 2 n Cin, 2 n Cout)
  };
  std::vector<LinearWeights> linears_;
  std::optional<GridNet> node_wise_, message_node_;
  std::vector<GridNet> s2_activations_;
  at::Tensor basis_;  // (D, 3, 3) Cartesian basis
};

}  // namespace dpa4::eager
