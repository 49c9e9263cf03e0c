// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/native_evaluator.h"

namespace dpa4::native {

using model::AttnResidual;
using model::GridKind;

namespace {

constexpr int kLargestDegree = 6;
constexpr int kLargestRank = 4;
constexpr int kMostFocus = 8;

const char* name_of(AttnResidual value) {
  return value == AttnResidual::kIndependent ? "independent" : "dependent";
}

std::optional<std::string> unsupported_block(const model::ModelConfig& config,
                                             const model::BlockShape& block) {
  if (block.lmax < 1 || block.lmax > kLargestDegree) return "lmax = " + std::to_string(block.lmax);
  if (block.mmax != 1) return "mmax = " + std::to_string(block.mmax);
  if (block.node_lmax != block.lmax) {
    return "extra_node_l = " + std::to_string(config.extra_node_l);
  }
  return std::nullopt;
}

std::optional<std::string> unsupported_convolution(const model::ModelConfig& config) {
  if (config.edge_cartesian) return "edge_cartesian = true";
  if (config.node_cartesian != model::NodeCartesian::kNone) {
    return std::string("node_cartesian = ") +
           (config.node_cartesian == model::NodeCartesian::kParity ? "parity:" : "default:") +
           std::to_string(config.node_cartesian_layers);
  }
  if (config.node_wise != GridKind::kNone) {
    return config.node_wise == GridKind::kS2 ? "node_wise_s2 = true" : "node_wise_so3 = true";
  }
  if (config.message_node == GridKind::kS2) return "message_node_s2 = true";
  if (config.so2_norm) return "so2_norm = true";
  if (config.so2_attn_res != AttnResidual::kNone) {
    return std::string("so2_attn_res = ") + name_of(config.so2_attn_res);
  }
  if (config.s2_activation_so2) return "s2_activation[0] = true";
  if (config.radial_mode == model::RadialMode::kDegree) return "radial_so2_mode = degree";
  if (config.radial_mode == model::RadialMode::kDegreeChannel &&
      (config.radial_rank < 1 || config.radial_rank > kLargestRank)) {
    return "radial_so2_rank = " + std::to_string(config.radial_rank);
  }
  if (config.mixing_layers == 0 && config.radial_mode == model::RadialMode::kNone) {
    return "mixing_layers = 0";
  }
  if (config.n_focus > kMostFocus) return "n_focus = " + std::to_string(config.n_focus);
  if (config.atten_f_mix) return "atten_f_mix = true";
  if (config.atten_v_proj) return "atten_v_proj = true";
  if (config.atten_o_proj) return "atten_o_proj = true";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unsupported_option(const model::ModelConfig& config) {
  for (const model::BlockShape& block : config.blocks) {
    if (const auto option = unsupported_block(config, block)) return option;
  }
  if (config.extra_node_l != 0) return "extra_node_l = " + std::to_string(config.extra_node_l);
  if (config.init_lmax < 1 || config.init_lmax > kLargestDegree) {
    return "lmax = " + std::to_string(config.init_lmax);
  }
  if (const auto option = unsupported_convolution(config)) return option;
  if (config.activation.kind != model::ActivationKind::kSilu) {
    return "activation_function other than silu";
  }
  if (config.mlp_bias) return "mlp_bias = true";
  if (config.layer_scale) return "layer_scale = true";
  if (config.full_attn_res != AttnResidual::kNone) {
    return std::string("full_attn_res = ") + name_of(config.full_attn_res);
  }
  if (config.block_attn_res != AttnResidual::kNone) {
    return std::string("block_attn_res = ") + name_of(config.block_attn_res);
  }
  if (!config.blocks.empty() && config.ffn_grid == GridKind::kNone) {
    return "s2_activation[1] = false";
  }
  if (config.readout_op.kind == model::GridOpKind::kBranch &&
      config.readout_grid != GridKind::kNone) {
    return "so3_readout with branches";
  }
  if (config.fitting_neuron.empty()) return "fitting_net neuron = []";
  if (config.fitting_activation.kind != model::ActivationKind::kSilu) {
    return "fitting_net activation_function other than silu";
  }
  if (config.case_film_embd) return "case_film_embd = true";
  if (config.subtract_zero_descriptor) return "atom_ener";
  if (config.use_aparam_as_mask) return "use_aparam_as_mask = true";
  if (config.vacuum_ref && config.numb_aparam > 0) return "vacuum_ref with numb_aparam";
  return std::nullopt;
}

}  // namespace dpa4::native
