// SPDX-License-Identifier: GPL-2.0-or-later
// dpa4 info: what a model file holds, and what this build can run.
#include <optional>
#include <string>
#include <vector>

#include <omp.h>
#include <nlohmann/json.hpp>

#include "src/base/version.h"
#include "src/io/checkpoint.h"
#include "tools/commands.h"

namespace dpa4::tools {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(model::Basis basis) {
  return basis == model::Basis::kBessel ? "bessel" : "gaussian";
}

const char* name_of(model::AttnResidual residual) {
  switch (residual) {
    case model::AttnResidual::kNone:
      return "none";
    case model::AttnResidual::kIndependent:
      return "independent";
    case model::AttnResidual::kDependent:
      return "dependent";
  }
  return "?";
}

const char* name_of(model::RadialMode mode) {
  switch (mode) {
    case model::RadialMode::kNone:
      return "none";
    case model::RadialMode::kDegree:
      return "degree";
    case model::RadialMode::kDegreeChannel:
      return "degree_channel";
  }
  return "?";
}

const char* name_of(model::GridKind kind) {
  switch (kind) {
    case model::GridKind::kNone:
      return "none";
    case model::GridKind::kS2:
      return "S2";
    case model::GridKind::kSO3:
      return "SO(3)";
  }
  return "?";
}

std::string name_of(const model::GridOp& op) {
  switch (op.kind) {
    case model::GridOpKind::kGlu:
      return "glu";
    case model::GridOpKind::kMlp:
      return "mlp";
    case model::GridOpKind::kBranch:
      return "branch:" + std::to_string(op.branches);
  }
  return "?";
}

const char* name_of(model::NodeCartesian mode) {
  switch (mode) {
    case model::NodeCartesian::kNone:
      return "none";
    case model::NodeCartesian::kDefault:
      return "default";
    case model::NodeCartesian::kParity:
      return "parity";
  }
  return "?";
}

const char* name_of(model::FloatType type) {
  switch (type) {
    case model::FloatType::kFloat16:
      return "float16";
    case model::FloatType::kBFloat16:
      return "bfloat16";
    case model::FloatType::kFloat32:
      return "float32";
    case model::FloatType::kFloat64:
      return "float64";
  }
  return "?";
}

std::string name_of(const model::Activation& activation) {
  switch (activation.kind) {
    case model::ActivationKind::kSilu:
      return "silu";
    case model::ActivationKind::kTanh:
      return "tanh";
    case model::ActivationKind::kRelu:
      return "relu";
    case model::ActivationKind::kRelu6:
      return "relu6";
    case model::ActivationKind::kSoftplus:
      return "softplus";
    case model::ActivationKind::kSigmoid:
      return "sigmoid";
    case model::ActivationKind::kGelu:
      return "gelu";
    case model::ActivationKind::kSilut:
      return format("silut:%g", activation.threshold);
    case model::ActivationKind::kLinear:
      return "linear";
  }
  return "?";
}

Json file_json(const io::CheckpointInfo& info, const model::ModelConfig& config) {
  Json json;
  json["path"] = info.path;
  json["bytes"] = info.file_bytes;
  json["dialect"] = info.dialect;
  json["format_version"] = config.format_version;
  json["heads"] = info.heads;
  json["head"] = info.head;
  json["preset"] = info.preset;
  json["n_parameters"] = info.n_parameters;
  json["has_ema"] = info.has_ema;
  json["has_optimizer"] = info.has_optimizer;
  json["lora_folded"] = info.lora_folded;
  return json;
}

Json blocks_json(const model::ModelConfig& config) {
  Json blocks = Json::array();
  for (const model::BlockShape& block : config.blocks) {
    blocks.push_back({{"lmax", block.lmax},
                      {"mmax", block.mmax},
                      {"kmax", block.kmax},
                      {"node_lmax", block.node_lmax}});
  }
  return blocks;
}

/// Optional settings as their value or null.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json config_json(const model::ModelConfig& c) {
  Json json;
  json["type_map"] = c.type_map;
  json["rcut"] = c.rcut;
  json["channels"] = c.channels;
  json["blocks"] = blocks_json(c);
  json["precision"] = name_of(c.precision);
  json["activation"] = name_of(c.activation);
  json["basis"] = name_of(c.basis);
  json["n_radial"] = c.n_radial;
  json["radial_mlp"] = c.radial_mlp;
  json["env_exp"] = {c.basis_env_exp, c.edge_env_exp};
  json["edge_norm"] = {c.edge_norm_radial, c.edge_norm_film, c.edge_norm_focus};
  json["use_env_seed"] = c.use_env_seed;
  json["n_focus"] = c.n_focus;
  json["focus_dim"] = c.focus_dim;
  json["n_heads"] = c.n_heads;
  json["mixing_layers"] = c.mixing_layers;
  json["radial_mode"] = name_of(c.radial_mode);
  json["radial_rank"] = c.radial_rank;
  json["so2_attn_res"] = name_of(c.so2_attn_res);
  json["full_attn_res"] = name_of(c.full_attn_res);
  json["block_attn_res"] = name_of(c.block_attn_res);
  json["s2_activation_so2"] = c.s2_activation_so2;
  json["edge_cartesian"] = c.edge_cartesian;
  json["node_cartesian"] = name_of(c.node_cartesian);
  json["node_wise"] = name_of(c.node_wise);
  json["message_node"] = name_of(c.message_node);
  json["ffn_blocks"] = c.ffn_blocks;
  json["ffn_grid"] = name_of(c.ffn_grid);
  json["ffn_op"] = name_of(c.ffn_op);
  json["ffn_neurons"] = c.ffn_neurons;
  json["readout_grid"] = name_of(c.readout_grid);
  json["readout_neurons"] = c.readout_neurons;
  json["sandwich_norm"] = c.sandwich_norm;
  json["fitting_neuron"] = c.fitting_neuron;
  json["numb_fparam"] = c.numb_fparam;
  json["numb_aparam"] = c.numb_aparam;
  json["default_fparam"] = or_null(c.default_fparam);
  json["charge_spin"] = c.add_chg_spin_ebd;
  json["default_charge_spin"] = or_null(c.default_chg_spin);
  json["exclude_types"] = c.exclude_types;
  json["atom_exclude_types"] = c.atom_exclude_types;
  json["bridging"] = c.bridging_zbl ? Json{{"method", "ZBL"},
                                           {"r_inner", c.bridging_r_inner},
                                           {"r_outer", c.bridging_r_outer}}
                                    : Json();
  return json;
}

std::string joined(const std::vector<std::string>& names, const char* separator) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : separator) + name;
  return text;
}

/// "262144" as "262,144".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

/// "3, 3" for the degrees of two blocks.
std::string per_block(const model::ModelConfig& config, int model::BlockShape::*member) {
  std::string text;
  for (const model::BlockShape& block : config.blocks) {
    text += (text.empty() ? "" : ", ") + std::to_string(block.*member);
  }
  return text;
}

std::string conditions_text(const model::ModelConfig& c) {
  std::vector<std::string> parts;
  if (c.numb_fparam > 0) {
    parts.push_back(
        format("%d frame parameters%s", c.numb_fparam, c.default_fparam ? " (with default)" : ""));
  }
  if (c.numb_aparam > 0) parts.push_back(format("%d atom parameters", c.numb_aparam));
  if (c.add_chg_spin_ebd) {
    parts.push_back(c.default_chg_spin ? format("charge and spin (default %g, %g)",
                                                (*c.default_chg_spin)[0], (*c.default_chg_spin)[1])
                                       : std::string("charge and spin"));
  }
  return parts.empty() ? "none" : joined(parts, ", ");
}

std::string exclusions_text(const model::ModelConfig& c) {
  std::vector<std::string> parts;
  for (const auto& [a, b] : c.exclude_types) parts.push_back(c.type_map[a] + "-" + c.type_map[b]);
  return joined(parts, ", ");
}

class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}
  void row(const char* label, const std::string& value) {
    out_ << format("%-15s %s\n", label, value.c_str());
  }

 private:
  std::ostream& out_;
};

void print_model(const io::CheckpointInfo& info, const model::ModelConfig& c, std::ostream& out) {
  Table table(out);
  table.row("file", info.path + "  (" + grouped(info.file_bytes) + " bytes)");
  table.row("format",
            format("%s checkpoint, model format %g", info.dialect.c_str(), c.format_version));
  if (!info.heads.empty()) {
    table.row("heads", joined(info.heads, ", ") + "  (read: " + info.head + ")");
  }
  table.row("preset", info.preset.empty() ? "none of the released ones" : info.preset);
  table.row("parameters", grouped(info.n_parameters));
  table.row("elements", joined(c.type_map, " "));
  table.row("cutoff", format("%g Angstrom", c.rcut));
  table.row("channels", std::to_string(c.channels));
  table.row("blocks", std::to_string(c.blocks.size()) + "  (lmax " +
                          per_block(c, &model::BlockShape::lmax) + "; mmax " +
                          per_block(c, &model::BlockShape::mmax) + ")");
  table.row("convolution",
            format("%d focus x %d channels, %d heads, %d layers, radial %s rank %d", c.n_focus,
                   c.focus_dim, c.n_heads, c.mixing_layers, name_of(c.radial_mode), c.radial_rank));
  table.row("radial basis", format("%d %s functions", c.n_radial, name_of(c.basis)));
  table.row("feed-forward", format("grid %s, %s, width %d", name_of(c.ffn_grid),
                                   name_of(c.ffn_op).c_str(), c.ffn_neurons));
  table.row("activation", name_of(c.activation));
  table.row("trained in", name_of(c.precision));
  table.row("conditions", conditions_text(c));
  if (c.bridging_zbl) {
    table.row("short range",
              format("ZBL between %g and %g Angstrom", c.bridging_r_inner, c.bridging_r_outer));
  }
  if (!c.exclude_types.empty()) table.row("excluded pairs", exclusions_text(c));
  std::vector<std::string> extras;
  if (info.has_ema) extras.emplace_back("averaged weights (--ema)");
  if (info.has_optimizer) extras.emplace_back("optimizer state (not read)");
  if (info.lora_folded) extras.emplace_back("LoRA adapters (folded)");
  if (!extras.empty()) table.row("also holds", joined(extras, ", "));
}

std::vector<std::string> built_engines() {
  if (DPA4_BUILT_NATIVE != 0) return {"eager", "native"};
  return {"eager"};
}

ExitCode print_build(bool as_json, std::ostream& out) {
  Json json;
  json["version"] = kVersion;
  json["engines"] = built_engines();
  json["precisions"] = {"float32", "float64"};
  json["cuda_kernels"] = DPA4_BUILT_CUDA != 0;
  json["threads"] = omp_get_max_threads();
  json["compiler"] = __VERSION__;
  if (as_json) {
    out << json.dump(1) << "\n";
    return kSuccess;
  }
  Table table(out);
  table.row("dpa4", kVersion);
  table.row("engines", joined(built_engines(), ", "));
  table.row("precisions", "float32, float64");
  table.row("CUDA kernels", DPA4_BUILT_CUDA != 0 ? "built" : "not built");
  table.row("threads", std::to_string(omp_get_max_threads()));
  table.row("compiler", __VERSION__);
  return kSuccess;
}

}  // namespace

ExitCode run_info(const InfoOptions& options, std::ostream& out, Logger& log) {
  if (options.build != options.model.empty())
    throw UsageError("info needs either MODEL or --build");
  if (options.build) return print_build(options.json, out);
  io::CheckpointOptions checkpoint_options;
  checkpoint_options.head = options.head;
  const io::Checkpoint checkpoint = io::read_checkpoint(options.model, checkpoint_options, log);
  if (options.json) {
    Json json;
    json["file"] = file_json(checkpoint.info, checkpoint.config);
    json["model"] = config_json(checkpoint.config);
    out << json.dump(1) << "\n";
  } else {
    print_model(checkpoint.info, checkpoint.config, out);
  }
  return kSuccess;
}

}  // namespace dpa4::tools
