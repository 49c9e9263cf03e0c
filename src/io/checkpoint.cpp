// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/checkpoint.h"

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/io/config_reader.h"
#include "src/io/file_kind.h"
#include "src/io/lora.h"
#include "src/io/options.h"
#include "src/io/pickle.h"
#include "src/io/state_dict.h"
#include "src/io/zip_reader.h"
#include "src/model/presets.h"
#include "src/model/weight_schema.h"

namespace dpa4::io {

namespace {

using pickle::Kind;
using pickle::Value;

constexpr double kNewestFormat = 1.3;

/// Messages quote names from the file: no control characters reach a terminal, nothing gets
/// endless.
std::string readable(std::string message) {
  constexpr std::size_t kLongest = 2000;
  if (message.size() > kLongest) message = message.substr(0, kLongest) + "...";
  for (char& c : message) {
    if ((c >= 0 && c < ' ') || c == '\x7f') c = '?';
  }
  return message;
}

/// The archive and its object tree, opened but with no array read.
struct Archive {
  ZipReader zip;
  std::string root;  // folder inside the archive with a trailing slash, or empty
  std::unique_ptr<pickle::Document> tree;
};

Archive open_archive(const ByteSource& source, const std::string& path) {
  constexpr std::uint64_t kLargestTree = 256u << 20;
  if (!is_zip(source)) throw InputError(path + ": " + describe_other_file(source));
  ZipReader zip(source, path);
  const std::string tree_name = find_object_tree(zip, path);
  const std::string root = tree_name.substr(0, tree_name.size() - std::string("data.pkl").size());

  if (const ZipMember* order = zip.find(root + "byteorder"); order != nullptr && order->size == 3) {
    throw InputError(path +
                     ": it was saved on a big-endian machine; load it with torch.load on a common "
                     "one and save it again");
  }
  const ZipMember& member = *zip.find(tree_name);
  if (member.size > kLargestTree) {
    throw InputError(path + ": its object tree (data.pkl) has " + std::to_string(member.size) +
                     " bytes; a model's is far below " + std::to_string(kLargestTree));
  }
  std::unique_ptr<pickle::Document> tree = pickle::parse(zip.contents(member), path);
  return {std::move(zip), root, std::move(tree)};
}

/// The dictionary of arrays and options: the entry "model", or the file itself.
const pickle::Dict& find_model(const Value& root, const std::string& path) {
  const std::string hint = "; use a checkpoint written by dp --pt train";
  if (root.is(Kind::kOpaque)) {
    throw InputError(path + ": it holds a pickled Python object of class '" + root.global_name() +
                     "', not a DeePMD-kit checkpoint" + hint);
  }
  if (!root.is(Kind::kDict)) throw InputError(path + ": it holds no DeePMD-kit model" + hint);
  const Value* model = root.dict().find("model");
  if (model == nullptr && root.dict().find("_extra_state") != nullptr) return root.dict();
  if (model != nullptr && model->is(Kind::kDict)) return model->dict();
  if (model != nullptr && model->is(Kind::kOpaque)) {
    throw InputError(path + ": its entry 'model' is a Python object of class '" +
                     model->global_name() + "', not a dict of weights" + hint);
  }
  throw InputError(path + ": it has no entry 'model', so it is no DeePMD-kit training checkpoint" +
                   hint);
}

Options find_params(const pickle::Dict& model, const std::string& path) {
  const Options top(path, "", &model);
  const Value* state = top.find("_extra_state");
  if (state == nullptr || !state->is(Kind::kDict)) {
    throw InputError(path +
                     ": it holds weights but not the options of the model "
                     "(_extra_state.model_params is missing); use the training checkpoint");
  }
  const Value* params = state->dict().find("model_params");
  if (params == nullptr || !params->is(Kind::kDict)) {
    throw InputError(path + ": _extra_state.model_params = " +
                     (params == nullptr ? std::string("(missing)") : describe(*params)) +
                     ": expected the dict of the model's options");
  }
  return Options(path, "", &params->dict());
}

/// The branches of a multi-task file and the names they go by.
struct Branches {
  std::vector<std::string> names;
  std::map<std::string, std::string> aliases;  // any name -> branch
};

Branches list_branches(const Options& model_dict) {
  Branches branches;
  for (const auto& [key, value] : model_dict.dict()->entries) {
    if (!key.is(Kind::kText)) continue;
    branches.names.emplace_back(key.text());
    branches.aliases[branches.names.back()] = branches.names.back();
  }
  for (const auto& [key, value] : model_dict.dict()->entries) {
    if (!key.is(Kind::kText) || !value.is(Kind::kDict)) continue;
    const std::string name(key.text());
    const Options params(model_dict.path(), "model_dict." + name, &value.dict());
    for (const std::string& alias : params.texts("model_branch_alias")) {
      branches.aliases.emplace(alias, name);
    }
  }
  return branches;
}

std::string join(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 40;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kMost; ++i) out += (i > 0 ? ", " : "") + names[i];
  return names.size() > kMost ? out + ", ..." : out;
}

/// Exact name or alias, then without regard to case; without a wish, "Default".
std::string choose_branch(const Branches& branches, const std::optional<std::string>& wish,
                          const std::string& path) {
  const std::string name = wish.value_or("Default");
  if (const auto found = branches.aliases.find(name); found != branches.aliases.end())
    return found->second;
  if (wish) {
    for (const auto& [alias, branch] : branches.aliases) {
      if (lower(alias) == lower(name)) return branch;
    }
    throw InputError(path + ": it has no head '" + name + "'; choose one of " +
                     join(branches.names));
  }
  throw InputError(path + ": it holds several models; choose a head: " + join(branches.names));
}

/// One model of the file: its options and the branch its arrays are stored under.
struct Selection {
  Options params;
  std::string branch;
};

Selection select_model(const Options& params, const CheckpointOptions& options,
                       CheckpointInfo& info) {
  if (params.find("model_dict") == nullptr) {
    if (options.head && lower(*options.head) != "default") {
      throw InputError(params.path() + ": head '" + *options.head +
                       "' was asked for, but the file holds a single model; leave the head out");
    }
    return {params, "Default"};
  }
  const Options model_dict = params.section("model_dict");
  const Branches branches = list_branches(model_dict);
  info.heads = branches.names;
  info.head = choose_branch(branches, options.head, params.path());
  return {model_dict.section(info.head), info.head};
}

/// Kinds of models that are recognized by their arrays.
void refuse_foreign_arrays(const StateDict& state, const std::string& path) {
  for (const auto& [name, entry] : state.entries()) {
    if (name.rfind("dens_fitting_net.", 0) == 0) {
      throw InputError(path + ": " + entry.key +
                       ": direct-force (dens) models are not implemented; use an "
                       "energy model");
    }
    if (name.rfind("models.", 0) == 0) {
      throw InputError(path + ": " + entry.key +
                       ": bridged models of dp --pt-expt are not implemented; train with dp --pt");
    }
    if (name.rfind("descriptor.pair_film.", 0) == 0) {
      throw InputError(path + ": " + entry.key +
                       ": this is a DPA4C model; only DPA4 (SeZM) is implemented");
    }
    if (name.find(".pointwise_grid_mlp.") != std::string::npos ||
        name.find(".scalar_mlp.") != std::string::npos) {
      throw InputError(
          path + ": " + entry.key +
          ": the grid_mlp layout from before June 2026 is not implemented; train the model "
          "again with a newer DeePMD-kit");
    }
  }
}

double read_format(const StateDict& state, TensorLoader& loader) {
  const StateDict::Entry* entry = state.find("descriptor.version_tensor");
  if (entry == nullptr) return state.dialect() == Dialect::kPt ? 1.0 : 1.1;
  const double stored = loader.load(*entry, {}).to<double>().front();
  const double format = std::round(stored * 1e6) / 1e6;  // 1.1 as float32 is 1.1 as well
  if (format < 1.0 || format > kNewestFormat) {
    throw InputError(loader.path() + ": " + entry->key + " = " + std::to_string(format) +
                     ": formats 1.0 to 1.3 are implemented");
  }
  return format;
}

model::Weights load_weights(const StateDict& state, TensorLoader& loader,
                            const std::vector<model::WeightSpec>& schema) {
  model::Weights weights;
  for (const model::WeightSpec& spec : schema) {
    const StateDict::Entry* entry = state.find(spec.name);
    if (entry == nullptr) {
      std::string shape;
      for (std::int64_t extent : spec.shape)
        shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
      throw InputError(loader.path() + ": the array '" + spec.name + "' of shape (" + shape +
                       ") is missing, which the model's options need");
    }
    weights.set(spec.name, loader.load(*entry, spec.shape));
  }
  return weights;
}

/// The stored default of fparam, not the option, is what the reference evaluates with.
void read_default_fparam(const StateDict& state, TensorLoader& loader, model::ModelConfig& config) {
  const StateDict::Entry* entry = state.find("fitting_net.default_fparam_tensor");
  if (entry == nullptr || config.numb_fparam == 0) return;
  config.default_fparam = loader.load(*entry, {config.numb_fparam}).to<double>();
}

/// `pt_expt` files carry the matrices of the grid nets, rounded to the type of the weights, and the
/// reference computes with what it reads. The `pt` reference makes its own and ignores what old
/// files carry.
void load_grid_matrices(const StateDict& state, TensorLoader& loader, model::Weights& weights) {
  if (state.dialect() != Dialect::kPtExpt) return;
  const std::string to = ".projector.to_grid_mat";
  for (const auto& [name, entry] : state.entries()) {
    if (!name.ends_with(to)) continue;
    const std::string back = name.substr(0, name.size() - to.size()) + ".projector.from_grid_mat";
    const StateDict::Entry* counterpart = state.find(back);
    const std::vector<std::int64_t> shape = loader.shape_of(entry);
    if (counterpart == nullptr || shape.size() != 2) {
      throw InputError(loader.path() + ": " + entry.key +
                       " is no matrix, or its counterpart from_grid_mat is missing");
    }
    weights.set(name, loader.load(entry, shape));
    weights.set(back, loader.load(*counterpart, {shape[1], shape[0]}));
  }
}

void use_averaged_weights(const Value* ema, const std::string& branch, const std::string& path,
                          const std::vector<model::WeightSpec>& schema, StateDict& state) {
  const Value* averages =
      ema != nullptr && ema->is(Kind::kDict) ? ema->dict().find("model") : nullptr;
  if (averages == nullptr || !averages->is(Kind::kDict)) {
    throw InputError(
        path +
        ": it holds no averaged weights (no entry 'ema'); leave the option out, or use "
        "the checkpoint whose name ends in _ema");
  }
  const std::set<std::string> replaced = state.overlay(averages->dict(), branch);
  for (const model::WeightSpec& spec : schema) {
    if (spec.trainable && replaced.count(spec.name) == 0 &&
        spec.name != "descriptor.radial_basis.adam_freqs") {
      throw InputError(path + ": its averaged weights (ema) have no array '" + spec.name + "'");
    }
  }
}

/// Arrays that look trained but belong to nothing we know mean an option we do not understand.
void warn_about_unknown(const StateDict& state, const std::vector<model::WeightSpec>& schema,
                        const std::string& path, Logger& log) {
  std::set<std::string> known;
  for (const model::WeightSpec& spec : schema) known.insert(spec.name);
  std::vector<std::string> unknown;
  for (const auto& [name, entry] : state.entries()) {
    const bool trained =
        entry.value.is(Kind::kTensor) && pickle::is_floating(entry.value.tensor().type);
    if (trained && known.count(name) == 0 && !is_derived(name) && !is_lora(name)) {
      unknown.push_back(entry.key);
    }
  }
  if (unknown.empty()) return;
  log.warning(readable(path + ": " + std::to_string(unknown.size()) +
                       " arrays belong to no option known here and are ignored: " + join(unknown)));
}

Checkpoint read(const ByteSource& source, const std::string& path, const CheckpointOptions& options,
                Logger& log) {
  const Archive archive = open_archive(source, path);
  const Value& root = archive.tree->root();
  const pickle::Dict& dict = find_model(root, path);

  Checkpoint checkpoint;
  CheckpointInfo& info = checkpoint.info;
  info.path = path;
  info.file_bytes = static_cast<std::int64_t>(source.size());
  const Selection selection = select_model(find_params(dict, path), options, info);
  require_dpa4_energy_model(selection.params);

  StateDict state(dict, selection.branch, path);
  refuse_foreign_arrays(state, path);
  TensorLoader loader(archive.zip, archive.root, path, source.size());
  const double format = read_format(state, loader);
  checkpoint.config =
      read_config(selection.params, format, static_cast<std::int64_t>(state.entries().size()));
  const std::vector<model::WeightSpec> schema = model::weight_schema(checkpoint.config);

  const bool has_wrapper = &root.dict() != &dict;
  const Value* ema = has_wrapper ? root.dict().find("ema") : nullptr;
  info.has_ema = ema != nullptr && !ema->is(Kind::kNone);
  info.has_optimizer = has_wrapper && root.dict().find("optimizer") != nullptr;
  if (options.use_ema) use_averaged_weights(ema, selection.branch, path, schema, state);

  checkpoint.weights = load_weights(state, loader, schema);
  info.lora_folded = fold_lora(state, loader, schema, checkpoint.weights);
  load_grid_matrices(state, loader, checkpoint.weights);
  read_default_fparam(state, loader, checkpoint.config);
  warn_about_unknown(state, schema, path, log);

  info.dialect = state.dialect() == Dialect::kPt ? "pt" : "pt_expt";
  info.preset = model::find_preset(checkpoint.config);
  info.n_parameters = model::count_parameters(schema);
  return checkpoint;
}

}  // namespace

Checkpoint read_checkpoint(const ByteSource& source, const std::string& path,
                           const CheckpointOptions& options, Logger& log) {
  try {
    return read(source, path, options, log);
  } catch (const InputError& error) {
    throw InputError(readable(error.what()));
  }
}

Checkpoint read_checkpoint(const std::string& path, const CheckpointOptions& options, Logger& log) {
  return read_checkpoint(*open_file(path), path, options, log);
}

}  // namespace dpa4::io
