// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "src/eager/tensor_store.h"
#include "src/math/grid.h"
#include "src/model/model_config.h"

/// The layers of DPA4 as differentiable functions of tensors (spec part 2, sections 3 to 6 and 8).
/// Rows: n nodes or edges, d coefficient rows, f focus streams, c channels.
namespace dpa4::eager {

at::Tensor activate(const model::Activation& activation, const at::Tensor& x);

/// x / rms(x) * scale over the last dimension; the scale broadcasts.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& scale, double eps);

/// y[n, d, f, o] = sum_i x[n, d, f, i] W[degree[d], i, f * Cout + o], bias on row 0.
/// x: (n, d, f, Cin); weights "weight" (l+1, Cin, f * Cout) and optional "bias" (f * Cout).
at::Tensor so3_linear(const TensorStore& w, const at::Tensor& x, const at::Tensor& degree);

/// y[b, f, o] = sum_i x[b, f, i] W[i, f * Cout + o] + bias.
at::Tensor focus_linear(const TensorStore& w, const at::Tensor& x);

/// Rows of degree l scaled by one statistic per node; row 0 is centered and has a bias.
/// x: (n, (l+1)^2, c); weights "adam_scale" (l+1, 1, c), "bias" (1, c); `stored`: type of the
/// file's tables.
at::Tensor equivariant_norm(const TensorStore& w, const at::Tensor& x, int lmax, double eps,
                            model::FloatType stored);

/// The same on m-major rows: x (n, rows, f, c), weights "adam_scale" (f, l+1, c), "bias0" (f, c).
at::Tensor reduced_equivariant_norm(const TensorStore& w, const at::Tensor& x, int lmax, int mmax,
                                    model::FloatType stored);

/// Row 0: act(x); rows of degree l > 0: times a sigmoid gate computed from row 0 of `gate` (GLU
/// form) or of x. x: (n, d, f, c); weights "gate_linear.weight" (c, f * L * c), absent when L = 0.
at::Tensor gated_activation(const TensorStore& w, const model::Activation& activation,
                            const at::Tensor& x, const at::Tensor& gate, const at::Tensor& degree,
                            int lmax);

/// Weighted mean of depth sources (n, ...): weights softmax_j(query . key_j); one source passes
/// unchanged. `scalars` are the sources' l = 0 features (n, c), `current` those of the current
/// state.
at::Tensor depth_attention(const TensorStore& w, const std::vector<at::Tensor>& sources,
                           const std::vector<at::Tensor>& scalars, const at::Tensor& current,
                           double eps);

/// A nonlinearity evaluated on a grid of the sphere or of SO(3).
class GridNet {
 public:
  GridNet(TensorStore weights, model::GridOp op, const math::GridMatrices& grid,
          const std::vector<int>& degrees, int channels, int n_focus);

  /// FFN form: input (n, d, f, 2 * K * c), left and right operand; output (n, d, f, K * c).
  at::Tensor self(const at::Tensor& input) const;

  /// Node form: query and context (n, d, f, c) -> (n, d, f, c).
  at::Tensor cross(const at::Tensor& query, const at::Tensor& context) const;

 private:
  at::Tensor combine(at::Tensor left, at::Tensor right, const at::Tensor& scalars,
                     bool self_mode) const;
  at::Tensor to_grid(const at::Tensor& coefficients) const;
  at::Tensor from_grid(const at::Tensor& values) const;
  at::Tensor each_frame(const at::Tensor& coefficients, const at::Tensor& matrix) const;
  at::Tensor frame_mix(const at::Tensor& coefficients, const at::Tensor& weight) const;

  TensorStore w_;
  model::GridOp op_;
  int frames_, channels_, focus_;
  at::Tensor to_, from_;  // (G, d * K), (d * K, G)
  at::Tensor degree_;     // (d)
};

}  // namespace dpa4::eager
