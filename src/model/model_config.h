// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dpa4::model {

enum class Basis { kBessel, kGaussian };
enum class AttnResidual { kNone, kIndependent, kDependent };
enum class RadialMode { kNone, kDegree, kDegreeChannel };
enum class GridKind { kNone, kS2, kSO3 };
enum class GridOpKind { kGlu, kMlp, kBranch };
enum class NodeCartesian { kNone, kDefault, kParity };
enum class FloatType { kFloat16, kBFloat16, kFloat32, kFloat64 };
enum class ActivationKind {
  kSilu,
  kTanh,
  kRelu,
  kRelu6,
  kSoftplus,
  kSigmoid,
  kGelu,
  kSilut,
  kLinear
};

struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  double threshold = 3.0;  // silut only
};

/// The operation of a grid net on its grid.
struct GridOp {
  GridOpKind kind = GridOpKind::kGlu;
  int branches = 0;  // kBranch only
};

/// Options of one interaction block after schedules and clipping are resolved.
struct BlockShape {
  int lmax = 0;       // degree of messages
  int mmax = 0;       // largest order kept in the edge frame, <= lmax
  int kmax = 0;       // SO(3) frame order, <= lmax
  int node_lmax = 0;  // degree of node features, lmax + extra_node_l
};

/// Everything that decides what a DPA4 model computes, with every default filled in and every
/// automatic value resolved. Names are those of the checkpoint's own options. Lengths in Angstrom,
/// energies in eV.
struct ModelConfig {
  std::vector<std::string> type_map;
  double format_version = 1.1;  // `version_tensor`; 1.0 when a `pt` file has none

  // Neighbors and radial features
  double rcut = 6.0;
  int basis_env_exp = 7;  // 0: the basis carries no envelope
  int edge_env_exp = 5;
  Basis basis = Basis::kBessel;
  int n_radial = 16;
  std::vector<int> radial_mlp;   // hidden widths, automatic entries resolved
  bool edge_norm_radial = true;  // also: eps of the post-SO(2) norm is 1e-5 (true) or 1 (false)
  bool edge_norm_film = true;
  bool edge_norm_focus = true;
  double eps = 1e-7;

  // Widths and schedules
  int channels = 64;
  std::vector<BlockShape> blocks;
  int init_lmax = 3;     // degree of the initial node state, also of the radial features
  int readout_lmax = 3;  // node degree the read-out sees
  int readout_kmax = 1;
  int extra_node_l = 0;
  FloatType precision = FloatType::kFloat32;
  Activation activation;
  bool mlp_bias = false;
  bool use_env_seed = true;
  bool layer_scale = false;

  // SO(2) convolution
  int mixing_layers = 4;
  bool so2_norm = false;
  AttnResidual so2_attn_res = AttnResidual::kNone;
  RadialMode radial_mode = RadialMode::kDegreeChannel;
  int radial_rank = 1;  // 0: full
  int n_focus = 1;
  int focus_dim = 64;  // resolved: never 0
  int n_heads = 1;     // 0: plain scatter
  bool atten_f_mix = false;
  bool atten_v_proj = false;
  bool atten_o_proj = false;
  bool s2_activation_so2 = false;
  bool edge_cartesian = false;
  NodeCartesian node_cartesian = NodeCartesian::kNone;
  int node_cartesian_layers = 0;
  GridKind node_wise = GridKind::kNone;
  GridKind message_node = GridKind::kNone;
  GridOp node_wise_op;
  GridOp message_node_op;

  // Block
  std::array<bool, 4> sandwich_norm{false, true, true,
                                    false};  // so2 pre, so2 post, ffn pre, ffn post
  AttnResidual full_attn_res = AttnResidual::kNone;
  AttnResidual block_attn_res = AttnResidual::kNone;
  int ffn_blocks = 1;
  GridKind ffn_grid = GridKind::kS2;  // kNone: gated or plain activation
  GridOp ffn_op;
  bool glu_activation = true;
  int ffn_neurons = 0;                      // resolved: hidden width of the blocks' FFN
  int readout_neurons = 0;                  // resolved: hidden width of the read-out FFN
  bool lebedev_so2 = true;                  // quadrature of all S2 grids of the SO(2) convolution
  bool lebedev_ffn = true;                  // quadrature of the S2 grid of the FFN
  GridKind readout_grid = GridKind::kNone;  // kSO3 when so3_readout is glu or mlp
  GridOp readout_op;
  int readout_layers = 1;

  // Conditions and exclusions
  bool add_chg_spin_ebd = false;
  std::optional<std::array<double, 2>> default_chg_spin;  // charge, multiplicity
  std::vector<std::pair<int, int>> exclude_types;         // unordered pairs of types without edges
  std::vector<int> atom_exclude_types;                    // types whose energy is 0

  // Short-range bridging to ZBL (format <= 1.2)
  bool bridging_zbl = false;
  double bridging_r_inner = 0.5;
  double bridging_r_outer = 0.8;

  // Fitting net
  std::vector<int> fitting_neuron;  // hidden widths, automatic entries resolved
  Activation fitting_activation;
  FloatType fitting_precision = FloatType::kFloat32;
  int numb_fparam = 0;
  int numb_aparam = 0;
  bool use_aparam_as_mask = false;
  std::optional<std::vector<double>> default_fparam;
  int dim_case_embd = 0;
  bool case_film_embd = false;
  bool bias_out = false;
  bool subtract_zero_descriptor = false;  // `atom_ener` has an entry
  std::vector<int> fitting_exclude_types;
  bool vacuum_ref = false;  // active isolated-atom reference (format with `preset_out_bias`)

  int n_types() const { return static_cast<int>(type_map.size()); }
  int hidden_width() const { return n_focus * focus_dim; }
};

}  // namespace dpa4::model
