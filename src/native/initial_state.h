// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/native/cohorts.h"
#include "src/native/radial_net.h"

namespace dpa4::native {

/// Node arrays of the initial state.
template <class Real>
struct InitialNodes {
  Real* kappa = nullptr;        // (n_owned)
  const Real* gate = nullptr;   // (N) source gate, or null
  Real* environment = nullptr;  // (n_owned, 4, width)
  Real* x = nullptr;            // (n_owned, D, C)
};

template <class Real>
struct InitialGradients {
  const Real* x = nullptr;      // (n_owned, D, C)
  Real* environment = nullptr;  // (n_owned, 4, width)
  Real* degree = nullptr;       // (n_owned)
  const Real* kappa = nullptr;  // (n_owned) kappa times its gradient from the blocks, or null
  Real* gate = nullptr;         // (N) or null  +=
  Real* vec = nullptr;          // (E, 3) by edge  +=
};

/// Node features before the first block: the type's features, modulated by the environment (FiLM),
/// and the degrees l >= 1 summed over the edges. Source: spec part 1, sections 3.6, 6.5, 6.6 and 7.
template <class Real>
class InitialState {
 public:
  InitialState(const EngineContext<Real>& context, WeightStore<Real>& store,
               const model::ModelConfig& config, const RadialNet<Real>& radial);

  /// Type features (n_types, C), with charge and spin.
  void set_type_features(WeightStore<Real>& store, const HostMatrix& type_features);

  int environment_width() const { return embed_; }
  bool seeded() const { return seeded_; }

  std::int64_t edge_size(int count, bool backward) const;
  std::int64_t node_size(int count) const;

  /// kappa of a range of nodes.
  void degree(const StepEdges& step, int first, int count, Real* kappa) const;
  /// Environment matrices and rows l >= 1 of the destinations of a group.
  void sum_edges(const StepEdges& step, const Cohorts& cohorts, const Group& group,
                 const InitialNodes<Real>& nodes, Arena<Real> arena) const;
  /// Row 0 of a range of nodes; without seed all rows, also of nodes that are not owned.
  void scalars(const StepEdges& step, int first, int count, const InitialNodes<Real>& nodes,
               Arena<Real> arena) const;

  /// Gradients of the environment matrices and of the degree sums of a range of nodes.
  void scalars_backward(const StepEdges& step, int first, int count,
                        const InitialNodes<Real>& nodes, const InitialGradients<Real>& gradients,
                        Arena<Real> arena) const;
  /// Adds the edges' part to dE/dvec.
  void sum_edges_backward(const StepEdges& step, const Cohorts& cohorts, const Group& group,
                          const InitialNodes<Real>& nodes, const InitialGradients<Real>& gradients,
                          Arena<Real> arena) const;
  /// Adds the part of dE/dvec that goes through the source gates (N) of a group of sources.
  void gate_edges_backward(const StepEdges& step, const Cohorts& cohorts, const Group& group,
                           const Real* gate, const Real* grad_gate, Real* grad_vec,
                           Arena<Real> arena) const;

 private:
  struct EdgeBuffers {
    EdgeBuffers(Arena<Real>& arena, const InitialState& state, int count, bool backward);

    typename RadialNet<Real>::Buffers radial;  // without seed all of it, else only the geometry
    Real* zonal_work = nullptr;                // of edge_condition
    Real* hidden_work = nullptr;
    Real* zonal = nullptr;    // (count, L, C)
    Real* hidden = nullptr;   // (count, hidden) before its activation
    Real* active = nullptr;   // (count, hidden)
    Real* feature = nullptr;  // (count, embed)
    Real* grad_length = nullptr;
    Real* grad_unit = nullptr;
    Real* grad_gate = nullptr;
  };

  /// From lengths to the radial part of the degrees l >= 1, and from lengths and types to the
  /// hidden layer of the environment's features.
  kernels::EdgeConditionNet<Real> zonal_net() const {
    return radial_.condition_net(zonal_, nullptr);
  }
  kernels::EdgeConditionNet<Real> hidden_net() const;
  /// Geometry and edge features of a cohort.
  void features(const StepEdges& step, const kernels::EdgeSlice& edges, const EdgeBuffers& b) const;

  const EngineContext<Real>& context_;
  const RadialNet<Real>& radial_;
  bool seeded_ = false;
  int lmax_ = 0;
  int channels_ = 0;
  int embed_ = 0;
  int axes_ = 0;
  double eps_ = 0;
  double degree_floor_ = 0;
  double scale_strength_ = 0;
  double shift_strength_ = 0;
  const Real* type_table_ = nullptr;  // (types, C)
  Linear<Real> zonal_;                // (hidden width, L C)
  kernels::RadialLayer<Real> first_;  // (n_radial, rbf width)
  Linear<Real> second_;               // (rbf width, hidden): two layers in one
  const Real* src_table_ = nullptr;   // (types, hidden)
  const Real* dst_table_ = nullptr;
  Linear<Real> third_;  // (hidden, embed)
  Linear<Real> film_;   // (embed axes, 2 C)
  const Real* scale_norm_ = nullptr;
  const Real* shift_norm_ = nullptr;
};

}  // namespace dpa4::native
