// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "src/native/grid_net.h"

namespace dpa4::native {

/// A norm over all degrees of a node.
template <class Real>
struct So3Norm {
  int lmax = 0;
  int channels = 0;
  double eps = 0;
  const Real* balance = nullptr;  // (L + 1)
  const Real* scale = nullptr;    // (L + 1, C)
  const Real* bias = nullptr;     // (C)
};

/// Arrays of the nodes [first, first + count) as a block's node part sees them; pointers are to the
/// first of them.
template <class Real>
struct NodeRange {
  int count = 0;
  const Real* x = nullptr;         // (count, D C) input of the block
  const Real* features = nullptr;  // (count, D, Cw)
  const Real* sum = nullptr;       // (count, D, Cw) aggregated messages
  const Real* kappa = nullptr;     // (count)
};

/// The part of a block that works on nodes: features, queries and keys before the messages; gate,
/// message-node product, output map, norms and FFNs after them.
/// Source: spec part 2, sections 7.1, 7.7, 7.8, 8.1, 8.2 and 13.1 to 13.3, 13.7.
template <class Real>
class NodeUpdate {
 public:
  NodeUpdate(const EngineContext<Real>& context, WeightStore<Real>& store,
             const model::ModelConfig& config, int block, const kernels::MessageShape& shape);

  int row() const { return rows_ * channels_; }               // elements of a node, D C
  int hidden_row() const { return rows_ * shape_.hidden(); }  // D Cw

  /// Elements a lane needs for `count` nodes.
  std::int64_t features_size(int count) const;
  std::int64_t update_size(int count, bool backward) const;

  /// features = pre_focus_mix(norm(x)), query and key (count, Cw); query and key null for H = 0.
  void make_features(int count, const Real* x, Real* features, Real* query, Real* key,
                     Arena<Real> arena) const;
  /// grad_x += dE/dx through the features, from grad_features (its row 0 is added to) and the
  /// gradients of query and key.
  void features_backward(int count, const Real* x, const Real* features, Real* grad_features,
                         const Real* grad_query, const Real* grad_key, Real* grad_x,
                         std::int64_t ld_grad, Arena<Real> arena) const;

  /// Buffers of `update` for `update_backward`.
  struct Buffers {
    Buffers() = default;
    Buffers(Arena<Real>& arena, const NodeUpdate& update, int count, bool backward);

    Real* normed_scalars = nullptr;  // (count, Cw)
    Real* gate_logit = nullptr;      // (count, F H)
    Real* gated = nullptr;           // (count, D, Cw) messages times their gate
    Real* mixed = nullptr;           // (count, D, Cw) with the message-node product, or gated
    Real* message = nullptr;         // (count, D, C) after the output map
    Real* normed = nullptr;          // (count, D, C) input of the current FFN
    Real* ffn_out = nullptr;         // (count, D, C)
    std::vector<Real*> state;        // (count, D, C) before each FFN and after the last
    typename GridNet<Real>::Buffers cross;
    std::vector<typename GridNet<Real>::Buffers> ffns;
    std::vector<Real*> ffn_results;  // (count, D, C) before the post-norm
    Real* grad_mixed = nullptr;      // (count, D, Cw)
    Real* grad_message = nullptr;    // (count, D, C)
    Real* grad_normed = nullptr;     // (count, D, C)
    Real* grad_logit = nullptr;      // (count, F H)
  };

  /// The block's output is the last of buffers.state.
  void update(const NodeRange<Real>& nodes, const Buffers& buffers) const;

  /// From grad (count rows of ld_grad; dE/d output, becomes the part of dE/dx that goes around the
  /// messages) to dE/d sum, its row sums and dE/d features (written); kappa_times_grad is added to.
  void update_backward(const NodeRange<Real>& nodes, const Buffers& buffers, Real* grad,
                       std::int64_t ld_grad, Real* grad_sum, Real* row_sum, Real* grad_features,
                       Real* kappa_times_grad) const;

 private:
  void norm(const So3Norm<Real>& norm, int count, const Real* x, std::int64_t ldx, Real* y) const;
  void norm_backward(const So3Norm<Real>& norm, int count, const Real* x, std::int64_t ldx,
                     const Real* grad_y, Real* grad_x, std::int64_t ld_grad, bool accumulate) const;

  const EngineContext<Real>& context_;
  kernels::MessageShape shape_;
  int channels_ = 0;
  int rows_ = 0;
  double eps_ = 0;
  std::optional<So3Norm<Real>> pre_so2_, post_so2_;
  DegreeLinear<Real> pre_mix_, post_mix_;
  const Real* qk_scale_ = nullptr;         // (F, Cf)
  std::vector<Linear<Real>> query_, key_;  // of each focus: (Cf, Cf)
  const Real* gate_scale_ = nullptr;       // (F, Cf)
  std::vector<Linear<Real>> gate_;         // of each focus: (Cf, H)
  std::optional<GridNet<Real>> cross_;
  struct Ffn {
    std::optional<So3Norm<Real>> pre, post;
    GridNet<Real> net;
  };
  std::vector<Ffn> ffns_;
};

}  // namespace dpa4::native
