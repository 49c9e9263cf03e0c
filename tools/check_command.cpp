// SPDX-License-Identifier: GPL-2.0-or-later
// dpa4 check: evaluates files of reference results and compares.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/model/acceptance.h"
#include "tools/commands.h"
#include "tools/model_run.h"
#include "tools/reference_file.h"

namespace dpa4::tools {
namespace {

enum Quantity { kEnergy, kForce, kVirial, kAtomEnergy, kAtomVirial, kQuantities };
constexpr const char* kNames[kQuantities] = {"energy", "force", "virial", "atom_energy",
                                             "atom_virial"};
constexpr const char* kUnits[kQuantities] = {"eV", "eV/A", "eV", "eV", "eV"};
constexpr int kColumns[kQuantities] = {1, 3, 9, 1, 9};  // numbers an atom (or a frame) has of it

struct Comparison {
  std::vector<double> value;
  std::vector<double> reference;
  model::Deviation deviation;

  bool present() const { return !reference.empty(); }
};

using Comparisons = std::array<Comparison, kQuantities>;

Comparisons compare_all(const model::Evaluation& result, const ReferenceResult& reference,
                        const model::Acceptance& limits) {
  Comparisons comparisons;
  comparisons[kEnergy] = {{result.energy}, {reference.energy}, {}};
  comparisons[kForce] = {result.force, reference.force, {}};
  comparisons[kVirial] = {{result.virial.begin(), result.virial.end()}, reference.virial, {}};
  if (!reference.atom_energy.empty()) {
    comparisons[kAtomEnergy] = {result.atom_energy, reference.atom_energy, {}};
  }
  if (!reference.atom_virial.empty()) {
    comparisons[kAtomVirial] = {result.atom_virial, reference.atom_virial, {}};
  }
  for (int q = 0; q < kQuantities; ++q) {
    Comparison& c = comparisons[q];
    c.deviation =
        model::compare(c.value, c.reference, q == kEnergy ? limits.energy : limits.element);
  }
  return comparisons;
}

/// "force of atom 3, y: 1.25 instead of 1.26 eV/A, 1.3e+04 times the allowed error"
std::string explain(int quantity, const Comparison& c) {
  const std::size_t i = c.deviation.worst_index;
  const std::size_t n_columns = static_cast<std::size_t>(kColumns[quantity]);
  std::string element;
  if (quantity == kForce || quantity == kAtomEnergy || quantity == kAtomVirial) {
    element = " of atom " + std::to_string(i / n_columns + 1);
  }
  const std::size_t column = i % n_columns;
  constexpr std::string_view kAxes = "xyz";
  if (n_columns == 3) element += std::string(", ") + kAxes[column];
  if (n_columns == 9) element += std::string(", ") + kAxes[column / 3] + kAxes[column % 3];
  return format("      %s%s: %.10g instead of %.10g %s, %.2g times the allowed error",
                kNames[quantity], element.c_str(), c.value[i], c.reference[i], kUnits[quantity],
                c.deviation.worst);
}

/// The largest errors of all frames, and what was found.
class Summary {
 public:
  void add(const Comparisons& comparisons, const std::string& where, const std::string& engine,
           bool accepted) {
    ++n_frames_;
    ++by_engine_[engine];
    n_failed_ += accepted ? 0 : 1;
    for (int q = 0; q < kQuantities; ++q) {
      if (!comparisons[q].present()) continue;
      const double error = comparisons[q].deviation.largest;
      if (where_[q].empty() || error > largest_[q]) {
        largest_[q] = error;
        where_[q] = where;
      }
    }
  }
  void add_unusable() { ++n_unusable_; }

  void print(std::ostream& out) const {
    if (n_frames_ > 1) {
      for (int q = 0; q < kQuantities; ++q) {
        if (where_[q].empty()) continue;
        out << format("largest error of %-11s  %8.2e %-4s  (%s)\n", kNames[q], largest_[q],
                      kUnits[q], where_[q].c_str());
      }
    }
    out << n_frames_ << (n_frames_ == 1 ? " frame" : " frames") << " evaluated";
    const char* separator = " [";
    for (const auto& [engine, count] : by_engine_) {
      out << separator << count << " by " << engine;
      separator = "; ";
    }
    out << (by_engine_.empty() ? ": " : "]: ");
    if (n_failed_ == 0 && n_unusable_ == 0) {
      out << "all within the acceptance\n";
    } else {
      out << n_failed_ << " outside the acceptance, " << n_unusable_
          << (n_unusable_ == 1 ? " file" : " files") << " not usable\n";
    }
  }

  ExitCode exit_code() const {
    if (n_unusable_ > 0) return kBadInput;
    return n_failed_ > 0 ? kCheckFailed : kSuccess;
  }

 private:
  int n_frames_ = 0;
  int n_failed_ = 0;
  int n_unusable_ = 0;
  std::map<std::string, int> by_engine_;  // an automatic choice may differ from model to model
  std::array<double, kQuantities> largest_{};
  std::array<std::string, kQuantities> where_;
};

class Checker {
 public:
  Checker(const CheckOptions& options, std::ostream& out, Logger& log)
      : options_(options), engine_options_(to_engine_options(options.run)), out_(out), log_(log) {}

  void check(const std::string& path) {
    const ReferenceFile file = read_reference_file(path);
    open_model(file);
    const std::string file_name = std::filesystem::path(path).filename().string();
    for (const ReferenceFrame& frame : file.frames) {
      const std::string where = file_name + " " + frame.structure.name;
      check_frame(frame, where);
    }
  }

  Summary& summary() { return summary_; }

 private:
  /// Files that share a model share the loaded one.
  void open_model(const ReferenceFile& file) {
    const std::string path = options_.model.empty() ? find_model(file) : options_.model;
    engine::EngineOptions options = engine_options_;
    if (!options.checkpoint.head) options.checkpoint.head = file.head;
    if (run_ == nullptr || path != model_path_ || options.checkpoint.head != head_) {
      run_.reset();  // two big models need not be in memory at a time
      run_ = std::make_unique<ModelRun>(path, options, log_);
      model_path_ = path;
      head_ = options.checkpoint.head;
    }
    const double rcut = run_->model().config.rcut;
    if (rcut != file.rcut) {
      throw InputError(file.path + ": made with a cutoff of " + format("%g", file.rcut) +
                       " Angstrom, but " + path + " has " + format("%g", rcut));
    }
  }

  void check_frame(const ReferenceFrame& frame, const std::string& where) {
    model::Request request;
    request.atom_virial = !frame.float64.atom_virial.empty();
    const RunResult result = run_->evaluate(frame.structure, request);
    const model::Acceptance limits = model::acceptance(run_->model().options.precision);
    const Comparisons comparisons = compare_all(result.evaluation, frame.float64, limits);

    bool accepted = true;
    std::string line;
    for (int q = 0; q < kQuantities; ++q) {
      if (!comparisons[q].present()) continue;
      accepted = accepted && comparisons[q].deviation.accepted();
      line += format("  %s %.1e", kNames[q], comparisons[q].deviation.largest);
    }
    out_ << format("%s  %-36s", accepted ? "pass" : "FAIL", where.c_str()) << line << "\n";
    if (!accepted) print_failure(comparisons, result.n_edges, frame.float64.n_edges);
    out_.flush();
    summary_.add(comparisons, where, run_->model().evaluator->description(), accepted);
  }

  void print_failure(const Comparisons& comparisons, int n_edges,
                     std::optional<int> reference_edges) {
    for (int q = 0; q < kQuantities; ++q) {
      if (!comparisons[q].deviation.accepted()) out_ << explain(q, comparisons[q]) << "\n";
    }
    // A reference counts the pairs that the model excludes, too.
    const bool all_pairs = run_->model().config.exclude_types.empty();
    if (all_pairs && reference_edges && *reference_edges != n_edges) {
      out_ << "      " << n_edges << " edges, the reference has " << *reference_edges << "\n";
    }
  }

  const CheckOptions& options_;
  engine::EngineOptions engine_options_;
  std::ostream& out_;
  Logger& log_;
  Summary summary_;
  std::string model_path_;
  std::optional<std::string> head_;
  std::unique_ptr<ModelRun> run_;
};

}  // namespace

ExitCode run_check(const CheckOptions& options, std::ostream& out, Logger& log) {
  Checker checker(options, out, log);
  // One unusable file does not hide the results of the others.
  for (const std::string& path : options.files) {
    try {
      checker.check(path);
    } catch (const InputError& error) {
      log.warning(error.what());
      checker.summary().add_unusable();
    }
  }
  checker.summary().print(out);
  return checker.summary().exit_code();
}

}  // namespace dpa4::tools
