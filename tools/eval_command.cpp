// SPDX-License-Identifier: GPL-2.0-or-later
// dpa4 eval: energy, forces and stress of the structures of a file.
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "tools/commands.h"
#include "tools/model_run.h"
#include "tools/structure_io.h"

namespace dpa4::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGPaPerEvA3 = 160.2176634;  // exact: e / 1e-30 m^3 / 1e9 Pa

/// Conditions of the command line are those of every frame; they replace what a file says.
void apply_conditions(const EvalOptions& options, const std::vector<double>& fparam,
                      const model::ModelConfig& config, Structure& structure) {
  if (!fparam.empty()) structure.fparam = fparam;
  if (!options.charge && !options.spin) return;
  if (!config.default_chg_spin && !(options.charge && options.spin)) {
    throw InputError(
        "--charge and --spin must be given together: the model has no default for them");
  }
  const std::array<double, 2> base = config.default_chg_spin.value_or(std::array<double, 2>{});
  structure.charge_spin = {options.charge.value_or(base[0]), options.spin.value_or(base[1])};
}

/// "Si,C" as its parts, none of them empty.
std::vector<std::string> split_list(const std::string& text, const std::string& option) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  for (const std::string& part : parts) {
    if (part.empty()) throw UsageError(option + " " + text + ": a list is written as in Si,C");
  }
  return parts;
}

std::string parse_atom_style(const std::string& text) {
  for (const char* known : {"", "atomic", "charge", "molecular", "full"}) {
    if (text == known) return text;
  }
  throw UsageError("--atom-style " + text + ": must be atomic, charge, molecular or full");
}

/// "ppf": periodic along a and b.
std::optional<std::array<bool, 3>> parse_boundary(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text.size() != 3 || text.find_first_not_of("pf") != std::string::npos) {
    throw UsageError("--boundary " + text + ": three letters, p (periodic) or f (not), as in ppf");
  }
  return std::array<bool, 3>{text[0] == 'p', text[1] == 'p', text[2] == 'p'};
}

/// "0.3,-0.7"
std::vector<double> parse_fparam(const std::string& text) {
  std::vector<double> values;
  if (text.empty()) return values;
  for (const std::string& word : split_list(text, "--fparam")) {
    char* end = nullptr;
    values.push_back(std::strtod(word.c_str(), &end));
    if (*end != '\0' || !std::isfinite(values.back())) {
      throw UsageError("--fparam " + text + ": '" + word + "' is not a finite number");
    }
  }
  return values;
}

bool has_stress(const Structure& structure) {
  return structure.cell.periodic == std::array<bool, 3>{true, true, true};
}

/// (1 / V) dE / d strain [eV/Angstrom^3]: positive under tension.
std::array<double, 9> stress_of(const Structure& structure, const model::Evaluation& result) {
  std::array<double, 9> stress{};
  const double volume = structure.cell.volume();
  for (int k = 0; k < 9; ++k) stress[k] = -result.virial[k] / volume;
  return stress;
}

Json rows(const double* values, int n_rows, int n_columns) {
  Json list = Json::array();
  for (int i = 0; i < n_rows; ++i) {
    list.push_back(std::vector<double>(values + i * n_columns, values + (i + 1) * n_columns));
  }
  return list;
}

Json to_json(const Structure& structure, const RunResult& run) {
  const model::Evaluation& result = run.evaluation;
  Json frame;
  frame["name"] = structure.name;
  frame["n_atoms"] = structure.n_atoms();
  frame["n_edges"] = run.n_edges;
  frame["energy"] = result.energy;
  frame["elements"] = structure.element;
  frame["atom_energy"] = result.atom_energy;
  frame["force"] = rows(result.force.data(), structure.n_atoms(), 3);
  frame["virial"] = rows(result.virial.data(), 3, 3);
  frame["stress"] =
      has_stress(structure) ? rows(stress_of(structure, result).data(), 3, 3) : Json();
  return frame;
}

void print_table(const Structure& structure, const RunResult& run, std::ostream& out) {
  const model::Evaluation& result = run.evaluation;
  const int n_atoms = structure.n_atoms();
  out << format("\n%s: %d atoms, %d edges\n", structure.name.c_str(), n_atoms, run.n_edges);
  out << format("energy  %.10f eV", result.energy);
  if (n_atoms > 0) out << format("  (%.8f eV/atom)", result.energy / n_atoms);
  out << "\n";
  if (has_stress(structure)) {
    const std::array<double, 9> s = stress_of(structure, result);
    const int order[] = {0, 4, 8, 5, 2, 1};
    out << "stress            xx             yy             zz             yz             xz       "
           "      xy\n";
    out << "  eV/A^3";
    for (const int k : order) out << format("  %13.6e", s[k]);
    out << "\n  GPa   ";
    for (const int k : order) out << format("  %13.6f", kGPaPerEvA3 * s[k]);
    out << "\n";
  }
  if (n_atoms > 0) out << "    atom        energy (eV)                    force (eV/A)\n";
  for (int i = 0; i < n_atoms; ++i) {
    const double* f = result.force.data() + 3 * i;
    out << format("%8d %-3s %15.8f  %15.8f %15.8f %15.8f\n", i + 1, structure.element[i].c_str(),
                  result.atom_energy[i], f[0], f[1], f[2]);
  }
}

bool is_finite(const model::Evaluation& result) {
  bool finite = std::isfinite(result.energy);
  for (const double value : result.force) finite = finite && std::isfinite(value);
  for (const double value : result.virial) finite = finite && std::isfinite(value);
  return finite;
}

}  // namespace

ExitCode run_eval(const EvalOptions& options, std::ostream& out, Logger& log) {
  StructureOptions structure_options;
  if (!options.elements.empty()) {
    structure_options.elements = split_list(options.elements, "--elements");
  }
  structure_options.atom_style = parse_atom_style(options.atom_style);
  structure_options.periodic = parse_boundary(options.boundary);
  const std::vector<double> fparam = parse_fparam(options.fparam);
  const engine::EngineOptions engine_options = to_engine_options(options.run);
  std::vector<Structure> structures = read_structures(options.structure, structure_options);
  ModelRun run(options.model, engine_options, log);

  Json frames = Json::array();
  if (!options.json) {
    for (const std::string& line : engine::start_report(run.model())) out << line << "\n";
  }
  for (Structure& structure : structures) {
    apply_conditions(options, fparam, run.model().config, structure);
    const RunResult result = run.evaluate(structure, {});
    if (!is_finite(result.evaluation)) {
      log.warning(options.structure + ": " + structure.name + ": the result is not finite");
    }
    if (options.json) {
      frames.push_back(to_json(structure, result));
    } else {
      print_table(structure, result, out);
    }
  }
  if (options.json) {
    Json root;
    root["model"] = options.model;
    root["structure"] = options.structure;
    root["engine"] = run.model().evaluator->description();
    root["units"] = "eV, Angstrom; stress is positive under tension";
    root["frames"] = std::move(frames);
    out << root.dump(1) << "\n";
  }
  return kSuccess;
}

}  // namespace dpa4::tools
