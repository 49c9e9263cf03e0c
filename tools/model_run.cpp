// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/model_run.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/model/halo_exchange.h"

namespace dpa4::tools {
namespace {

std::string plural(std::size_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace

ModelRun::ModelRun(const std::string& path, const engine::EngineOptions& options, Logger& log)
    : path_(path),
      model_(engine::load(path, options, log)),
      graph_(model_.config.rcut, model_.config.n_types(), model_.config.exclude_types) {}

RunResult ModelRun::evaluate(const Structure& structure, model::Request request) {
  const std::vector<int> types = types_of(structure);
  const TensorView<const int, 1> type_view(types.data(), types.size());
  model::Structure input;
  input.type = type_view;
  input.aparam = aparam_of(structure);
  input.edges = graph_.build(structure.positions(), type_view, structure.cell);

  RunResult result;
  result.n_edges = input.edges.n_edges();
  model::NoHalo halo;
  model_.evaluator->evaluate(input, conditions_of(structure), halo, request, result.evaluation);
  return result;
}

std::vector<int> ModelRun::types_of(const Structure& structure) const {
  const std::vector<std::string>& known = model_.config.type_map;
  std::vector<int> types;
  types.reserve(structure.element.size());
  for (std::size_t i = 0; i < structure.element.size(); ++i) {
    const auto found = std::find(known.begin(), known.end(), structure.element[i]);
    if (found == known.end()) {
      std::string list;
      for (const std::string& name : known) list += " " + name;
      throw InputError(structure.name + ": atom " + std::to_string(i + 1) + " is of element '" +
                       structure.element[i] + "', which " + path_ + " does not know (it has" +
                       list + ")");
    }
    types.push_back(static_cast<int>(found - known.begin()));
  }
  return types;
}

model::Conditions ModelRun::conditions_of(const Structure& structure) const {
  const model::ModelConfig& config = model_.config;
  model::Conditions conditions;
  conditions.fparam = structure.fparam;
  const std::size_t n_wanted = static_cast<std::size_t>(config.numb_fparam);
  if (structure.fparam.empty()) {
    if (n_wanted > 0 && !config.default_fparam) {
      throw InputError(path_ + ": this model needs " + plural(n_wanted, "frame parameter") +
                       " (fparam), and has no default");
    }
  } else if (structure.fparam.size() != n_wanted) {
    throw InputError(path_ + ": " + plural(structure.fparam.size(), "frame parameter") +
                     " (fparam) given, but this model takes " + std::to_string(n_wanted));
  }
  if (structure.charge_spin && !config.add_chg_spin_ebd) {
    throw InputError(path_ + ": this model does not depend on charge and spin");
  }
  if (config.add_chg_spin_ebd && !structure.charge_spin && !config.default_chg_spin) {
    throw InputError(path_ +
                     ": this model needs a charge and a spin multiplicity, and has no default");
  }
  if (structure.charge_spin) {
    if (const auto problem = model::charge_spin_problem(*structure.charge_spin)) {
      throw InputError(*problem);
    }
  }
  conditions.charge_spin = structure.charge_spin;
  return conditions;
}

TensorView<const double, 2> ModelRun::aparam_of(const Structure& structure) const {
  const std::size_t n_wanted = static_cast<std::size_t>(model_.config.numb_aparam);
  const std::size_t n_atoms = structure.element.size();
  if (structure.aparam.size() != n_atoms * n_wanted) {
    throw InputError(path_ + ": this model takes " + plural(n_wanted, "parameter") +
                     " an atom (aparam); " + structure.name + " has " +
                     std::to_string(structure.aparam.size()) + " for " + plural(n_atoms, "atom"));
  }
  return {structure.aparam.data(), n_atoms, n_wanted};
}

}  // namespace dpa4::tools
