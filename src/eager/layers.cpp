// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/layers.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/math/harmonics.h"
#include "src/math/norm.h"

namespace dpa4::eager {

using model::ActivationKind;
using model::GridOpKind;

at::Tensor activate(const model::Activation& activation, const at::Tensor& x) {
  switch (activation.kind) {
    case ActivationKind::kSilu:
      return at::silu(x);
    case ActivationKind::kTanh:
      return at::tanh(x);
    case ActivationKind::kRelu:
      return at::relu(x);
    case ActivationKind::kRelu6:
      return at::clamp(x, 0, 6);
    case ActivationKind::kSoftplus:
      return at::softplus(x);
    case ActivationKind::kSigmoid:
      return at::sigmoid(x);
    case ActivationKind::kGelu:
      return at::gelu(x, "tanh");
    case ActivationKind::kLinear:
      return x;
    case ActivationKind::kSilut: {
      const double t = activation.threshold;
      const double s = 1.0 / (1.0 + std::exp(-t));
      const double slope = s + t * s * (1.0 - s);
      return at::where(x < t, at::silu(x), at::tanh((x - t) * slope) + t * s);
    }
  }
  throw InternalError("dpa4 internal error: unknown activation");
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& scale, double eps) {
  return x * at::rsqrt((x * x).mean(-1, /*keepdim=*/true) + eps) * scale;
}

at::Tensor so3_linear(const TensorStore& w, const at::Tensor& x, const at::Tensor& degree) {
  const int64_t n = x.size(0), d = x.size(1), f = x.size(2), in = x.size(3);
  const at::Tensor& weight = w("weight");  // (l+1, in, f * out)
  const int64_t out = weight.size(2) / f;
  at::Tensor y;
  if (f == 1) {
    y = at::bmm(x.reshape({n, d, in}).transpose(0, 1), weight.index_select(0, degree))
            .transpose(0, 1)
            .unsqueeze(2);  // (n, d, 1, out)
  } else {
    const at::Tensor by_focus = weight.reshape({-1, in, f, out}).permute({0, 2, 1, 3});
    y = at::matmul(x.permute({1, 2, 0, 3}), by_focus.index_select(0, degree)).permute({2, 0, 1, 3});
  }
  if (!w.has("bias")) return y;
  const at::Tensor bias = w("bias").reshape({1, 1, f, out});
  return at::cat({y.narrow(1, 0, 1) + bias, y.narrow(1, 1, d - 1)}, 1);
}

at::Tensor focus_linear(const TensorStore& w, const at::Tensor& x) {
  const int64_t f = x.size(1), in = x.size(2);
  const at::Tensor weight = w("weight").reshape({in, f, -1}).permute({1, 0, 2});  // (f, in, out)
  at::Tensor y = at::bmm(x.transpose(0, 1), weight).transpose(0, 1);
  if (w.has("bias")) y = y + w("bias").reshape({1, f, -1});
  return y;
}

namespace {

/// `scale` holds one row per degree, `balance` one weight per row.
at::Tensor center_and_scale(const at::Tensor& x, const at::Tensor& row_scale,
                            const at::Tensor& bias, const at::Tensor& balance, double eps) {
  const at::Tensor scalar = x.narrow(1, 0, 1);
  const at::Tensor centered =
      at::cat({scalar - scalar.mean(-1, true), x.narrow(1, 1, x.size(1) - 1)}, 1);
  const at::Tensor variance = (centered * centered * balance).sum({1, -1}, /*keepdim=*/true);
  const at::Tensor y = centered * at::rsqrt(variance + eps) * row_scale;
  return at::cat({y.narrow(1, 0, 1) + bias, y.narrow(1, 1, y.size(1) - 1)}, 1);
}

}  // namespace

at::Tensor equivariant_norm(const TensorStore& w, const at::Tensor& x, int lmax, double eps,
                            model::FloatType stored) {
  const std::vector<int> degrees = math::packed_degrees(lmax);
  std::vector<double> balance;
  for (int l : degrees) {
    balance.push_back(math::norm_balance(2 * l + 1, lmax, static_cast<int>(x.size(2)),
                                         stored == model::FloatType::kFloat64));
  }
  const at::Tensor degree = index_tensor(degrees, x.options());
  const at::Tensor scale =
      w("adam_scale").index_select(0, degree).reshape({1, x.size(1), x.size(2)});
  return center_and_scale(x, scale, w("bias").reshape({1, 1, -1}),
                          constant(balance, {1, x.size(1), 1}, x.options()), eps);
}

at::Tensor reduced_equivariant_norm(const TensorStore& w, const at::Tensor& x, int lmax, int mmax,
                                    model::FloatType stored) {
  const math::MMajorIndex rows = math::m_major_index(lmax, mmax);
  std::vector<double> balance;
  for (int l : rows.degree) {
    balance.push_back(math::norm_balance(2 * std::min(l, mmax) + 1, lmax,
                                         static_cast<int>(x.size(3)),
                                         stored == model::FloatType::kFloat64));
  }
  const at::Tensor degree = index_tensor(rows.degree, x.options());
  const at::Tensor scale = w("adam_scale").index_select(1, degree).transpose(0, 1).unsqueeze(0);
  return center_and_scale(x, scale, w("bias0").reshape({1, 1, x.size(2), x.size(3)}),
                          constant(balance, {1, x.size(1), 1, 1}, x.options()), 1e-5);
}

at::Tensor gated_activation(const TensorStore& w, const model::Activation& activation,
                            const at::Tensor& x, const at::Tensor& gate, const at::Tensor& degree,
                            int lmax) {
  const int64_t n = x.size(0), d = x.size(1), f = x.size(2), c = x.size(3);
  const at::Tensor scalar = x.select(1, 0);  // (n, f, c)
  const at::Tensor source = gate.defined() ? gate.select(1, 0) : scalar;
  const at::Tensor first =
      gate.defined() ? scalar * activate(activation, source) : activate(activation, scalar);
  if (lmax == 0) return first.unsqueeze(1);
  const at::Tensor gates = at::sigmoid(focus_linear(w.scope("gate_linear"), source));
  const at::Tensor by_degree = gates.reshape({n, f, lmax, c}).transpose(1, 2);  // (n, L, f, c)
  const at::Tensor row_gates = by_degree.index_select(1, degree.narrow(0, 1, d - 1) - 1);
  return at::cat({first.unsqueeze(1), x.narrow(1, 1, d - 1) * row_gates}, 1);
}

at::Tensor depth_attention(const TensorStore& w, const std::vector<at::Tensor>& sources,
                           const std::vector<at::Tensor>& scalars, const at::Tensor& current,
                           double eps) {
  if (sources.size() == 1) return sources[0];
  at::Tensor query;
  if (w.has("query_proj.weight")) {
    query = at::matmul(current, w("query_proj.weight"));
    if (w.has("query_proj.bias")) query = query + w("query_proj.bias");
  } else {
    query = w("adamw_pseudo_query").reshape({1, -1});
  }
  const at::Tensor keys =
      rms_norm(at::stack(scalars, 1), w("key_norm.adam_scale").reshape({-1}), eps);
  const at::Tensor weight = at::softmax((keys * query.unsqueeze(1)).sum(-1), 1);  // (n, s)
  at::Tensor total;
  for (std::size_t j = 0; j < sources.size(); ++j) {
    std::vector<int64_t> shape(static_cast<std::size_t>(sources[j].dim()), 1);
    shape[0] = sources[j].size(0);
    const at::Tensor term = sources[j] * weight.select(1, static_cast<int64_t>(j)).reshape(shape);
    total = total.defined() ? total + term : term;
  }
  return total;
}

GridNet::GridNet(TensorStore weights, model::GridOp op, const math::GridMatrices& grid,
                 const std::vector<int>& degrees, int channels, int n_focus)
    : w_(std::move(weights)),
      op_(op),
      frames_(grid.n_frames),
      channels_(channels),
      focus_(n_focus) {
  const int64_t columns = static_cast<int64_t>(grid.n_rows) * grid.n_frames;
  // A file that carries the matrices (rounded to the type of its weights) means those.
  const bool stored = w_.has("projector.to_grid_mat");
  to_ = stored ? w_("projector.to_grid_mat")
               : constant(grid.to, {grid.n_points, columns}, w_.options());
  from_ = stored ? w_("projector.from_grid_mat")
                 : constant(grid.from, {columns, grid.n_points}, w_.options());
  if (to_.sizes() != at::IntArrayRef({grid.n_points, columns}) ||
      from_.sizes() != at::IntArrayRef({columns, grid.n_points})) {
    throw InputError(
        "the model's stored grid matrices (to_grid_mat, from_grid_mat) do not have the shape "
        "its options call for");
  }
  degree_ = index_tensor(degrees, w_.options());
}

at::Tensor GridNet::to_grid(const at::Tensor& x) const {
  const int64_t n = x.size(0), d = x.size(1), f = x.size(2), c = x.size(3) / frames_;
  const at::Tensor columns =
      x.reshape({n, d, f, frames_, c}).transpose(2, 3).reshape({n, d * frames_, f * c});
  return at::matmul(to_, columns).reshape({n, to_.size(0), f, c});
}

at::Tensor GridNet::from_grid(const at::Tensor& values) const {
  const int64_t n = values.size(0), f = values.size(2), c = values.size(3);
  const int64_t d = from_.size(0) / frames_;
  return at::matmul(from_, values.reshape({n, values.size(1), f * c}))
      .reshape({n, d, frames_, f, c})
      .transpose(2, 3)
      .reshape({n, d, f, frames_ * c});
}

at::Tensor GridNet::each_frame(const at::Tensor& x, const at::Tensor& matrix) const {
  const int64_t n = x.size(0), d = x.size(1), f = x.size(2);
  return at::matmul(x.reshape({n, d, f, frames_, x.size(3) / frames_}), matrix)
      .reshape({n, d, f, frames_ * matrix.size(1)});
}

at::Tensor GridNet::frame_mix(const at::Tensor& x, const at::Tensor& weight) const {
  return at::matmul(x.permute({1, 2, 0, 3}), weight.index_select(0, degree_).unsqueeze(1))
      .permute({2, 0, 1, 3});
}

at::Tensor GridNet::combine(at::Tensor left, at::Tensor right, const at::Tensor& scalars,
                            bool self_mode) const {
  const int64_t n = left.size(0), d = left.size(1), f = left.size(2), k = frames_, c = channels_;
  if (op_.kind == GridOpKind::kMlp && self_mode) {
    const at::Tensor both =
        at::cat({left.reshape({n, d, f, k, c}), right.reshape({n, d, f, k, c})}, -1)
            .reshape({n, d, f, 2 * k * c});
    left = each_frame(both, w_("grid_op.left_proj.weight"));
    right = each_frame(both, w_("grid_op.right_proj.weight"));
  } else if (op_.kind != GridOpKind::kGlu) {
    left = each_frame(left, w_("grid_op.left_proj.weight"));
    right = each_frame(right, w_("grid_op.right_proj.weight"));
  }
  at::Tensor product = to_grid(left) * to_grid(right);  // (n, G, f, c')
  if (op_.kind == GridOpKind::kBranch) {
    const at::Tensor router = at::softmax(at::matmul(scalars, w_("grid_op.router.weight")), -1);
    product = (product.reshape({n, product.size(1), f, op_.branches, c}) *
               router.reshape({n, 1, f, op_.branches, 1}))
                  .sum(3);
  }
  at::Tensor coefficients = from_grid(product);
  if (op_.kind != GridOpKind::kGlu)
    coefficients = each_frame(coefficients, w_("grid_op.out_proj.weight"));

  // The invariant path: a gate on everything, a SwiGLU on (row 0, frame 0).
  const at::Tensor gate = at::sigmoid(focus_linear(w_.scope("scalar_gate"), scalars));  // (n, f, c)
  const at::Tensor gated = coefficients.reshape({n, d, f, k, c}) * gate.reshape({n, 1, f, 1, c});
  const at::Tensor swiglu = at::silu(scalars.narrow(-1, 0, c)) * scalars.narrow(-1, c, c);
  const at::Tensor row0 = gated.narrow(1, 0, 1);
  const at::Tensor frame0 = row0.narrow(3, 0, 1) + swiglu.reshape({n, 1, f, 1, c});
  const at::Tensor new_row0 = k == 1 ? frame0 : at::cat({frame0, row0.narrow(3, 1, k - 1)}, 3);
  return at::cat({new_row0, gated.narrow(1, 1, d - 1)}, 1).reshape({n, d, f, k * c});
}

at::Tensor GridNet::self(const at::Tensor& input) const {
  const int64_t half = static_cast<int64_t>(frames_) * channels_;
  const at::Tensor left = input.narrow(-1, 0, half), right = input.narrow(-1, half, half);
  // Frame 0 comes first, so the scalars are the leading channels of row 0.
  const at::Tensor scalars = at::cat(
      {left.select(1, 0).narrow(-1, 0, channels_), right.select(1, 0).narrow(-1, 0, channels_)},
      -1);
  return combine(left, right, scalars, /*self_mode=*/true);
}

at::Tensor GridNet::cross(const at::Tensor& query, const at::Tensor& context) const {
  const at::Tensor scalars = at::cat({query.select(1, 0), context.select(1, 0)}, -1);
  const bool frames = w_.has("frame_expand.weight");
  const auto expand = [&](const at::Tensor& x) {
    return frames ? frame_mix(x, w_("frame_expand.weight")) : x;
  };
  at::Tensor out = combine(expand(query), expand(context), scalars, /*self_mode=*/false);
  if (frames) out = frame_mix(out, w_("frame_contract.weight"));
  return out * w_("residual_scale").reshape({1, 1, focus_, channels_});
}

}  // namespace dpa4::eager
