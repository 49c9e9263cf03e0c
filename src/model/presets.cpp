// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/presets.h"

#include <utility>

#include "src/base/error.h"

namespace dpa4::model {

namespace {

/// What distinguishes one released size from the others.
struct Size {
  const char* name;
  int channels;
  int lmax;
  int n_blocks;
  int mixing_layers;
  int radial_rank;  // 0: no radial mixing
  int n_focus;
  int hidden;  // FFN width: 8/3 channels, rounded up to a multiple of 32
  bool so3_readout;
  bool so3_grids;  // SO(3) grids in message-node product and FFN; else one S2 grid in the FFN
};

constexpr Size kSizes[] = {
    {"nano", 32, 1, 2, 3, 0, 1, 96, true, true},  {"mini", 32, 2, 2, 3, 1, 1, 96, true, true},
    {"neo", 32, 3, 2, 3, 1, 2, 96, true, true},   {"air", 64, 3, 3, 4, 1, 1, 192, true, true},
    {"plus", 64, 4, 4, 4, 2, 1, 192, true, true}, {"pro", 64, 5, 6, 4, 2, 2, 192, false, true},
    {"max", 96, 6, 8, 4, 4, 2, 256, false, true}, {"ultra", 128, 6, 10, 4, 4, 3, 352, true, false},
};

ModelConfig config_of(const Size& size) {
  ModelConfig c;
  c.format_version = 1.2;
  c.channels = size.channels;
  c.radial_mlp = {size.channels};
  c.blocks.assign(size.n_blocks, BlockShape{size.lmax, 1, 1, size.lmax});
  c.init_lmax = size.lmax;
  c.readout_lmax = size.lmax;
  c.mixing_layers = size.mixing_layers;
  c.radial_mode = size.radial_rank > 0 ? RadialMode::kDegreeChannel : RadialMode::kNone;
  c.radial_rank = size.radial_rank > 0 ? size.radial_rank : 1;
  c.n_focus = size.n_focus;
  c.focus_dim = size.channels;
  c.ffn_neurons = size.hidden;
  c.readout_neurons = size.hidden;
  c.message_node = size.so3_grids ? GridKind::kSO3 : GridKind::kNone;
  c.ffn_grid = size.so3_grids ? GridKind::kSO3 : GridKind::kS2;
  c.ffn_op = size.so3_grids ? GridOp{GridOpKind::kBranch, 1} : GridOp{};
  c.readout_grid = size.so3_readout ? GridKind::kSO3 : GridKind::kNone;
  c.readout_op = size.so3_readout ? GridOp{GridOpKind::kMlp, 0} : GridOp{};
  c.fitting_neuron = {size.hidden};
  return c;
}

bool same(const BlockShape& a, const BlockShape& b) {
  return a.lmax == b.lmax && a.mmax == b.mmax && a.kmax == b.kmax && a.node_lmax == b.node_lmax;
}

bool same(const GridOp& a, const GridOp& b) { return a.kind == b.kind && a.branches == b.branches; }

bool same_blocks(const ModelConfig& a, const ModelConfig& b) {
  if (a.blocks.size() != b.blocks.size()) return false;
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    if (!same(a.blocks[i], b.blocks[i])) return false;
  }
  return a.init_lmax == b.init_lmax && a.extra_node_l == b.extra_node_l;
}

bool same_convolution(const ModelConfig& a, const ModelConfig& b) {
  const bool same_mixer =
      a.radial_mode == b.radial_mode &&
      (a.radial_mode != RadialMode::kDegreeChannel || a.radial_rank == b.radial_rank);
  return same_mixer && a.mixing_layers == b.mixing_layers && a.n_focus == b.n_focus &&
         a.focus_dim == b.focus_dim && a.n_heads == b.n_heads && a.so2_norm == b.so2_norm &&
         a.so2_attn_res == b.so2_attn_res && a.atten_f_mix == b.atten_f_mix &&
         a.atten_v_proj == b.atten_v_proj && a.atten_o_proj == b.atten_o_proj &&
         a.s2_activation_so2 == b.s2_activation_so2 && a.edge_cartesian == b.edge_cartesian &&
         a.node_cartesian == b.node_cartesian && a.node_wise == b.node_wise &&
         a.message_node == b.message_node && same(a.message_node_op, b.message_node_op);
}

bool same_network(const ModelConfig& a, const ModelConfig& b) {
  return a.channels == b.channels && a.n_radial == b.n_radial && a.radial_mlp == b.radial_mlp &&
         a.activation.kind == b.activation.kind && a.mlp_bias == b.mlp_bias &&
         a.use_env_seed == b.use_env_seed && a.layer_scale == b.layer_scale &&
         a.full_attn_res == b.full_attn_res && a.block_attn_res == b.block_attn_res &&
         a.ffn_blocks == b.ffn_blocks && a.ffn_grid == b.ffn_grid && same(a.ffn_op, b.ffn_op) &&
         a.ffn_neurons == b.ffn_neurons && a.glu_activation == b.glu_activation &&
         a.readout_grid == b.readout_grid && same(a.readout_op, b.readout_op) &&
         a.readout_layers == b.readout_layers && a.readout_neurons == b.readout_neurons &&
         a.bridging_zbl == b.bridging_zbl;
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Size& size : kSizes) list.emplace_back(size.name);
    return list;
  }();
  return names;
}

ModelConfig preset(const std::string& name, std::vector<std::string> type_map) {
  for (const Size& size : kSizes) {
    if (name != size.name) continue;
    ModelConfig config = config_of(size);
    config.type_map = std::move(type_map);
    return config;
  }
  std::string known;
  for (const std::string& each : preset_names()) known += (known.empty() ? "" : ", ") + each;
  throw InputError("unknown preset '" + name + "': choose one of " + known);
}

const std::vector<std::string>& all_elements() {
  static const std::vector<std::string> symbols = {
      "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg", "Al", "Si", "P",
      "S",  "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn",
      "Ga", "Ge", "As", "Se", "Br", "Kr", "Rb", "Sr", "Y",  "Zr", "Nb", "Mo", "Tc", "Ru", "Rh",
      "Pd", "Ag", "Cd", "In", "Sn", "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr", "Nd",
      "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W",  "Re",
      "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi", "Po", "At", "Rn", "Fr", "Ra", "Ac", "Th",
      "Pa", "U",  "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es", "Fm", "Md", "No", "Lr", "Rf", "Db",
      "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};
  return symbols;
}

std::string find_preset(const ModelConfig& config) {
  for (const Size& size : kSizes) {
    const ModelConfig known = config_of(size);
    if (same_blocks(config, known) && same_convolution(config, known) &&
        same_network(config, known)) {
      return size.name;
    }
  }
  return "";
}

}  // namespace dpa4::model
