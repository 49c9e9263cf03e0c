// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/so2_conv.h"

#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/math/harmonics.h"

namespace dpa4::eager {

using model::AttnResidual;
using model::GridKind;
using model::NodeCartesian;
using model::RadialMode;

namespace {

/// Orthonormal 3x3 matrices of degrees 0, 1, 2 (spec part 1, section 4.6), (D, 3, 3).
at::Tensor cartesian_basis(int lmax, at::TensorOptions options) {
  const double a = 1 / std::sqrt(2.0), b = 1 / std::sqrt(3.0), c = 1 / std::sqrt(6.0);
  std::vector<double> values = {b,  0,  0,  0,  b,  0,  0,  0, b,      //
                                0,  0,  -a, 0,  0,  0,  a,  0, 0,      //
                                0,  a,  0,  -a, 0,  0,  0,  0, 0,      //
                                0,  0,  0,  0,  0,  -a, 0,  a, 0,      //
                                0,  -a, 0,  -a, 0,  0,  0,  0, 0,      //
                                0,  0,  0,  0,  0,  a,  0,  a, 0,      //
                                -c, 0,  0,  0,  -c, 0,  0,  0, 2 * c,  //
                                0,  0,  -a, 0,  0,  0,  -a, 0, 0,      //
                                a,  0,  0,  0,  -a, 0,  0,  0, 0};
  const int64_t n = static_cast<int64_t>(lmax + 1) * (lmax + 1);
  values.resize(static_cast<std::size_t>(n * 9));
  return constant(values, {n, 3, 3}, options);
}

math::GridMatrices grid_matrices(const model::ModelConfig& config, GridKind kind,
                                 const model::BlockShape& shape, int mmax, math::RowLayout layout,
                                 math::S2Points product) {
  if (kind == GridKind::kSO3) return math::so3_grid(shape.lmax, mmax, shape.kmax, layout);
  return math::s2_grid(shape.lmax, mmax, layout,
                       config.lebedev_so2 ? math::S2Points::kLebedev : product);
}

}  // namespace

So2Conv::So2Conv(const model::ModelConfig& config, const model::BlockShape& shape,
                 const TensorStore& weights, const Embedding& embedding)
    : config_(config), shape_(shape), w_(weights), embedding_(embedding) {
  const at::TensorOptions options = w_.options();
  lmax_ = shape.lmax;
  mmax_ = shape.mmax;
  n_rows_ = (lmax_ + 1) * (lmax_ + 1);
  focus_ = config.n_focus;
  focus_dim_ = config.focus_dim;
  width_ = config.hidden_width();
  heads_ = config.n_heads;
  // The S2 activation of the stack turns every gate of the convolution into silu.
  activation_ = config.s2_activation_so2 ? model::Activation{} : config.activation;
  attn_focus_ = config.atten_f_mix ? 1 : focus_;
  attn_dim_ = width_ / attn_focus_;
  head_dim_ = heads_ > 0 ? attn_dim_ / heads_ : 0;
  cartesian_ = config.edge_cartesian && (lmax_ == 1 || lmax_ == 2);
  local_frame_ = config.mixing_layers > 0 || config.radial_mode != RadialMode::kNone ||
                 config.node_wise != GridKind::kNone;

  const math::MMajorIndex reduced = math::m_major_index(lmax_, mmax_);
  n_reduced_ = static_cast<int>(reduced.packed.size());
  packed_of_reduced_ = index_tensor(reduced.packed, options);
  degree_of_reduced_ = index_tensor(reduced.degree, options);
  const std::vector<int> degrees = math::packed_degrees(lmax_);
  degree_of_packed_ = index_tensor(degrees, options);
  std::vector<double> back_scale;
  for (int l : degrees) {
    back_scale.push_back(l <= mmax_ ? 1.0 : std::sqrt((2.0 * l + 1) / (2.0 * mmax_ + 1)));
  }
  back_scale_ = constant(back_scale, {1, n_rows_, 1}, options);
  if (lmax_ == 1 || lmax_ == 2) basis_ = cartesian_basis(lmax_, options);

  if (!cartesian_ && local_frame_) {
    for (int i = 0; i < config.mixing_layers; ++i) {
      const TensorStore w = w_.scope("so2_linears", i);
      const auto by_focus = [&](const at::Tensor& weight) {
        return weight.reshape({weight.size(0), focus_, -1}).permute({1, 0, 2}).contiguous();
      };
      LinearWeights linear;
      linear.m0 = by_focus(w("weight_m0"));
      for (int m = 1; m <= mmax_; ++m) {
        const at::Tensor uv = by_focus(w("weight_m." + std::to_string(m - 1)));
        const at::Tensor u = uv.narrow(2, 0, uv.size(2) / 2),
                         v = uv.narrow(2, uv.size(2) / 2, uv.size(2) / 2);
        // (real | imaginary) times (U + i V)
        linear.m.push_back(at::cat({at::cat({u, v}, 2), at::cat({-v, u}, 2)}, 1).contiguous());
      }
      linears_.push_back(std::move(linear));
      if (config.s2_activation_so2 && i + 1 < config.mixing_layers) {
        s2_activations_.emplace_back(
            w_.scope("non_linearities", i), model::GridOp{},
            grid_matrices(config, GridKind::kS2, shape, mmax_, math::RowLayout::kMMajor,
                          math::S2Points::kProduct),
            reduced.degree, focus_dim_, focus_);
      }
    }
    if (config.node_wise != GridKind::kNone) {
      node_wise_.emplace(w_.scope("node_wise_grid_product"), config.node_wise_op,
                         grid_matrices(config, config.node_wise, shape, mmax_,
                                       math::RowLayout::kMMajor, math::S2Points::kProduct),
                         reduced.degree, focus_dim_, focus_);
    }
  }
  if (config.message_node != GridKind::kNone) {
    message_node_.emplace(w_.scope("message_node_grid_product"), config.message_node_op,
                          grid_matrices(config, config.message_node, shape, lmax_,
                                        math::RowLayout::kPacked, math::S2Points::kProductSquare),
                          degrees, focus_dim_, focus_);
  }
}

So2Conv::Features So2Conv::features(const Cohort& c, const at::Tensor& type_table) const {
  Features f;
  f.geometry = embedding_.functions().geometry(c.vec);
  f.envelope = embedding_.functions().envelope(f.geometry);
  const at::Tensor types =
      type_table.index_select(0, c.src_type) + type_table.index_select(0, c.dst_type);
  f.radial = embedding_.radial(f.geometry).narrow(1, 0, lmax_ + 1) + types.unsqueeze(1);
  if (w_.has("radial_hidden_proj.weight")) {
    f.radial = at::matmul(f.radial, w_("radial_hidden_proj.weight"));
  }
  return f;
}

/// Conditions the edge-frame rows on the radial features (section 7.2). local: (e, R, Cw).
at::Tensor So2Conv::mix_radial(const at::Tensor& local, const at::Tensor& radial) const {
  if (config_.radial_mode == RadialMode::kNone) {
    return local * radial.index_select(1, degree_of_reduced_);
  }
  const int64_t n = local.size(0);
  const TensorStore w = w_.scope("radial_degree_mixer");
  const at::Tensor kernel = at::matmul(radial.reshape({n, (lmax_ + 1) * width_}), w("weight"));
  const bool by_channel = config_.radial_mode == RadialMode::kDegreeChannel;
  const int rank = by_channel ? config_.radial_rank : 0;
  const int64_t extra = !by_channel ? 1 : rank > 0 ? rank : width_;

  std::vector<at::Tensor> blocks;
  int64_t kernel_at = 0, row_at = 0;
  for (int m = 0; m <= mmax_; ++m) {
    const int64_t degrees = lmax_ - m + 1;
    const at::Tensor k = kernel.narrow(1, kernel_at * extra, degrees * degrees * extra)
                             .reshape({n, degrees, degrees, extra});  // (e, in, out, extra)
    for (int sign = 0; sign < (m == 0 ? 1 : 2); ++sign) {
      const at::Tensor x = local.narrow(1, row_at, degrees);  // (e, in, Cw)
      at::Tensor y;
      if (!by_channel) {
        y = at::matmul(k.select(3, 0).transpose(1, 2), x);
      } else if (rank > 0) {
        for (int r = 0; r < rank; ++r) {
          const at::Tensor term =
              at::matmul(k.select(3, r).transpose(1, 2), x) * w("channel_basis").select(0, r);
          y = y.defined() ? y + term : term;
        }
      } else {
        y = (k * x.unsqueeze(2)).sum(1);
      }
      blocks.push_back(y);
      row_at += degrees;
    }
    kernel_at += degrees * degrees;
  }
  return at::cat(blocks, 1);
}

/// Per-order linear map of edge-frame rows: (e, R, F, Cin) -> (e, R, F, Cout).
at::Tensor So2Conv::so2_linear(int layer, const at::Tensor& u) const {
  const LinearWeights& linear = linears_[static_cast<std::size_t>(layer)];
  const int64_t n = u.size(0), in = u.size(3), out = linear.m0.size(2) / (lmax_ + 1);
  const at::Tensor rows = u.permute({2, 0, 1, 3}).reshape({focus_, n, n_reduced_ * in});
  std::vector<at::Tensor> blocks{at::bmm(rows.narrow(2, 0, (lmax_ + 1) * in), linear.m0)};
  int64_t at = (lmax_ + 1) * in;
  for (int m = 1; m <= mmax_; ++m) {
    const int64_t size = 2 * static_cast<int64_t>(lmax_ - m + 1) * in;
    blocks.push_back(at::bmm(rows.narrow(2, at, size), linear.m[static_cast<std::size_t>(m - 1)]));
    at += size;
  }
  return at::cat(blocks, 2).reshape({focus_, n, n_reduced_, out}).permute({1, 2, 0, 3});
}

at::Tensor So2Conv::focus_weights(const at::Tensor& scalars) const {
  constexpr double kSmoothing = 0.02;
  const at::Tensor normed =
      config_.edge_norm_focus ? rms_norm(scalars, w_("focus_compete_norm.adam_scale"), config_.eps)
                              : scalars;
  at::Tensor logit = (normed * w_("adamw_focus_compete_w").t()).sum(-1);  // (e, F)
  if (w_.has("focus_compete_bias")) logit = logit + w_("focus_compete_bias");
  return at::softmax(logit, 1) * (1.0 - kSmoothing) + kSmoothing / focus_;
}

/// u: (e, R, F, Cf) after radial conditioning.
at::Tensor So2Conv::mixing_stack(at::Tensor u, const Features& f) const {
  const bool depth_attention_on = config_.so2_attn_res != AttnResidual::kNone;
  const auto scalars = [&](const at::Tensor& t) {
    return t.select(1, 0).reshape({t.size(0), width_});
  };
  std::vector<at::Tensor> sources{u};
  for (int i = 0; i < config_.mixing_layers; ++i) {
    const bool last = i + 1 == config_.mixing_layers;
    if (depth_attention_on) {
      std::vector<at::Tensor> source_scalars;
      for (const at::Tensor& source : sources) source_scalars.push_back(scalars(source));
      u = depth_attention(w_.scope("so2_layer_attn_res", i), sources, source_scalars, scalars(u),
                          config_.eps);
    }
    at::Tensor h = u;
    if (config_.so2_norm && !last) {
      h = reduced_equivariant_norm(w_.scope("so2_inter_norms", i), h, lmax_, mmax_,
                                   config_.precision);
    }
    h = so2_linear(i, h);
    const TensorStore linear = w_.scope("so2_linears", i);
    if (linear.has("bias0")) {
      at::Tensor bias = linear("bias0").reshape({1, focus_, -1});
      if (i == 0) {
        // A bias may not create a message at the cutoff: it is scaled by the radial features.
        at::Tensor factor = f.radial.select(1, 0).reshape({-1, focus_, focus_dim_}) *
                            f.envelope.reshape({-1, 1, 1});
        if (bias.size(2) == 2 * focus_dim_) factor = at::cat({factor, factor}, -1);
        bias = bias * factor;
      }
      h = at::cat({h.narrow(1, 0, 1) + bias.unsqueeze(1), h.narrow(1, 1, n_reduced_ - 1)}, 1);
    }
    if (!last) {
      h = config_.s2_activation_so2 ? s2_activations_[static_cast<std::size_t>(i)].self(h)
                                    : gated_activation(w_.scope("non_linearities", i), activation_,
                                                       h, at::Tensor(), degree_of_reduced_, lmax_);
    }
    if (config_.layer_scale) {
      h = h * w_("adam_so2_layer_scales." + std::to_string(i)).reshape({1, 1, focus_, focus_dim_});
    }
    u = u + h;
    if (depth_attention_on) sources.push_back(h);
  }
  return u;
}

at::Tensor So2Conv::local_message(const Features& f, const at::Tensor& source,
                                  const at::Tensor& destination) const {
  const int64_t n = source.size(0);
  // Rows |m| <= mmax of the block-diagonal rotation, in m-major order: (e, R, D).
  std::vector<at::Tensor> degrees = embedding_.functions().wigner(f.geometry, lmax_);
  std::vector<at::Tensor> padded;
  std::vector<int> row_of(static_cast<std::size_t>(n_rows_), -1);
  int next_row = 0;
  for (int l = 0; l <= lmax_; ++l) {
    const int m = std::min(l, mmax_);
    padded.push_back(
        at::constant_pad_nd(degrees[static_cast<std::size_t>(l)].narrow(1, l - m, 2 * m + 1),
                            {l * l, n_rows_ - (l + 1) * (l + 1)}));
    for (int k = -m; k <= m; ++k) row_of[static_cast<std::size_t>(l * l + l + k)] = next_row++;
  }
  std::vector<int> order;
  for (int packed : math::m_major_index(lmax_, mmax_).packed) {
    order.push_back(row_of[static_cast<std::size_t>(packed)]);
  }
  const at::Tensor rotation = at::cat(padded, 1).index_select(1, index_tensor(order, w_.options()));

  at::Tensor y = mix_radial(at::bmm(rotation, source), f.radial);  // (e, R, Cw)
  if (node_wise_) {
    const auto by_focus = [&](const at::Tensor& t) {
      return t.reshape({n, n_reduced_, focus_, focus_dim_});
    };
    y = y + node_wise_->cross(by_focus(y), by_focus(at::bmm(rotation, destination)))
                .reshape({n, n_reduced_, width_});
  }
  const at::Tensor u0 = y.reshape({n, n_reduced_, focus_, focus_dim_});
  at::Tensor u = mixing_stack(u0, f);
  if (focus_ > 1) u = u * focus_weights(u0.select(1, 0)).reshape({n, 1, focus_, 1});
  return at::bmm(rotation.transpose(1, 2), u.reshape({n, n_reduced_, width_})) * back_scale_;
}

/// h += act(product(linear(h))) for every layer; none: product(h). h: (b, D, Cw).
at::Tensor So2Conv::cartesian_layers(
    const TensorStore& w, int n_layers, at::Tensor h,
    const std::function<at::Tensor(const at::Tensor&)>& product) const {
  const int64_t n = h.size(0);
  for (int i = 0; i < n_layers; ++i) {
    const at::Tensor mixed = so3_linear(
        w.scope("linears", i), h.reshape({n, n_rows_, focus_, focus_dim_}), degree_of_packed_);
    at::Tensor m = product(mixed.reshape({n, n_rows_, width_}));
    if (i + 1 < n_layers) {
      m = gated_activation(w.scope("activations", i), activation_,
                           m.reshape({n, n_rows_, focus_, focus_dim_}), at::Tensor(),
                           degree_of_packed_, lmax_)
              .reshape({n, n_rows_, width_});
    }
    h = h + m;
  }
  return h;
}

at::Tensor So2Conv::cartesian_message(const Features& f, const at::Tensor& source) const {
  const int64_t n = source.size(0);
  const at::Tensor u = embedding_.functions().direction(f.geometry);
  const at::Tensor x = u.select(-1, 0), y = u.select(-1, 1), z = u.select(-1, 2);
  const at::Tensor zero = at::zeros_like(x);
  const at::Tensor skew = at::stack({zero, -z, y, z, zero, -x, -y, x, zero}, -1).reshape({n, 3, 3});
  const at::Tensor identity = at::eye(3, u.options());
  // right[p, d, k, j] = sum_i B_p[i, j] B_d[i, k]: contracting with T[k, j] gives <B_d T, B_p>.
  const at::Tensor right =
      at::matmul(basis_.transpose(1, 2).unsqueeze(1), basis_.unsqueeze(0));  // (p, d, j, k)
  const auto operator_of = [&](const at::Tensor& t) {
    return at::matmul(t.transpose(1, 2).reshape({n, 9}), right.reshape({n_rows_ * n_rows_, 9}).t())
        .reshape({n, n_rows_, n_rows_});
  };
  const at::Tensor by_skew = operator_of(skew / std::sqrt(2.0));
  at::Tensor by_symmetric;
  if (lmax_ == 2) {
    const at::Tensor traceless = u.unsqueeze(-1) * u.unsqueeze(-2) - identity / 3.0;
    by_symmetric = operator_of(traceless / std::sqrt(2.0 / 3.0));
  }
  const auto product = [&](const at::Tensor& t) {
    at::Tensor m = f.radial.narrow(1, 0, 1) / std::sqrt(3.0) * t +
                   f.radial.narrow(1, 1, 1) * at::bmm(by_skew, t);
    if (lmax_ == 2) m = m + f.radial.narrow(1, 2, 1) * at::bmm(by_symmetric, t);
    return m;
  };
  if (config_.mixing_layers == 0) return product(source);
  return cartesian_layers(w_.scope("edge_cartesian_tp"), config_.mixing_layers, source, product);
}

/// The message of every edge in the global frame, (e, D, Cw).
at::Tensor So2Conv::message(const Features& f, const at::Tensor& source,
                            const at::Tensor& destination) const {
  if (!cartesian_ && local_frame_) return local_message(f, source, destination);
  const int64_t n = source.size(0);
  at::Tensor out = cartesian_ ? cartesian_message(f, source)
                              : source * f.radial.index_select(1, degree_of_packed_);
  if (focus_ > 1) {
    const at::Tensor scalars =
        (source.select(1, 0) * f.radial.select(1, 0)).reshape({n, focus_, focus_dim_});
    out = (out.reshape({n, n_rows_, focus_, focus_dim_}) *
           focus_weights(scalars).reshape({n, 1, focus_, 1}))
              .reshape({n, n_rows_, width_});
  }
  return out;
}

/// Attention logits with the logarithm of the edge weights, (e, Fa, H).
at::Tensor So2Conv::logits(const at::Tensor& q, const at::Tensor& k, const Features& f,
                           const at::Tensor& gate) const {
  const int64_t n = q.size(0);
  at::Tensor logit =
      (q * k).reshape({n, attn_focus_, heads_, head_dim_}).sum(-1) / std::sqrt(head_dim_);
  const at::Tensor radial =
      f.radial.select(1, 0).reshape({n, attn_focus_, attn_dim_}).transpose(0, 1);
  logit = logit + at::bmm(radial, w_("adamw_attn_logit_w").permute({1, 0, 2})).transpose(0, 1);
  const at::Tensor minus_infinity =
      at::full({}, -std::numeric_limits<double>::infinity(), logit.options());
  const auto add_log = [&](const at::Tensor& weight, double power) {
    const at::Tensor open = weight > 0.0;
    const at::Tensor log_weight = at::log(at::where(open, weight, at::ones_like(weight)));
    logit = at::where(open.reshape({n, 1, 1}), logit + power * log_weight.reshape({n, 1, 1}),
                      minus_infinity);
  };
  add_log(f.envelope, 2.0);
  if (gate.defined()) add_log(gate.reshape({n}), 1.0);
  return logit;
}

at::Tensor So2Conv::node_cartesian(const at::Tensor& message, const at::Tensor& node) const {
  const auto lift = [&](const at::Tensor& t) {  // (n, D, Cw) -> (n, Cw, 3, 3)
    return at::matmul(t.transpose(1, 2), basis_.reshape({n_rows_, 9}))
        .reshape({t.size(0), width_, 3, 3});
  };
  const at::Tensor fixed = lift(node);
  return cartesian_layers(w_.scope("node_cartesian_tp"), config_.node_cartesian_layers, message,
                          [&](const at::Tensor& t) {
                            const at::Tensor lifted = lift(t);
                            at::Tensor m = at::matmul(lifted, fixed);
                            if (config_.node_cartesian == NodeCartesian::kParity)
                              m = m + at::matmul(fixed, lifted);
                            return at::matmul(m.reshape({t.size(0), width_, 9}),
                                              basis_.reshape({n_rows_, 9}).t())
                                .transpose(1, 2);
                          });
}

Var So2Conv::forward(Tape& tape, EdgeStream& edges, const Var& input, const NodeState& state,
                     const at::Tensor& type_table, std::optional<TensorStore> norm) const {
  const int64_t n_owned = edges.n_owned(), n_nodes = edges.n_nodes();
  const auto node_scalars = [this](const at::Tensor& x) {
    return x.select(1, 0).reshape({x.size(0), attn_focus_, attn_dim_});
  };

  // Node side: channel mixing, queries and keys.
  const std::vector<Var> node =
      tape.rows({input}, n_nodes, [=, this](const std::vector<at::Tensor>& in, RowRange) {
        at::Tensor x = in[0].narrow(1, 0, n_rows_);
        if (norm) x = equivariant_norm(*norm, x, lmax_, 1e-5, config_.precision);
        x = so3_linear(w_.scope("pre_focus_mix"), x.unsqueeze(2), degree_of_packed_).squeeze(2);
        if (heads_ == 0) return std::vector<at::Tensor>{x};
        const at::Tensor scalars =
            rms_norm(node_scalars(x), w_("attn_qk_norm.adam_scale"), config_.eps);
        return std::vector<at::Tensor>{x, focus_linear(w_.scope("attn_q_proj"), scalars),
                                       focus_linear(w_.scope("attn_k_proj"), scalars)};
      });

  // Edge side. The destination's rows are gathered only where a node-wise grid reads them.
  std::vector<EdgeInput> inputs{{node[0], Side::kSrc}};
  const int destination_at = node_wise_ ? static_cast<int>(inputs.size()) : -1;
  if (node_wise_) inputs.push_back({node[0], Side::kDst});
  const int gate_at = state.source_gate ? static_cast<int>(inputs.size()) : -1;
  if (state.source_gate) inputs.push_back({state.source_gate, Side::kSrc});
  const auto optional_input = [](const Cohort& c, int at) {
    return at < 0 ? at::Tensor() : c.gathered[static_cast<std::size_t>(at)];
  };
  const auto edge_message = [=, this](const Cohort& c, const Features& f) {
    at::Tensor m = message(f, c.gathered[0], optional_input(c, destination_at));
    if (config_.atten_f_mix) {
      m = so3_linear(w_.scope("attn_focus_mix"), m.unsqueeze(2), degree_of_packed_).squeeze(2);
    }
    return m;
  };

  Var sum;
  if (heads_ == 0) {
    sum = edges.sum(tape, inputs, Side::kDst, n_owned, [=, this](const Cohort& c) {
      const Features f = features(c, type_table);
      at::Tensor weight = f.envelope.unsqueeze(-1);
      const at::Tensor gate = optional_input(c, gate_at);
      if (gate.defined()) weight = weight * gate;
      return edge_message(c, f) * weight.unsqueeze(-1);
    });
  } else {
    const auto q_at = static_cast<int>(inputs.size()), k_at = q_at + 1;
    inputs.push_back({node[1], Side::kDst});
    inputs.push_back({node[2], Side::kSrc});
    const at::Tensor log_null = at::log(at::softplus(w_("adamw_attn_z_bias_raw")) + config_.eps);
    sum = edges.attention(tape, inputs, log_null, [=, this](const Cohort& c, bool with_value) {
      const Features f = features(c, type_table);
      EdgeStream::Message out;
      out.logit = logits(c.gathered[static_cast<std::size_t>(q_at)],
                         c.gathered[static_cast<std::size_t>(k_at)], f, optional_input(c, gate_at));
      if (!with_value) return out;
      at::Tensor value = edge_message(c, f).reshape({-1, n_rows_, attn_focus_, attn_dim_});
      if (config_.atten_v_proj) {
        value = so3_linear(w_.scope("attn_v_proj"), value, degree_of_packed_);
      }
      out.value = value.reshape({-1, n_rows_, attn_focus_, heads_, head_dim_});
      return out;
    });
  }

  // Node side again: head gates, products with the node's own features, channel mixing.
  return tape.rows(
      {sum, node[0], state.inverse_root_degree}, n_owned,
      [=, this](const std::vector<at::Tensor>& in, RowRange) {
        const at::Tensor& x = in[1];
        const int64_t n = x.size(0);
        at::Tensor out;
        if (heads_ == 0) {
          out = in[0] * in[2].unsqueeze(-1);
        } else {
          const at::Tensor scalars =
              rms_norm(node_scalars(x), w_("attn_output_gate_norm.adam_scale"), config_.eps);
          const at::Tensor gate = at::sigmoid(
              at::bmm(scalars.transpose(0, 1), w_("adamw_attn_gate_w").permute({1, 0, 2}))
                  .transpose(0, 1));
          out = in[0] * gate.reshape({n, 1, attn_focus_, heads_, 1});
          if (config_.atten_o_proj) {
            out = so3_linear(w_.scope("attn_o_proj"),
                             out.reshape({n, n_rows_, attn_focus_, attn_dim_}), degree_of_packed_);
          }
          out = out.reshape({n, n_rows_, width_});
        }
        const auto by_focus = [&](const at::Tensor& t) {
          return t.reshape({n, n_rows_, focus_, focus_dim_});
        };
        if (message_node_) {
          out =
              out + message_node_->cross(by_focus(out), by_focus(x)).reshape({n, n_rows_, width_});
        }
        if (config_.node_cartesian != NodeCartesian::kNone && basis_.defined()) {
          out = node_cartesian(out, x);
        }
        return std::vector<at::Tensor>{
            so3_linear(w_.scope("post_focus_mix"), out.unsqueeze(2), degree_of_packed_).squeeze(2)};
      })[0];
}

}  // namespace dpa4::eager
