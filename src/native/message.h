// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "src/native/cohorts.h"
#include "src/native/radial_net.h"

namespace dpa4::native {

/// Pre-activations of the mixing stacks that are kept from forward to backward: those of the first
/// `edges` edges in the order by source.
template <class Real>
struct KeptStacks {
  std::int64_t edges = 0;
  const int* row = nullptr;  // (E) by edge: place in the order by source, or -1
  Real* data = nullptr;      // (n_layers, F, edges, R, Cf) of this block
};

/// Node arrays of one block's convolution.
template <class Real>
struct MessageNodes {
  const Real* features = nullptr;  // xw  (N, D, Cw)
  const Real* query = nullptr;     // (N, Cw)
  const Real* key = nullptr;       // (N, Cw)
  const Real* gate = nullptr;      // (N) source gate, or null
  Real* logit = nullptr;           // (E, F H) by edge: logits, and in the backward their gradients
  Real* lse = nullptr;             // (n_owned, F H)
  Real* sum = nullptr;             // pg  (n_owned, D, Cw)
};

/// Gradients of the node arrays; all are added to.
template <class Real>
struct MessageGradients {
  const Real* sum = nullptr;      // dE/d pg  (n_owned, D, Cw)
  const Real* row_sum = nullptr;  // (n_owned, F H)  <grad pg, pg>
  Real* features = nullptr;       // (N, D, Cw)
  Real* key = nullptr;            // (N, Cw)
  Real* gate = nullptr;           // (N) or null
  Real* vec = nullptr;            // (E, 3) by edge
};

/// The edge part of a block's SO(2) convolution: from node features to messages summed over the
/// edges of each destination, and back. Source: spec part 2, sections 7.2 to 7.7, 13.3 to 13.6
/// and 14.
///
/// The radial network's last layer, the hidden projection, the degree mixer and the radial part of
/// the attention logits are linear in a row, so they are multiplied into one matrix when the model
/// is loaded: (hidden width) -> (radial coefficients, logits). What depends on the types of an
/// edge's ends becomes a table by type.
template <class Real>
class Message {
 public:
  Message(const EngineContext<Real>& context, WeightStore<Real>& store,
          const model::ModelConfig& config, int block, const RadialNet<Real>& radial);

  /// Type features (n_types, C), with charge and spin.
  void set_type_features(WeightStore<Real>& store, const HostMatrix& type_features);

  const kernels::MessageShape& shape() const { return shape_; }
  int n_layers() const { return static_cast<int>(layers_.size()); }
  /// Elements that are kept of an edge when its stack is not recomputed.
  std::int64_t kept_size() const {
    return static_cast<std::int64_t>(n_layers()) * shape_.n_focus * shape_.row_size();
  }

  /// Elements a lane needs for cohorts of `count` edges.
  std::int64_t forward_size(int count) const;
  std::int64_t backward_size(int count) const;

  /// Messages of the destinations of a group: writes nodes.logit, lse and sum.
  void forward(const StepEdges& step, const Cohorts& cohorts, const Group& group,
               const MessageNodes<Real>& nodes, const KeptStacks<Real>& kept,
               Arena<Real> arena) const;

  /// Adds what the edges of a group of sources contribute to the gradients; leaves the gradients of
  /// the logits in nodes.logit.
  void backward(const StepEdges& step, const Cohorts& cohorts, const Group& group,
                const MessageNodes<Real>& nodes, const MessageGradients<Real>& gradients,
                const KeptStacks<Real>& kept, Arena<Real> arena) const;

 private:
  struct Buffers {
    Buffers(Arena<Real>& arena, const Message& message, int count, bool backward);

    Real* unit = nullptr;            // (count, 3)
    Real* envelope = nullptr;        // (count)
    Real* wigner = nullptr;          // (count, 3 L (L + 2))
    Real* condition_work = nullptr;  // of edge_condition
    Real* conditioned = nullptr;     // (count, ld) radial coefficients, then logits
    Real* alpha = nullptr;           // (count, weights)
    Real* focus = nullptr;           // (count, F), or null for F = 1
    Real* u = nullptr;               // (F, count, R, Cf)
    Real* work = nullptr;
    Real* kept = nullptr;     // (n_layers - 1, F, count, R, Cf)
    Real* scalars = nullptr;  // (F, count, Cf)
    // Sums over the operations of a cohort, cleared at once: sums_size elements from the first one.
    Real* grad_envelope = nullptr;     // (count)
    Real* torque = nullptr;            // (count, 3)
    Real* grad_gate = nullptr;         // (count)
    Real* grad_conditioned = nullptr;  // (count, ld)
    std::int64_t sums_size = 0;
    Real* grad_alpha = nullptr;
    Real* grad_focus = nullptr;
    Real* grad_u = nullptr;
  };

  kernels::EdgeConditionNet<Real> condition_net() const {
    return radial_.condition_net(conditioning_, type_table_);
  }
  kernels::EdgeSlice slice(const StepEdges& step, const Cohort& cohort, bool by_src) const;
  /// Geometry, radial coefficients and logits of a cohort.
  void condition(const StepEdges& step, const kernels::EdgeSlice& edges,
                 const MessageNodes<Real>& nodes, const Buffers& b, bool logits) const;
  /// Weights and stack inputs of a cohort: alpha, u, focus; of u only its scalars where the stack
  /// is not computed.
  void prepare(const kernels::EdgeSlice& edges, const MessageNodes<Real>& nodes, const Buffers& b,
               bool with_stack) const;
  void stack(int count, const Buffers& b, Real* kept, std::int64_t kept_rows, const int* kept_row,
             bool keep_result) const;
  void aggregate(const kernels::EdgeSlice& edges, const MessageNodes<Real>& nodes,
                 const Buffers& b) const;

  const EngineContext<Real>& context_;
  const RadialNet<Real>& radial_;
  kernels::MessageShape shape_;
  double eps_ = 0;
  int ld_ = 0;                  // columns of `conditioned`: radial coefficients, logits, padding
  HostMatrix type_projection_;  // (C, ld)
  Linear<Real> conditioning_;   // (hidden width, ld)
  const Real* type_table_ = nullptr;     // (types, ld)
  const Real* channel_basis_ = nullptr;  // (rank, Cw)
  const Real* null_logit_ = nullptr;     // (F H)
  const Real* focus_scale_ = nullptr;    // (F, Cf) or null
  const Real* competition_ = nullptr;    // (Cf, F)
  std::vector<kernels::So2Layer<Real>> layers_;
};

}  // namespace dpa4::native
