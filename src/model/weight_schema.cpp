// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/weight_schema.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <utility>

namespace dpa4::model {

namespace {

using Shape = std::vector<std::int64_t>;
constexpr int kChargeStates = 200;  // -100 .. 99
constexpr int kSpinStates = 100;    // 0 .. 99

int round_up_to_32(int width) { return 32 * ((width + 31) / 32); }

/// Collects the arrays of one model; each method is one kind of module, named as in the checkpoint.
class SchemaBuilder {
 public:
  explicit SchemaBuilder(const ModelConfig& config) : c_(config) {}

  std::vector<WeightSpec> build() {
    embeddings();
    for (int i = 0; i < static_cast<int>(c_.blocks.size()); ++i) block(i, c_.blocks[i]);
    const std::string d = "descriptor.";
    if (c_.full_attn_res != AttnResidual::kNone) {
      depth_attention(d + "final_full_attn_res", c_.full_attn_res, c_.channels);
    }
    if (c_.block_attn_res != AttnResidual::kNone) {
      depth_attention(d + "final_block_attn_res", c_.block_attn_res, c_.channels);
    }
    for (int j = 0; j + 1 < c_.readout_layers; ++j) {
      readout_ffn(d + "readout_pre_layers." + std::to_string(j));
    }
    readout_ffn(d + "output_ffn");
    fitting();
    return std::move(specs_);
  }

 private:
  void add(const std::string& name, Shape shape) {
    specs_.push_back({name, std::move(shape), true});
  }
  void add_statistic(const std::string& name, Shape shape) {
    specs_.push_back({name, std::move(shape), false});
  }

  void embeddings() {
    const std::string d = "descriptor.";
    const int channels = c_.channels;
    const int table_rows = c_.n_types() + 1;  // the last row pads
    add(d + "type_embedding.adam_type_embedding", {table_rows, channels});
    if (c_.add_chg_spin_ebd) {
      const std::string p = d + "charge_spin_embedding.";
      add(p + "charge_embedding.adam_type_embedding", {kChargeStates, channels});
      add(p + "spin_embedding.adam_type_embedding", {kSpinStates, channels});
      add(p + "mix_layer.matrix", {2 * channels, channels});
      add(p + "mix_layer.bias", {channels});
    }
    if (c_.use_env_seed) environment_seed(table_rows);
    add(d + "radial_basis.adam_freqs", {1, c_.n_radial});
    radial_mlp();
  }

  void environment_seed(int table_rows) {
    const std::string d = "descriptor.";
    const int channels = c_.channels;
    const int embed = std::min(channels, 128);
    const int axis = std::min(embed < 64 ? 4 : 8, std::max(1, embed - 1));
    const int type_dim = std::min(32, std::max(8, channels / 4));
    const int rbf_dim = std::max(32, embed - 2 * type_dim);
    const int g_in = rbf_dim + 2 * type_dim;
    const int hidden = std::min(256, std::max(2 * embed, g_in));
    const auto dense = [&](const std::string& name, int in, int out) {
      add(d + "env_seed_embedding." + name + ".matrix", {in, out});
      if (c_.mlp_bias) add(d + "env_seed_embedding." + name + ".bias", {out});
    };
    dense("rbf_proj_layer1", c_.n_radial, rbf_dim);
    dense("rbf_proj_layer2", rbf_dim, rbf_dim);
    add(d + "env_seed_embedding.env_type_embed.adam_type_embedding", {table_rows, type_dim});
    dense("g_layer1", g_in, hidden);
    dense("g_layer2", hidden, embed);
    add(d + "env_seed_embedding.output_proj.matrix", {embed * axis, 2 * channels});
    if (c_.edge_norm_film) {
      add(d + "film_scale_norm.adam_scale", {1, channels});
      add(d + "film_shift_norm.adam_scale", {1, channels});
    }
    add(d + "film_scale_strength_log", {1});
    add(d + "film_shift_strength_log", {1});
  }

  /// Positions count every module of the sequence: linear, norm if present, activation.
  void radial_mlp() {
    const std::string p = "descriptor.radial_embedding.net.";
    int in = c_.n_radial;
    int position = 0;
    for (int width : c_.radial_mlp) {
      add(p + std::to_string(position) + ".matrix", {in, width});
      if (c_.edge_norm_radial) add(p + std::to_string(position + 1) + ".adam_scale", {width});
      position += c_.edge_norm_radial ? 3 : 2;
      in = width;
    }
    add(p + std::to_string(position) + ".matrix", {in, (c_.init_lmax + 1) * c_.channels});
  }

  void block(int index, const BlockShape& shape) {
    const std::string p = "descriptor.blocks." + std::to_string(index) + ".";
    if (c_.sandwich_norm[0]) equivariant_norm(p + "pre_so2_norm", shape.lmax);
    if (c_.sandwich_norm[1]) equivariant_norm(p + "post_so2_norm", shape.lmax);
    convolution(p + "so2_conv.", shape);
    for (int j = 0; j < c_.ffn_blocks; ++j) {
      const std::string n = "." + std::to_string(j);
      if (c_.sandwich_norm[2]) equivariant_norm(p + "pre_ffn_norms" + n, shape.node_lmax);
      block_ffn(p + "ffns" + n, shape);
      if (c_.sandwich_norm[3]) equivariant_norm(p + "post_ffn_norms" + n, shape.node_lmax);
      if (c_.layer_scale) add(p + "adam_ffn_layer_scales" + n, {c_.channels});
    }
    block_attention(p, "full_attn_res", c_.full_attn_res);
    block_attention(p, "block_attn_res", c_.block_attn_res);
  }

  void block_attention(const std::string& p, const std::string& name, AttnResidual mode) {
    if (mode == AttnResidual::kNone) return;
    depth_attention(p + name + "_so2", mode, c_.channels);
    for (int j = 0; j < c_.ffn_blocks; ++j) {
      depth_attention(p + name + "_ffns." + std::to_string(j), mode, c_.channels);
    }
  }

  void convolution(const std::string& p, const BlockShape& shape) {
    const int wide = c_.hidden_width();
    const int levels = shape.lmax + 1;
    const bool cartesian_degree = shape.lmax == 1 || shape.lmax == 2;
    so3_linear(p + "pre_focus_mix", levels, c_.channels, wide);
    if (wide != c_.channels) add(p + "radial_hidden_proj.weight", {c_.channels, wide});
    if (c_.edge_cartesian && cartesian_degree) {
      cartesian_product(p + "edge_cartesian_tp.", shape.lmax, c_.mixing_layers);
    } else {
      radial_mixer(p + "radial_degree_mixer.", shape);
      mixing_stack(p, shape);
    }
    if (c_.node_wise != GridKind::kNone) {
      cross_grid(p + "node_wise_grid_product.", shape, c_.node_wise, c_.node_wise_op);
    }
    focus_competition(p);
    if (c_.n_heads > 0) attention(p, levels);
    if (c_.message_node != GridKind::kNone) {
      cross_grid(p + "message_node_grid_product.", shape, c_.message_node, c_.message_node_op);
    }
    if (c_.node_cartesian != NodeCartesian::kNone && cartesian_degree) {
      cartesian_product(p + "node_cartesian_tp.", shape.lmax, c_.node_cartesian_layers);
    }
    so3_linear(p + "post_focus_mix", levels, wide, c_.channels);
  }

  void radial_mixer(const std::string& p, const BlockShape& shape) {
    if (c_.radial_mode == RadialMode::kNone) return;
    const int wide = c_.hidden_width();
    std::int64_t kernel = 0;
    for (int m = 0; m <= shape.mmax; ++m) {
      kernel += static_cast<std::int64_t>(shape.lmax - m + 1) * (shape.lmax - m + 1);
    }
    const bool by_channel = c_.radial_mode == RadialMode::kDegreeChannel;
    if (by_channel) kernel *= c_.radial_rank > 0 ? c_.radial_rank : wide;
    add(p + "weight", {static_cast<std::int64_t>(shape.lmax + 1) * wide, kernel});
    if (by_channel && c_.radial_rank > 0) add(p + "channel_basis", {c_.radial_rank, wide});
  }

  void mixing_stack(const std::string& p, const BlockShape& shape) {
    const std::int64_t focus = c_.n_focus;
    const std::int64_t width = c_.focus_dim;
    for (int i = 0; i < c_.mixing_layers; ++i) {
      const std::string n = "." + std::to_string(i);
      const bool last = i + 1 == c_.mixing_layers;
      const std::int64_t out = c_.s2_activation_so2 && !last ? 2 * width : width;
      const std::string linear = p + "so2_linears" + n;
      const std::int64_t levels = shape.lmax + 1;
      add(linear + ".weight_m0", {levels * width, focus * levels * out});
      for (int m = 1; m <= shape.mmax; ++m) {
        const std::int64_t degrees = shape.lmax - m + 1;
        add(linear + ".weight_m." + std::to_string(m - 1),
            {degrees * width, focus * 2 * degrees * out});
      }
      if (c_.mlp_bias) add(linear + ".bias0", {focus * out});
      if (c_.so2_norm && !last) {
        add(p + "so2_inter_norms" + n + ".adam_scale", {focus, levels, width});
        add(p + "so2_inter_norms" + n + ".bias0", {focus, width});
      }
      if (!last) {
        const std::string act = p + "non_linearities" + n;
        if (c_.s2_activation_so2) {
          focus_linear(act + ".scalar_gate", 2 * width, width, c_.n_focus, c_.mlp_bias);
        } else {
          gate(act, shape.lmax, c_.focus_dim, c_.n_focus);
        }
      }
      if (c_.layer_scale) add(p + "adam_so2_layer_scales" + n, {focus, width});
      if (c_.so2_attn_res != AttnResidual::kNone) {
        depth_attention(p + "so2_layer_attn_res" + n, c_.so2_attn_res, c_.hidden_width());
      }
    }
  }

  void cartesian_product(const std::string& p, int lmax, int layers) {
    for (int i = 0; i < layers; ++i) {
      const std::string n = std::to_string(i);
      so3_linear(p + "linears." + n, lmax + 1, c_.focus_dim, c_.focus_dim, c_.n_focus);
      if (i + 1 < layers) gate(p + "activations." + n, lmax, c_.focus_dim, c_.n_focus);
    }
  }

  void focus_competition(const std::string& p) {
    if (c_.n_focus < 2) return;
    if (c_.edge_norm_focus) add(p + "focus_compete_norm.adam_scale", {c_.n_focus, c_.focus_dim});
    add(p + "adamw_focus_compete_w", {c_.focus_dim, c_.n_focus});
    if (c_.mlp_bias) add(p + "focus_compete_bias", {c_.n_focus});
  }

  void attention(const std::string& p, int levels) {
    const int focus = c_.atten_f_mix ? 1 : c_.n_focus;
    const int width = c_.atten_f_mix ? c_.hidden_width() : c_.focus_dim;
    add(p + "attn_qk_norm.adam_scale", {focus, width});
    focus_linear(p + "attn_q_proj", width, width, focus, false);
    focus_linear(p + "attn_k_proj", width, width, focus, false);
    const auto unbiased = [&](const std::string& name, int in, int out) {
      add(p + name + ".weight", {levels, in, static_cast<std::int64_t>(focus) * out});
    };
    if (c_.atten_f_mix) unbiased("attn_focus_mix", width, width);
    if (c_.atten_v_proj) unbiased("attn_v_proj", width, width);
    if (c_.atten_o_proj) unbiased("attn_o_proj", width, width);
    add(p + "adamw_attn_logit_w", {width, focus, c_.n_heads});
    add(p + "adamw_attn_z_bias_raw", {focus, c_.n_heads});
    add(p + "attn_output_gate_norm.adam_scale", {focus, width});
    add(p + "adamw_attn_gate_w", {width, focus, c_.n_heads});
  }

  void cross_grid(const std::string& p, const BlockShape& shape, GridKind kind, const GridOp& op) {
    const std::int64_t width = c_.focus_dim;
    const std::int64_t frames = kind == GridKind::kSO3 ? 2 * shape.kmax + 1 : 1;
    add(p + "residual_scale", {c_.n_focus, width});
    if (kind == GridKind::kSO3) {
      add(p + "frame_expand.weight", {shape.lmax + 1, width, frames * width});
      add(p + "frame_contract.weight", {shape.lmax + 1, frames * width, width});
    }
    focus_linear(p + "scalar_gate", 2 * width, width, c_.n_focus, c_.mlp_bias);
    grid_op(p + "grid_op.", op, width, width);
  }

  /// `in` is what the projections see: both operands side by side in self mode, one in cross mode.
  void grid_op(const std::string& p, const GridOp& op, std::int64_t width, std::int64_t in) {
    if (op.kind == GridOpKind::kMlp) {
      add(p + "left_proj.weight", {in, 2 * width});
      add(p + "right_proj.weight", {in, 2 * width});
      add(p + "out_proj.weight", {2 * width, width});
    } else if (op.kind == GridOpKind::kBranch) {
      add(p + "left_proj.weight", {width, op.branches * width});
      add(p + "right_proj.weight", {width, op.branches * width});
      add(p + "router.weight", {2 * width, op.branches});
      add(p + "out_proj.weight", {width, width});
    }
  }

  void block_ffn(const std::string& p, const BlockShape& shape) {
    ffn(p, shape.node_lmax, shape.kmax, c_.ffn_neurons, c_.ffn_grid, c_.ffn_op);
  }

  void readout_ffn(const std::string& p) {
    const bool grid = c_.readout_grid != GridKind::kNone;
    ffn(p, grid ? c_.readout_lmax : 0, c_.readout_kmax, c_.readout_neurons, c_.readout_grid,
        c_.readout_op);
  }

  void ffn(const std::string& p, int lmax, int kmax, std::int64_t hidden, GridKind grid,
           const GridOp& op) {
    const std::int64_t frames = grid == GridKind::kSO3 ? 2 * kmax + 1 : 1;
    const bool paired = grid != GridKind::kNone || c_.glu_activation;
    so3_linear(p + ".so3_linear_1", lmax + 1, c_.channels, (paired ? 2 : 1) * frames * hidden);
    if (grid == GridKind::kNone) {
      gate(p + ".act", lmax, static_cast<int>(hidden), 1);
    } else {
      focus_linear(p + ".act.scalar_gate", 2 * hidden, hidden, 1, c_.mlp_bias);
      grid_op(p + ".act.grid_op.", op, hidden, 2 * hidden);
    }
    so3_linear(p + ".so3_linear_2", lmax + 1, frames * hidden, c_.channels);
  }

  void gate(const std::string& p, int lmax, std::int64_t width, int focus) {
    if (lmax > 0) focus_linear(p + ".gate_linear", width, lmax * width, focus, c_.mlp_bias);
  }

  void focus_linear(const std::string& p, std::int64_t in, std::int64_t out, std::int64_t focus,
                    bool bias) {
    add(p + ".weight", {in, focus * out});
    if (bias) add(p + ".bias", {focus * out});
  }

  void so3_linear(const std::string& p, std::int64_t levels, std::int64_t in, std::int64_t out,
                  std::int64_t focus = 1) {
    add(p + ".weight", {levels, in, focus * out});
    if (c_.mlp_bias) add(p + ".bias", {focus * out});
  }

  void equivariant_norm(const std::string& p, int lmax) {
    add(p + ".adam_scale", {lmax + 1, 1, c_.channels});
    add(p + ".bias", {1, c_.channels});
  }

  void depth_attention(const std::string& p, AttnResidual mode, int width) {
    add(p + ".key_norm.adam_scale", {1, width});
    if (mode == AttnResidual::kIndependent) {
      add(p + ".adamw_pseudo_query", {width});
      return;
    }
    add(p + ".query_proj.weight", {width, width});
    if (c_.mlp_bias) add(p + ".query_proj.bias", {width});
  }

  void fitting() {
    const std::string f = "fitting_net.";
    const std::string net = f + "filter_layers.networks.0.";
    const bool film = c_.case_film_embd && c_.dim_case_embd > 0;
    int in = c_.channels + c_.numb_fparam + (c_.use_aparam_as_mask ? 0 : c_.numb_aparam) +
             (film ? 0 : c_.dim_case_embd);
    for (int k = 0; k < static_cast<int>(c_.fitting_neuron.size()); ++k) {
      const std::string layer = net + "hidden_layers." + std::to_string(k) + ".linear.";
      add(layer + "matrix", {in, 2 * c_.fitting_neuron[k]});
      add(layer + "bias", {2 * c_.fitting_neuron[k]});
      in = c_.fitting_neuron[k];
    }
    if (film) case_film(net + "case_film.");
    add(net + "output_layer.matrix", {in, 1});
    if (c_.bias_out) add(net + "output_layer.bias", {1});

    if (c_.numb_fparam > 0) {
      add_statistic(f + "fparam_avg", {c_.numb_fparam});
      add_statistic(f + "fparam_inv_std", {c_.numb_fparam});
    }
    if (c_.numb_aparam > 0) {
      add_statistic(f + "aparam_avg", {c_.numb_aparam});
      add_statistic(f + "aparam_inv_std", {c_.numb_aparam});
    }
    if (c_.dim_case_embd > 0) add_statistic(f + "case_embd", {c_.dim_case_embd});
    add_statistic(f + "bias_atom_e", {c_.n_types(), 1});
    add_statistic("out_bias", {1, c_.n_types(), 1});
  }

  /// Target 0 is the descriptor, target k + 1 the output of hidden layer k.
  void case_film(const std::string& p) {
    const int code = 4 * c_.channels;
    const int hidden = round_up_to_32(4 * c_.dim_case_embd);
    const int targets = 1 + static_cast<int>(c_.fitting_neuron.size());
    add(p + "case_layer1.matrix", {c_.dim_case_embd, hidden});
    add(p + "case_layer2.matrix", {hidden, code});
    for (int t = 0; t < targets; ++t) {
      add(p + "projectors." + std::to_string(t),
          {code, 2 * (t == 0 ? c_.channels : c_.fitting_neuron[t - 1])});
    }
    add(p + "adam_case_film_scale_strength_log", {targets});
    add(p + "adam_case_film_shift_strength_log", {targets});
  }

  const ModelConfig& c_;
  std::vector<WeightSpec> specs_;
};

std::int64_t element_count(const Shape& shape) {
  std::int64_t product = 1;
  for (std::int64_t extent : shape) product *= extent;
  return product;
}

bool ends_with(const std::string& name, const std::string& suffix) {
  return name.size() >= suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool contains(const std::string& name, const std::string& part) {
  return name.find(part) != std::string::npos;
}

/// Mean and spread of the random values of one array.
struct Spread {
  double mean = 0;
  double deviation = 0;
};

Spread spread_of(const WeightSpec& spec) {
  const std::string& name = spec.name;
  if (contains(name, "strength_log")) return {std::log(0.05), 0.1};
  if (contains(name, "adam_scale") || contains(name, "_inv_std")) return {1.0, 0.1};
  if (contains(name, "attn_z_bias_raw")) return {0.5413, 0.1};  // softplus about 1
  if (contains(name, "layer_scales") || contains(name, "residual_scale")) return {0.2, 0.05};
  if (name == "out_bias") return {-3.0, 1.0};
  if (contains(name, "bias_atom_e") || contains(name, "case_embd")) return {0.0, 0.3};
  if (contains(name, "_avg")) return {0.0, 0.5};
  if (contains(name, "bias")) return {0.0, 0.1};
  if (contains(name, "type_embedding")) return {0.0, 1.0};
  if (contains(name, "pseudo_query") || contains(name, "channel_basis")) return {0.0, 0.5};
  // A linear map: variance 1 / fan-in. Arrays of shape (degree, in, out) have the fan-in second.
  const std::size_t rank = spec.shape.size();
  const std::int64_t fan_in =
      rank == 3 && ends_with(name, ".weight") ? spec.shape[1] : spec.shape[0];
  return {0.0, 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, fan_in)))};
}

/// Initial basis parameters: the Bessel frequencies n pi / rcut or equidistant Gaussian centers.
std::vector<float> basis_parameters(const ModelConfig& config) {
  std::vector<float> values(config.n_radial);
  for (int n = 0; n < config.n_radial; ++n) {
    values[n] = static_cast<float>(config.basis == Basis::kBessel
                                       ? (n + 1) * std::numbers::pi / config.rcut
                                       : n * config.rcut / std::max(config.n_radial - 1, 1));
  }
  return values;
}

/// Uniform numbers from the raw bits of a Mersenne twister: the same on every platform.
class UniformSource {
 public:
  explicit UniformSource(std::uint64_t seed) : bits_(seed) {}

  /// A value with the given mean and deviation, never within a hundredth of the deviation of zero.
  double draw(const Spread& spread) {
    for (;;) {
      const double unit = static_cast<double>(bits_() >> 11) * 0x1.0p-53;
      const double value = spread.mean + spread.deviation * std::sqrt(12.0) * (unit - 0.5);
      if (std::abs(value) > 0.01 * spread.deviation) return value;
    }
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace

std::vector<WeightSpec> weight_schema(const ModelConfig& config) {
  return SchemaBuilder(config).build();
}

std::int64_t count_parameters(const std::vector<WeightSpec>& schema) {
  std::int64_t count = 0;
  for (const WeightSpec& spec : schema) {
    if (spec.trainable) count += element_count(spec.shape);
  }
  return count;
}

Weights random_weights(const ModelConfig& config, std::uint64_t seed) {
  Weights weights;
  UniformSource source(seed);
  for (const WeightSpec& spec : weight_schema(config)) {
    std::vector<float> values;
    if (ends_with(spec.name, "radial_basis.adam_freqs")) {
      values = basis_parameters(config);
    } else {
      values.resize(element_count(spec.shape));
      const Spread spread = spread_of(spec);
      for (float& value : values) value = static_cast<float>(source.draw(spread));
    }
    weights.set(spec.name, HostTensor::from(values, spec.shape));
  }
  return weights;
}

}  // namespace dpa4::model
