// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "src/math/grid.h"
#include "src/model/model_config.h"
#include "src/native/engine_context.h"

namespace dpa4::native {

/// A product of node features on a grid, between two linear maps: the FFN of a block (both factors
/// from the same features) or the message-node product (one factor from the messages, one from the
/// node).
///
/// The linear maps before the product are multiplied into one when the model is loaded, so a factor
/// is a single product with its features. Source: spec part 2, sections 6.2 and 8.1.
template <class Real>
class GridNet {
 public:
  struct Options {
    int lmax = 0;
    int n_focus = 1;
    int in = 0;     // channels of a focus stream that a factor is made of
    int width = 0;  // channels on the grid
    int out = 0;    // channels of a focus stream of the result
    int n_frames = 1;
    model::GridOp op;
    bool scalar_result = false;  // only row 0 of the result, from the mean over the grid
  };

  /// FFN: weights PREFIX.so3_linear_1, .act, .so3_linear_2; grid as given.
  static GridNet ffn(const EngineContext<Real>& context, WeightStore<Real>& store,
                     const std::string& prefix, const Options& options,
                     const math::GridMatrices& grid);
  /// True if the file carries the FFN's grid matrices, rounded: then means over the grid are not
  /// exact.
  static bool ffn_has_stored_grid(const WeightStore<Real>& store, const std::string& prefix);
  /// Message-node product on an SO(3) grid: weights PREFIX.frame_expand, ...
  static GridNet cross(const EngineContext<Real>& context, WeightStore<Real>& store,
                       const std::string& prefix, const Options& options,
                       const math::GridMatrices& grid);

  /// Buffers for `count` nodes: what forward leaves for backward.
  struct Buffers {
    Buffers() = default;
    Buffers(Arena<Real>& arena, const GridNet& net, int count, bool backward);

    Real* left = nullptr;          // (count F, K, fields)
    Real* right = nullptr;         // (count F, K, fields)
    Real* product = nullptr;       // (count F, K', product width), K' = 1 with scalar_result
    Real* coefficient = nullptr;   // (count F, K', width): product after out_proj
    Real* gated = nullptr;         // (count F, K', width)
    Real* scalars = nullptr;       // (count F, 2 width)
    Real* logit = nullptr;         // (count F, width)
    Real* router_logit = nullptr;  // (count F, branches)
    Real* router = nullptr;        // (count F, branches)
    Real* work = nullptr;
    Real* grad_scalars = nullptr;
    Real* grad_logit = nullptr;
    Real* grad_router = nullptr;
    Real* grad_left = nullptr;   // left itself unless scalar_result
    Real* grad_right = nullptr;  // right itself unless scalar_result
  };

  /// out += net(query, context), row d of node n at query + n ldq + d F in, and likewise for the
  /// others. A self product has query = context. With scalar_result out has one row.
  void forward(int count, const Real* query, std::int64_t ldq, const Real* context,
               std::int64_t ldc, Real* out, std::int64_t ldo, const Buffers& buffers) const;

  /// grad_query (+)= dE/dquery, grad_context (+)= dE/dcontext from grad_out; for a self product
  /// they are the same array. The buffers of forward are consumed.
  void backward(int count, const Real* grad_out, std::int64_t ldo, Real* grad_query,
                std::int64_t ldq, Real* grad_context, std::int64_t ldc, bool accumulate,
                const Buffers& buffers) const;

 private:
  GridNet(const EngineContext<Real>& context, const Options& options);
  void load_operation(WeightStore<Real>& store, const std::string& prefix,
                      const math::GridMatrices& grid);
  void set_factors(WeightStore<Real>& store, const std::vector<HostMatrix>& left,
                   const std::vector<HostMatrix>& right);
  int rows() const { return (options_.lmax + 1) * (options_.lmax + 1); }
  int coefficients() const { return rows() * options_.n_frames; }
  int result_coefficients() const { return options_.scalar_result ? 1 : coefficients(); }
  int fields() const { return shape_.width * shape_.n_branches; }

  /// Maps every row of every focus stream: in (count, rows, F, a) -> out (count, F, rows, b) or
  /// back.
  void factor(int count, const Real* from, std::int64_t ld, const DegreeLinear<Real>& map,
              Real* to) const;
  void factor_backward(int count, const Real* grad, const DegreeLinear<Real>& map, Real* to,
                       std::int64_t ld, bool accumulate) const;

  const EngineContext<Real>* context_;
  Options options_;
  bool cross_ = false;
  kernels::GridShape shape_;
  kernels::GridMatrices<Real> grid_;
  const Real* mean_weight_ = nullptr;
  DegreeLinear<Real> left_, right_;
  Linear<Real> scalar_pair_;               // self: (in, 2 width)
  std::vector<Linear<Real>> scalar_gate_;  // of each focus: (2 width, width)
  Linear<Real> router_;                    // (2 width, branches)
  Linear<Real> out_projection_;            // (product width, width)
  bool has_out_projection_ = false;
  std::vector<DegreeLinear<Real>> result_;  // of each focus: (frames width, out)
};

}  // namespace dpa4::native
