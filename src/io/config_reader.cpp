// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/config_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string>

#include "src/base/error.h"
#include "src/model/conditions.h"
#include "src/model/elements.h"

namespace dpa4::io {

namespace {

using model::ModelConfig;
using pickle::Kind;
using pickle::Value;

constexpr int kMaxDegree = 20;
constexpr int kMaxWidth = 1 << 16;
constexpr int kMaxCount = 1 << 16;
constexpr int kMaxExponent = 64;

bool is_one_of(const std::string& text, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) { return text == each; });
}

bool is_dpa4_name(const std::string& name) { return is_one_of(name, {"dpa4", "sezm"}); }

/// 32 * ceil(numerator / denominator / 32)
int automatic_width(std::int64_t numerator, std::int64_t denominator) {
  return static_cast<int>(32 * ((numerator + 32 * denominator - 1) / (32 * denominator)));
}

model::FloatType read_precision(const Options& options) {
  const std::string name = lower(options.text("precision", "float32"));
  if (is_one_of(name, {"float32", "single"})) return model::FloatType::kFloat32;
  if (is_one_of(name, {"float64", "double", "default"})) return model::FloatType::kFloat64;
  if (is_one_of(name, {"float16", "half"})) return model::FloatType::kFloat16;
  if (name == "bfloat16") return model::FloatType::kBFloat16;
  options.refuse("precision", "expected float16, bfloat16, float32 or float64");
}

model::Activation read_activation(const Options& options) {
  using model::ActivationKind;
  const std::string key = "activation_function";
  const std::string name = lower(options.text(key, "silu"));
  if (name == "silu") return {ActivationKind::kSilu};
  if (name == "tanh") return {ActivationKind::kTanh};
  if (name == "relu") return {ActivationKind::kRelu};
  if (name == "relu6") return {ActivationKind::kRelu6};
  if (name == "softplus") return {ActivationKind::kSoftplus};
  if (name == "sigmoid") return {ActivationKind::kSigmoid};
  if (is_one_of(name, {"gelu", "gelu_tf"})) return {ActivationKind::kGelu};
  if (is_one_of(name, {"linear", "none"})) return {ActivationKind::kLinear};
  const std::string base = name.substr(0, name.find(':'));
  if (is_one_of(base, {"silut", "custom_silu"})) {
    model::Activation silut{ActivationKind::kSilut};
    if (name.size() > base.size()) {
      const std::string number = name.substr(base.size() + 1);
      char* end = nullptr;
      silut.threshold = std::strtod(number.c_str(), &end);
      if (number.empty() || *end != '\0' || !std::isfinite(silut.threshold)) {
        options.refuse(key, "expected a number after silut:");
      }
    }
    return silut;
  }
  options.refuse(key,
                 "expected silu, tanh, relu, relu6, softplus, sigmoid, gelu, linear or silut:T");
}

model::AttnResidual read_attention_residual(const Options& options, const std::string& key) {
  const std::string mode = lower(options.text(key, "none"));
  if (mode == "none") return model::AttnResidual::kNone;
  if (mode == "independent") return model::AttnResidual::kIndependent;
  if (mode == "dependent") return model::AttnResidual::kDependent;
  options.refuse(key, "expected none, independent or dependent");
}

/// env_exp: [basis, edge], or one integer for a basis without envelope.
void read_envelopes(const Options& d, ModelConfig& c) {
  const Value* value = d.find("env_exp");
  if (value == nullptr) return;
  if (!value->is(Kind::kList) && !value->is(Kind::kTuple)) {
    c.basis_env_exp = 0;
    c.edge_env_exp = d.integer("env_exp", 0, 1, kMaxExponent);
  } else {
    const std::vector<int> exponents = *d.integers("env_exp", 0, kMaxExponent);
    if (exponents.size() != 2 || exponents[1] < 1) {
      d.refuse("env_exp", "expected one integer or [basis, edge] with edge at least 1");
    }
    c.basis_env_exp = exponents[0];
    c.edge_env_exp = exponents[1];
  }
  if (c.basis_env_exp == 0 && c.format_version < 1.1) {
    d.refuse("env_exp", "a basis without envelope does not vanish at the cutoff in format 1.0");
  }
}

void read_basis(const Options& d, ModelConfig& c) {
  const std::string name = lower(d.text("basis_type", "bessel"));
  // "/fix" only kept the parameters from being trained; they are stored all the same.
  if (is_one_of(name, {"bessel", "bessel/fix"})) {
    c.basis = model::Basis::kBessel;
  } else if (is_one_of(name, {"gaussian", "gaussian/fix"})) {
    c.basis = model::Basis::kGaussian;
  } else {
    d.refuse("basis_type", "expected bessel or gaussian, optionally with /fix");
  }
  c.n_radial = d.integer("n_radial", 16, 1, kMaxWidth);
}

void read_radial(const Options& d, ModelConfig& c) {
  c.rcut = d.positive("rcut", 6.0);
  c.eps = d.positive("eps", 1e-7);
  read_envelopes(d, c);
  read_basis(d, c);
  c.radial_mlp = d.integers("radial_mlp", 0, kMaxWidth).value_or(std::vector<int>{0});
  for (int& width : c.radial_mlp) {
    if (width == 0) width = c.channels;
  }
  const std::vector<bool> norms = d.booleans("edge_norm", {true, true, true}, true);
  c.edge_norm_radial = norms[0];
  c.edge_norm_film = norms[1];
  c.edge_norm_focus = norms[2];
}

/// Degrees and orders of the blocks; returns the message degree of the model.
int read_schedules(const Options& d, ModelConfig& c, std::int64_t n_tensors) {
  int lmax = d.integer("lmax", 3, 0, kMaxDegree);
  const int n_blocks = d.integer("n_blocks", 3, 0, kMaxCount);
  c.extra_node_l = d.integer("extra_node_l", 0, 0, kMaxDegree);
  std::vector<int> degrees;
  if (const auto schedule = d.integers("l_schedule", 0, kMaxDegree)) {
    degrees = *schedule;
  } else {
    if (n_blocks > n_tensors) {
      d.refuse("n_blocks", "the file holds only " + std::to_string(n_tensors) + " arrays");
    }
    degrees.assign(n_blocks, lmax);
  }
  if (!std::is_sorted(degrees.rbegin(), degrees.rend())) {
    d.refuse("l_schedule", "expected degrees that never increase");
  }
  if (!degrees.empty()) lmax = degrees.front();

  // An explicit None means the full order of every block; a missing key means 1.
  const bool full_order = d.has_key("mmax") && d.find("mmax") == nullptr;
  const int mmax = d.integer("mmax", 1, 0, kMaxDegree);
  std::vector<int> orders;
  for (int degree : degrees) orders.push_back(full_order ? degree : std::min(mmax, degree));
  if (const auto schedule = d.integers("m_schedule", 0, kMaxDegree)) {
    if (schedule->size() != degrees.size())
      d.refuse("m_schedule", "expected as many entries as blocks");
    orders = *schedule;
  }
  const int kmax = d.integer("kmax", 1, 0, kMaxDegree);
  if (kmax > lmax) d.refuse("kmax", "expected at most lmax = " + std::to_string(lmax));

  for (std::size_t i = 0; i < degrees.size(); ++i) {
    if (orders[i] > degrees[i])
      d.refuse("m_schedule", "expected orders of at most the block's degree");
    c.blocks.push_back(
        {degrees[i], orders[i], std::min(kmax, degrees[i]), degrees[i] + c.extra_node_l});
  }
  c.init_lmax = lmax + c.extra_node_l;
  c.readout_lmax = c.blocks.empty() ? c.init_lmax : c.blocks.back().node_lmax;
  c.readout_kmax = std::min(kmax, c.readout_lmax);
  if (c.init_lmax > kMaxDegree) {
    d.refuse("extra_node_l", "lmax + extra_node_l may be at most " + std::to_string(kMaxDegree));
  }
  return lmax;
}

void read_radial_mixing(const Options& d, ModelConfig& c) {
  const std::string mode = lower(d.text("radial_so2_mode", "degree_channel"));
  if (mode == "none") {
    c.radial_mode = model::RadialMode::kNone;
  } else if (mode == "degree") {
    c.radial_mode = model::RadialMode::kDegree;
  } else if (mode == "degree_channel") {
    c.radial_mode = model::RadialMode::kDegreeChannel;
  } else {
    d.refuse("radial_so2_mode", "expected none, degree or degree_channel");
  }
  c.radial_rank = d.integer("radial_so2_rank", 1, 0, kMaxWidth);
}

/// "none", N, "default:N", "parity:N", or a mode alone for one layer.
void read_node_cartesian(const Options& d, ModelConfig& c) {
  const std::string key = "node_cartesian";
  const Value* value = d.find(key);
  if (value == nullptr) return;
  if (value->is(Kind::kInt)) {
    c.node_cartesian_layers = d.integer(key, 0, 0, kMaxCount);
    if (c.node_cartesian_layers > 0) c.node_cartesian = model::NodeCartesian::kDefault;
    return;
  }
  std::string text;
  for (char ch : lower(d.text(key, "none"))) {
    if (ch != ' ') text += ch;
  }
  if (is_one_of(text, {"", "none"})) return;
  std::string mode = text;
  std::string count = "1";
  if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
    mode = text.substr(0, colon);
    count = text.substr(colon + 1);
  } else if (std::all_of(text.begin(), text.end(),
                         [](char ch) { return ch >= '0' && ch <= '9'; })) {
    mode = "default";
    count = text;
  }
  int layers = 0;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), layers);
  if (error != std::errc() || end != count.data() + count.size() || layers < 0 ||
      layers > kMaxCount || !is_one_of(mode, {"", "default", "parity"})) {
    d.refuse(key, "expected none, a layer count, default:N or parity:N");
  }
  if (layers == 0) return;
  c.node_cartesian_layers = layers;
  c.node_cartesian =
      mode == "parity" ? model::NodeCartesian::kParity : model::NodeCartesian::kDefault;
}

/// The three grid paths, in the order of the list form of grid_mlp and grid_branch.
std::array<model::GridOp, 3> read_grid_ops(const Options& d) {
  const std::vector<bool> mlp = d.booleans("grid_mlp", {false, false, false}, true);
  std::vector<int> branches(3, 0);
  const Value* value = d.find("grid_branch");
  if (value != nullptr && (value->is(Kind::kList) || value->is(Kind::kTuple))) {
    branches = *d.integers("grid_branch", 0, kMaxWidth);
    if (branches.size() != 3) {
      d.refuse("grid_branch", "expected one integer or three: [node_wise, message_node, ffn]");
    }
  } else {
    branches.assign(3, d.integer("grid_branch", 0, 0, kMaxWidth));
  }
  std::array<model::GridOp, 3> ops;
  for (std::size_t i = 0; i < 3; ++i) {
    if (branches[i] > 0) {
      ops[i] = {model::GridOpKind::kBranch, branches[i]};
    } else if (mlp[i]) {
      ops[i] = {model::GridOpKind::kMlp, 0};
    }
  }
  return ops;
}

model::GridKind choose_grid(bool s2, bool so3) {
  if (so3) return model::GridKind::kSO3;
  return s2 ? model::GridKind::kS2 : model::GridKind::kNone;
}

void read_convolution(const Options& d, ModelConfig& c) {
  const bool alias = d.find("so2_layers") != nullptr;  // the older name wins where both stand
  c.mixing_layers = d.integer(alias ? "so2_layers" : "mixing_layers", 4, 0, kMaxCount);
  c.so2_norm = d.boolean("so2_norm", false);
  c.so2_attn_res = read_attention_residual(d, "so2_attn_res");
  read_radial_mixing(d, c);
  c.n_focus = d.integer("n_focus", 1, 1, 1024);
  c.focus_dim = d.integer("focus_dim", 0, 0, kMaxWidth);
  if (c.focus_dim == 0) c.focus_dim = c.channels;
  c.n_heads = d.integer("n_atten_head", 1, 0, kMaxWidth);
  // Without heads there is no attention, and its options do nothing.
  const bool attention = c.n_heads > 0;
  c.atten_f_mix = d.boolean("atten_f_mix", false) && attention;
  c.atten_v_proj = d.boolean("atten_v_proj", false) && attention;
  c.atten_o_proj = d.boolean("atten_o_proj", false) && attention;
  const int attention_width = c.atten_f_mix ? c.hidden_width() : c.focus_dim;
  if (c.n_heads > 0 && attention_width % c.n_heads != 0) {
    d.refuse("n_atten_head",
             "expected a divisor of the attention width " + std::to_string(attention_width));
  }
  c.edge_cartesian = d.boolean("edge_cartesian", false);
  read_node_cartesian(d, c);
  c.node_wise = choose_grid(d.boolean("node_wise_s2", false), d.boolean("node_wise_so3", false));
  c.message_node =
      choose_grid(d.boolean("message_node_s2", false), d.boolean("message_node_so3", false));
  const bool has_grid =
      c.node_wise != model::GridKind::kNone || c.message_node != model::GridKind::kNone;
  const bool cartesian_block = std::any_of(c.blocks.begin(), c.blocks.end(), [](const auto& block) {
    return block.lmax == 1 || block.lmax == 2;
  });
  if (c.edge_cartesian && has_grid && cartesian_block) {
    d.refuse("edge_cartesian", "cannot be combined with node_wise or message_node grids");
  }
}

void read_block_options(const Options& d, ModelConfig& c) {
  const std::vector<bool> norms = d.booleans("sandwich_norm", {false, true, true, false}, false);
  std::copy(norms.begin(), norms.end(), c.sandwich_norm.begin());
  c.full_attn_res = read_attention_residual(d, "full_attn_res");
  c.block_attn_res = read_attention_residual(d, "block_attn_res");
  if (c.full_attn_res != model::AttnResidual::kNone &&
      c.block_attn_res != model::AttnResidual::kNone) {
    d.refuse("full_attn_res", "cannot be combined with block_attn_res");
  }
  const std::vector<bool> s2 = d.booleans("s2_activation", {false, true}, false);
  const bool so3_ffn = d.boolean("ffn_so3_grid", false);
  c.s2_activation_so2 = s2[0];
  c.ffn_grid = choose_grid(s2[1], so3_ffn);
  const std::array<model::GridOp, 3> ops = read_grid_ops(d);
  if (c.node_wise != model::GridKind::kNone) c.node_wise_op = ops[0];
  if (c.message_node != model::GridKind::kNone) c.message_node_op = ops[1];
  if (c.ffn_grid != model::GridKind::kNone) c.ffn_op = ops[2];
  c.ffn_blocks = d.integer("ffn_blocks", 1, 1, kMaxCount);

  const std::vector<bool> lebedev = d.booleans("lebedev_quadrature", {true, true}, true);
  c.lebedev_so2 = lebedev[0];
  c.lebedev_ffn = lebedev[1];
}

void read_readout(const Options& d, ModelConfig& c) {
  const std::string readout = lower(d.text("so3_readout", "none"));
  if (!is_one_of(readout, {"none", "glu", "mlp"}))
    d.refuse("so3_readout", "expected none, glu or mlp");
  if (readout != "none") c.readout_grid = model::GridKind::kSO3;
  if (readout == "mlp") c.readout_op = {model::GridOpKind::kMlp, 0};
  c.readout_layers = d.integer("readout_layers", 1, 1, kMaxCount);

  // An automatic width depends on whether the network is gated; grids always are.
  const int neurons = d.integer("ffn_neurons", 0, 0, kMaxWidth);
  const auto width = [&](bool gated) {
    if (neurons > 0) return neurons;
    return gated ? automatic_width(8 * c.channels, 3) : automatic_width(4 * c.channels, 1);
  };
  c.ffn_neurons = width(c.ffn_grid != model::GridKind::kNone || c.glu_activation);
  c.readout_neurons = width(c.glu_activation);
}

void read_charge_spin(const Options& d, ModelConfig& c) {
  c.add_chg_spin_ebd = d.boolean("add_chg_spin_ebd", false);
  const auto values = d.reals("default_chg_spin");
  if (!values) return;
  if (values->size() != 2 || model::charge_spin_problem({(*values)[0], (*values)[1]})) {
    d.refuse("default_chg_spin", "expected [charge from -100 to 99, multiplicity from 0 to 99]");
  }
  c.default_chg_spin = {(*values)[0], (*values)[1]};
}

/// The number of arrays a configuration needs at least: what could be huge is checked before it is
/// made.
void require_plausible_size(const Options& d, const ModelConfig& c, std::int64_t n_tensors) {
  const auto n_blocks = static_cast<std::int64_t>(c.blocks.size());
  const auto check = [&](const std::string& key, std::int64_t needed) {
    if (needed > n_tensors) {
      d.refuse(key, "needs at least " + std::to_string(needed) + " arrays, but the file holds " +
                        std::to_string(n_tensors));
    }
  };
  const auto cartesian = std::count_if(c.blocks.begin(), c.blocks.end(), [](const auto& block) {
    return block.lmax == 1 || block.lmax == 2;
  });
  check(d.find("l_schedule") != nullptr ? "l_schedule" : "n_blocks", n_blocks);
  check(d.find("so2_layers") != nullptr ? "so2_layers" : "mixing_layers",
        n_blocks * c.mixing_layers);
  check("ffn_blocks", n_blocks * c.ffn_blocks);
  check("node_cartesian", cartesian * c.node_cartesian_layers);
  check("readout_layers", c.readout_layers);
  check("radial_mlp", static_cast<std::int64_t>(c.radial_mlp.size()));
}

void read_descriptor(const Options& d, ModelConfig& c, std::int64_t n_tensors) {
  c.channels = d.integer("channels", 64, 1, kMaxWidth);
  c.precision = read_precision(d);
  c.activation = read_activation(d);
  c.mlp_bias = d.boolean("mlp_bias", false);
  c.layer_scale = d.boolean("layer_scale", false);
  c.use_env_seed = d.boolean("use_env_seed", true);
  c.glu_activation = d.boolean("glu_activation", true);
  read_radial(d, c);
  read_schedules(d, c, n_tensors);
  read_convolution(d, c);
  read_block_options(d, c);
  read_readout(d, c);
  read_charge_spin(d, c);
  require_plausible_size(d, c, n_tensors);
}

void read_type_map(const Options& m, ModelConfig& c) {
  c.type_map = m.texts("type_map");
  if (c.type_map.empty()) m.refuse("type_map", "expected the list of elements");
  if (c.type_map.size() > kMaxCount) m.refuse("type_map", "too many types");
  std::set<std::string> seen;
  for (const std::string& type : c.type_map) {
    if (type.empty() || !seen.insert(type).second) {
      m.refuse("type_map", "expected each element once, found '" + type + "' twice or empty");
    }
  }
}

void read_exclusions(const Options& m, const Options& d, ModelConfig& c) {
  const int last = c.n_types() - 1;
  c.exclude_types = d.pairs("exclude_types", 0, last);
  if (m.has_key("pair_exclude_types")) {
    const auto of_model = m.pairs("pair_exclude_types", 0, last);
    if (!c.exclude_types.empty() && c.exclude_types != of_model) {
      m.refuse("pair_exclude_types", "differs from descriptor.exclude_types");
    }
    c.exclude_types = of_model;
  }
  c.atom_exclude_types = m.integers("atom_exclude_types", 0, last).value_or(std::vector<int>{});
}

void set_bridging(const Options& owner, const std::string& key, const std::string& method,
                  double r_inner, double r_outer, ModelConfig& c) {
  if (is_one_of(method, {"", "none"})) return;
  if (method != "zbl") owner.refuse(key, "only zbl bridging is implemented");
  if (c.format_version >= 1.3) {
    owner.refuse(key,
                 "bridging of format " + std::to_string(c.format_version).substr(0, 3) +
                     " uses another switching window; only files up to format 1.2 can be bridged");
  }
  if (!(r_inner < r_outer)) owner.refuse(key, "needs its inner radius below its outer radius");
  for (const std::string& type : c.type_map) {
    if (model::atomic_number(type) == 0) {
      owner.refuse(key, "needs element symbols in type_map, but '" + type + "' is none");
    }
  }
  c.bridging_zbl = true;
  c.bridging_r_inner = r_inner;
  c.bridging_r_outer = r_outer;
}

void read_bridging(const Options& m, ModelConfig& c) {
  const std::string method = lower(m.text("bridging_method", "none"));
  if (is_one_of(method, {"", "none"})) return;
  set_bridging(m, "bridging_method", method, m.positive("bridging_r_inner", 0.5),
               m.positive("bridging_r_outer", 0.8), c);
}

bool any_value(const Value* list) {
  if (list == nullptr) return false;
  if (!list->is(Kind::kList) && !list->is(Kind::kTuple)) return true;
  const auto items = list->items();
  return std::any_of(items.begin(), items.end(),
                     [](const Value& item) { return !item.is(Kind::kNone); });
}

/// The isolated-atom reference acts only on branches whose energy bias was preset.
bool has_preset_energy_bias(const Options& m) {
  const Value* preset = m.find("preset_out_bias");
  if (preset == nullptr || !preset->is(Kind::kDict)) return preset != nullptr;
  return any_value(m.section("preset_out_bias").find("energy"));
}

void read_fitting(const Options& m, ModelConfig& c) {
  const Options f = m.section("fitting_net");
  c.fitting_activation = read_activation(f);
  c.fitting_precision = read_precision(f);
  c.numb_fparam = f.integer("numb_fparam", 0, 0, kMaxWidth);
  c.numb_aparam = f.integer("numb_aparam", 0, 0, kMaxWidth);
  c.use_aparam_as_mask = f.boolean("use_aparam_as_mask", false);
  c.dim_case_embd = f.integer("dim_case_embd", 0, 0, kMaxWidth);
  c.case_film_embd = f.boolean("case_film_embd", false) && c.dim_case_embd > 0;
  c.bias_out = f.boolean("bias_out", false);
  c.subtract_zero_descriptor = any_value(f.find("atom_ener"));
  c.fitting_exclude_types =
      f.integers("exclude_types", 0, c.n_types() - 1).value_or(std::vector<int>{});
  c.vacuum_ref = f.boolean("vacuum_ref", false) && has_preset_energy_bias(m);
  c.default_fparam = f.reals("default_fparam");
  if (c.default_fparam && static_cast<int>(c.default_fparam->size()) != c.numb_fparam) {
    f.refuse("default_fparam",
             "expected numb_fparam = " + std::to_string(c.numb_fparam) + " numbers");
  }

  const std::string key =
      f.find("neuron") == nullptr && f.find("n_neuron") != nullptr ? "n_neuron" : "neuron";
  c.fitting_neuron = f.integers(key, 0, kMaxWidth).value_or(std::vector<int>{0});
  const int inputs = c.channels + c.numb_fparam + (c.use_aparam_as_mask ? 0 : c.numb_aparam) +
                     (c.case_film_embd ? 0 : c.dim_case_embd);
  for (int& width : c.fitting_neuron) {
    if (width == 0) width = automatic_width(8 * inputs, 3);
  }
}

void refuse_spin(const Options& m) {
  if (m.find("spin") == nullptr) return;
  const Options spin = m.section("spin");
  const std::string scheme = lower(spin.text("scheme", "deepspin"));
  const Value* flags = spin.find("use_spin");
  const bool is_list = flags != nullptr && (flags->is(Kind::kList) || flags->is(Kind::kTuple));
  const bool active =
      !is_list || std::any_of(flags->items().begin(), flags->items().end(), [](const Value& flag) {
        return !flag.is(Kind::kBool) || flag.boolean();
      });
  if (scheme != "native" || active) {
    m.refuse("spin", "spin models (scheme " + scheme +
                         ") are not implemented; use a model trained without spin");
  }
}

void require_descriptor(const Options& m) {
  const Options d = m.section("descriptor");
  const std::string type = lower(d.text("type", ""));
  if (type == "dpa4c") {
    d.refuse(
        "type",
        "DPA4C is a strictly local model with another descriptor; only DPA4 (SeZM) is implemented");
  }
  if (!type.empty() && !is_dpa4_name(type)) {
    d.refuse("type",
             "this is a model of another kind; only DPA4 (SeZM) is implemented, other DeePMD "
             "models run with pair_style deepmd");
  }
  const std::string of_model = lower(m.text("type", ""));
  if (type.empty() && !is_dpa4_name(of_model) && !is_one_of(of_model, {"dpa4_ener", "sezm_ener"})) {
    m.refuse("type", "the file does not say that this is a DPA4 (SeZM) model");
  }
}

/// A bridged model may be stored as the sum of a DPA4 model and a pair potential.
struct Composition {
  Options learned;
  Options pair;
};

Composition read_composition(const Options& m) {
  const std::string expected =
      "only the sum of one DPA4 model and one ZBL inner_potential is implemented";
  const Value* models = m.find("models");
  if (models == nullptr || !models->is(Kind::kList) || models->items().size() != 2 ||
      m.text("weights", "mean") != "sum") {
    m.refuse("type", expected);
  }
  Options parts[2] = {m, m};
  for (int i = 0; i < 2; ++i) {
    const Value& part = models->items()[static_cast<std::size_t>(i)];
    if (!part.is(Kind::kDict)) m.refuse("models", expected);
    parts[i] = Options(m.path(), "models." + std::to_string(i), &part.dict());
  }
  const int pair = lower(parts[0].text("type", "")) == "inner_potential" ? 0 : 1;
  if (lower(parts[pair].text("type", "")) != "inner_potential") m.refuse("type", expected);
  return {parts[1 - pair], parts[pair]};
}

bool is_composition(const Options& m) { return lower(m.text("type", "")) == "linear_ener"; }

}  // namespace

void require_dpa4_energy_model(const Options& model) {
  refuse_spin(model);
  const Options& learned = is_composition(model) ? read_composition(model).learned : model;
  const std::string type = lower(learned.text("type", ""));
  if (type.find("property") != std::string::npos) {
    learned.refuse("type", "property models have no energy; use an energy model");
  }
  require_descriptor(learned);
  if (!type.empty() && type != "standard" && !is_dpa4_name(type) &&
      !is_one_of(type, {"dpa4_ener", "sezm_ener"})) {
    learned.refuse("type", "only DPA4 (SeZM) energy models are implemented");
  }
  const Options fitting = learned.section("fitting_net");
  const std::string fitting_type = lower(fitting.text("type", "dpa4_ener"));
  if (!is_one_of(fitting_type, {"dpa4_ener", "sezm_ener"})) {
    fitting.refuse("type", "only energy models (dpa4_ener) are implemented");
  }
  for (const char* key : {"use_srtab", "modifier"}) {
    if (model.find(key) != nullptr)
      model.refuse(key, "is not implemented; use a model trained without it");
  }
}

ModelConfig read_config(const Options& model, double format_version, std::int64_t n_tensors) {
  ModelConfig config;
  config.format_version = format_version;
  read_type_map(model, config);
  if (is_composition(model)) {
    const Composition parts = read_composition(model);
    read_descriptor(parts.learned.section("descriptor"), config, n_tensors);
    read_exclusions(model, parts.learned.section("descriptor"), config);
    read_fitting(parts.learned, config);
    set_bridging(parts.pair, "mode", lower(parts.pair.text("mode", "zbl")),
                 parts.pair.positive("r_inner", 0.5), parts.pair.positive("r_outer", 0.8), config);
    return config;
  }
  read_descriptor(model.section("descriptor"), config, n_tensors);
  read_exclusions(model, model.section("descriptor"), config);
  read_bridging(model, config);
  read_fitting(model, config);
  return config;
}

}  // namespace dpa4::io
