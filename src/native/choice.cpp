// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/choice.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "src/base/error.h"
#include "src/base/version.h"
#include "src/graph/periodic.h"
#include "src/model/acceptance.h"
#include "src/native/native_evaluator.h"

namespace dpa4::native {

namespace {

using model::EvaluatorOptions;

/// Atoms on a distorted cubic lattice, a few dozen neighbors each, types in turn.
class SyntheticCrystal {
 public:
  SyntheticCrystal(const model::ModelConfig& config, int cells)
      : graph_(config.rcut, config.n_types()) {
    constexpr double kNeighborsAcross = 2.6;  // about 70 neighbors within the cutoff
    constexpr int kTypes = 4;
    const double lattice = config.rcut / kNeighborsAcross;
    std::mt19937 random(7);
    std::uniform_real_distribution<double> shift(-0.1 * lattice, 0.1 * lattice);
    for (int i = 0; i < cells * cells * cells; ++i) {
      const int at[3] = {i / cells / cells, i / cells % cells, i % cells};
      for (int a : at) x_.push_back(a * lattice + shift(random));
      type_.push_back(i % std::min(kTypes, config.n_types()));
    }
    const double side = cells * lattice;
    const int n = static_cast<int>(type_.size());
    aparam_.assign(static_cast<std::size_t>(n * config.numb_aparam), 0);
    structure_.type = {type_.data(), n};
    if (config.numb_aparam > 0) structure_.aparam = {aparam_.data(), n, config.numb_aparam};
    structure_.edges =
        graph_.build({x_.data(), n, 3}, structure_.type,
                     graph::Cell::periodic_3d({{{side, 0, 0}, {0, side, 0}, {0, 0, side}}}));
    conditions_.fparam = config.numb_fparam > 0 && !config.default_fparam
                             ? std::vector<double>(static_cast<std::size_t>(config.numb_fparam), 0)
                             : std::vector<double>();
    if (config.add_chg_spin_ebd && !config.default_chg_spin) conditions_.charge_spin = {{0, 1}};
  }

  model::Evaluation evaluate(model::Evaluator& evaluator) const {
    model::NoHalo halo;
    model::Evaluation result;
    evaluator.evaluate(structure_, conditions_, halo, {}, result);
    return result;
  }

 private:
  graph::PeriodicGraph graph_;
  std::vector<double> x_, aparam_;
  std::vector<int> type_;
  model::Structure structure_;
  model::Conditions conditions_;
};

/// Largest deviation over what the precision is allowed.
double error_of(const model::Evaluation& result, const model::Evaluation& exact,
                model::Precision precision) {
  const model::Acceptance limits = model::acceptance(precision);
  const auto list = [](const std::array<double, 9>& virial) {
    return std::vector<double>(virial.begin(), virial.end());
  };
  return std::max({model::compare({result.energy}, {exact.energy}, limits.energy).worst,
                   model::compare(result.force, exact.force, limits.element).worst,
                   model::compare(list(result.virial), list(exact.virial), limits.element).worst});
}

/// Median time of a step; of one that takes several times as long as `best`, only the first.
double time_of(model::Evaluator& evaluator, const SyntheticCrystal& crystal, double best) {
  constexpr int kSteps = 5;
  constexpr double kHopeless = 4;
  std::vector<double> times;
  for (int i = 0; i < kSteps + 2; ++i) {  // loading, recording and growing come first
    const auto start = std::chrono::steady_clock::now();
    crystal.evaluate(evaluator);
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (i == 1 && best > 0 && times[1] > kHopeless * best) return times[1];
  }
  std::sort(times.begin() + 2, times.end());
  return times[2 + kSteps / 2];
}

/// The file this code was loaded from and when it was built: another build measures again.
std::string build_of_this_code() {
  Dl_info info;
  struct stat file;
  std::string text = kVersion;
  if (dladdr(reinterpret_cast<const void*>(&build_of_this_code), &info) != 0 &&
      info.dli_fname != nullptr && stat(info.dli_fname, &file) == 0) {
    text += ":" + std::to_string(file.st_size) + ":" + std::to_string(file.st_mtime);
  }
  return text;
}

/// What decides how fast kernels are: device, driver, build and the model's shape.
std::string key_of(const model::ModelConfig& config, const EvaluatorOptions& options) {
  const MachineInfo machine = machine_info(options);
  std::ostringstream key;
  key << (options.device == model::Device::kCpu ? "cpu" : machine.name) << "|" << machine.driver
      << "|" << build_of_this_code() << "|"
      << (options.precision == model::Precision::kFloat64 ? "float64" : "float32") << "|c"
      << config.channels << "r" << config.n_radial << "m" << config.mixing_layers << "f"
      << config.n_focus << "w" << config.focus_dim << "h" << config.n_heads << "k"
      << static_cast<int>(config.radial_mode) << "." << config.radial_rank << "n"
      << config.ffn_neurons << "g" << static_cast<int>(config.ffn_grid) << "b";
  for (const model::BlockShape& block : config.blocks) key << block.lmax << ".";
  for (const std::string& name : candidates(options)) key << "|" << name;
  std::string text = key.str();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c <= ' '; }, '_');
  return text;
}

std::vector<Measured> measure(const model::ModelConfig& config, const model::Weights& weights,
                              const EvaluatorOptions& options) {
  const bool host = options.device == model::Device::kCpu;
  // Small to check, as float64 on the processor is the reference; large enough to time.
  const SyntheticCrystal small(config, 3), large(config, host ? 3 : 12);
  EvaluatorOptions exact_options = options;
  exact_options.device = model::Device::kCpu;
  exact_options.precision = model::Precision::kFloat64;
  exact_options.arithmetic = "auto";
  exact_options.memory = 0;
  const model::Evaluation exact = small.evaluate(*make_evaluator(config, weights, exact_options));
  std::vector<Measured> measured;
  double best = 0;
  for (const std::string& name : candidates(options)) {
    EvaluatorOptions own = options;
    own.arithmetic = name;
    const auto evaluator = make_evaluator(config, weights, own);
    Measured one;
    one.name = name;
    one.error = error_of(small.evaluate(*evaluator), exact, options.precision);
    one.seconds = time_of(*evaluator, large, best);
    if (best == 0 || one.seconds < best) best = one.seconds;
    measured.push_back(one);
  }
  return measured;
}

std::string default_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/dpa4-lammps/choices";
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/dpa4-lammps/choices";
  return "";
}

}  // namespace

const Measured* best_of(const std::vector<Measured>& measured) {
  const Measured* best = nullptr;
  for (const Measured& one : measured) {
    if (one.accepted() && (best == nullptr || one.seconds < best->seconds)) best = &one;
  }
  return best;
}

std::string Choice::summary() const {
  const Measured* best = best_of(measured);
  if (measured.size() < 2 || best == nullptr) return "";
  char number[64];
  std::snprintf(number, sizeof number, "; error %.2g of what is accepted", best->error);
  std::string line = name + number;
  for (const Measured& other : measured) {
    if (other.name == best->name) continue;
    std::snprintf(number, sizeof number, "%.2f", other.seconds / best->seconds);
    line += other.accepted() ? ", " + std::string(number) + " times as fast as " + other.name
                             : ", " + other.name + " is not accurate enough";
  }
  return line + (recorded ? " (recorded)" : " (measured)");
}

std::optional<std::string> Choice::refusal(const EvaluatorOptions& options) const {
  if (measured.empty() || best_of(measured) != nullptr) return std::nullopt;
  const bool single = options.precision == model::Precision::kFloat32;
  std::string errors;
  for (const Measured& one : measured) {
    char number[64];
    std::snprintf(number, sizeof number, "%s%s %.2g", errors.empty() ? "" : ", ", one.name.c_str(),
                  one.error);
    errors += number;
  }
  return "arithmetic auto: no kernels are accurate enough for this model in " +
         std::string(single ? "float32" : "float64") +
         "; times the error that is accepted: " + errors + "; use " +
         (single ? "'precision float64'" : "'engine eager'") + ", or 'arithmetic " +
         measured.back().name + "' to run unchecked";
}

Choice choose_arithmetic(const model::ModelConfig& config, const model::Weights& weights,
                         const EvaluatorOptions& options, bool fresh) {
  Choice choice;
  choice.name = options.arithmetic;
  if (options.arithmetic != "auto" && !fresh) return choice;
  const std::vector<std::string> names = candidates(options);
  choice.name = names.front();
  if (names.size() == 1 && !fresh) return choice;
  const ChoiceRecord record;
  const std::string key = key_of(config, options);
  if (!fresh) {
    if (const auto found = record.find(key)) {
      choice.measured = *found;
      choice.recorded = true;
    }
  }
  // The order of a processor's instruction sets is known; they are measured on request.
  const bool host = options.device == model::Device::kCpu;
  if (choice.measured.empty() && host && !fresh) return choice;
  if (choice.measured.empty()) {
    try {
      choice.measured = measure(config, weights, options);
    } catch (const InputError&) {
      // Other processes may hold the memory that this takes; a run must not fail for it.
      if (fresh) throw;
      return choice;
    }
    record.store(key, choice.measured);
  }
  const Measured* best = best_of(choice.measured);
  choice.name = best != nullptr ? best->name : "";
  return choice;
}

ChoiceRecord::ChoiceRecord(std::string path) : path_(path.empty() ? default_path() : path) {}

std::optional<std::vector<Measured>> ChoiceRecord::find(const std::string& key) const {
  std::ifstream file(path_);
  std::string line;
  std::optional<std::vector<Measured>> found;
  while (std::getline(file, line)) {
    // KEY COUNT NAME SECONDS ERROR ...; the last line of a key counts.
    std::istringstream words(line);
    std::string name;
    std::size_t count = 0;
    if (!(words >> name >> count) || name != key || count == 0 || count > 16) continue;
    std::vector<Measured> measured(count);
    bool complete = true;
    for (Measured& one : measured) {
      complete = complete && (words >> one.name >> one.seconds >> one.error) && one.seconds > 0 &&
                 one.error >= 0;
    }
    // A complete line ends with this word: half a line is none.
    if (complete && (words >> name) && name == "end") found = measured;
  }
  return found;
}

void ChoiceRecord::store(const std::string& key, const std::vector<Measured>& measured) const {
  if (path_.empty()) return;
  constexpr std::size_t kMostLines = 256;
  std::vector<std::string> lines;
  {
    std::ifstream file(path_);
    std::string line;
    while (std::getline(file, line)) {
      if (line.size() < 4096 && line.compare(0, key.size() + 1, key + " ") != 0) {
        lines.push_back(line);
      }
    }
  }
  if (lines.size() >= kMostLines) {
    lines.erase(lines.begin(),
                lines.begin() + static_cast<std::ptrdiff_t>(lines.size() - kMostLines + 1));
  }
  std::ostringstream own;
  own.precision(6);
  own << key << " " << measured.size();
  for (const Measured& one : measured) {
    const double error = std::min(one.error, 1e300);  // infinity cannot be read back
    own << " " << one.name << " " << one.seconds << " " << error;
  }
  own << " end";
  lines.push_back(own.str());
  // Written aside and moved in place: readers see the old or the new file. Of two that write at the
  // same time one loses its line and measures again.
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  static std::atomic<int> writers{0};
  const std::string aside =
      path_ + "." + std::to_string(getpid()) + "." + std::to_string(writers++);
  {
    std::ofstream file(aside, std::ios::trunc);
    for (const std::string& line : lines) file << line << "\n";
    file.close();
    if (!file) {
      std::filesystem::remove(aside, ignored);
      return;
    }
  }
  std::filesystem::rename(aside, path_, ignored);
  if (ignored) std::filesystem::remove(aside, ignored);
}

}  // namespace dpa4::native
