// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "src/model/model_config.h"
#include "src/native/engine_context.h"

namespace dpa4::native {

/// The atoms and edges of a step in the machine's memory (EdgeList, src/graph/edge_list.h).
struct StepEdges {
  int n_owned = 0;
  int n_nodes = 0;
  int n_edges = 0;
  const int* type = nullptr;       // (n_nodes)
  const int* src = nullptr;        // (E)
  const int* dst = nullptr;        // (E)
  const double* vec = nullptr;     // (E, 3)
  const int* dst_begin = nullptr;  // (n_owned + 1)
  const int* by_src = nullptr;     // (E)
  const int* src_begin = nullptr;  // (n_nodes + 1)

  bool operator==(const StepEdges&) const = default;
};

kernels::RadialShape radial_shape(const model::ModelConfig& config);

/// Geometry of a cohort's edges and the weights of the radial network: everything about an edge
/// that all blocks share. Nothing of it is kept; it is made anew in every pass from the edge's
/// vector.
template <class Real>
class RadialNet {
 public:
  RadialNet(const EngineContext<Real>& context, WeightStore<Real>& store,
            const model::ModelConfig& config);

  /// Buffers of a cohort of `count` edges.
  struct Buffers {
    Buffers() = default;
    Buffers(Arena<Real>& arena, const RadialNet& net, int count, int lmax, bool backward);

    Real* length = nullptr;         // (count)
    Real* unit = nullptr;           // (count, 3)
    Real* envelope = nullptr;       // (count)
    Real* basis = nullptr;          // (count, n_radial)
    Real* wigner = nullptr;         // (count, 3 L (L + 2))
    Real* grad_envelope = nullptr;  // (count)
    Real* torque = nullptr;         // (count, 3)
    Real* grad_basis = nullptr;     // (count, n_radial)
  };

  /// Geometry and rotations of a cohort's edges; no rotations for lmax = 0.
  void geometry(const StepEdges& step, const kernels::EdgeSlice& edges, int lmax,
                const Buffers& buffers) const;

  int hidden_width() const { return hidden_width_; }

  /// Clears the gradients that a backward pass adds to.
  void clear(const Buffers& buffers, int count) const;

  /// Adds all gradients of the buffers to dE/dvec. grad_length and grad_unit may be null.
  void geometry_backward(const StepEdges& step, const kernels::EdgeSlice& edges,
                         const Buffers& buffers, const Real* grad_length, const Real* grad_unit,
                         Real* grad_vec) const;

  /// The net from lengths and types to the columns of `conditioning` (hidden_width, width): the
  /// hidden layers, then `conditioning` and, if not null, a table by type for both ends of an edge.
  /// Valid as long as this object.
  kernels::EdgeConditionNet<Real> condition_net(const Linear<Real>& conditioning,
                                                const Real* type_table) const;

  const kernels::RadialShape& shape() const { return shape_; }
  const Real* frequencies() const { return frequencies_; }
  /// The last layer: (hidden_width, (init_lmax + 1) C).
  const HostMatrix& output() const { return output_; }
  /// False for models of format 1.0, whose radial features carry no envelope.
  bool enveloped() const { return enveloped_; }

 private:
  const EngineContext<Real>& context_;
  kernels::RadialShape shape_;
  const Real* frequencies_ = nullptr;
  std::vector<kernels::RadialLayer<Real>> layers_;
  int hidden_width_ = 0;
  HostMatrix output_;
  bool enveloped_ = true;
};

}  // namespace dpa4::native
