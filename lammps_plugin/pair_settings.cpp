// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/pair_settings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "src/engine/memory_option.h"

namespace dpa4::lammps {
namespace {

constexpr char kKeywords[] =
    "engine, precision, device, cohort, memory, arithmetic, head, ema, charge, spin, charge_spin, "
    "fparam, aparam, fparam_from_compute, aparam_from_compute";

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::optional<double> to_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Walks over the arguments; every failure names the keyword it happened in.
class ArgumentReader {
 public:
  explicit ArgumentReader(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  bool done() const { return next_ == arguments_.size(); }

  const std::string& keyword() {
    keyword_ = &arguments_[next_++];
    return *keyword_;
  }

  const std::string& word() {
    if (done()) fail(next_ - 1, "pair_style dpa4: a value is missing after '" + *keyword_ + "'");
    return arguments_[next_++];
  }

  double number() {
    const std::optional<double> value = to_number(word());
    if (!value) fail_value("a number");
    return *value;
  }

  /// As many numbers as follow, at least one.
  std::vector<double> numbers() {
    std::vector<double> values{number()};
    while (!done() && to_number(arguments_[next_])) values.push_back(number());
    return values;
  }

  template <class T>
  T choice(const std::vector<std::pair<std::string, T>>& choices) {
    const std::string& given = word();
    std::string names;
    for (const auto& [name, value] : choices) {
      if (name == given) return value;
      names += (names.empty() ? "" : (name == choices.back().first ? " or " : ", ")) + name;
    }
    fail_value(names);
  }

  bool yes_or_no() {
    return choice<bool>({{"yes", true},
                         {"on", true},
                         {"true", true},
                         {"no", false},
                         {"off", false},
                         {"false", false}});
  }

  int positive_int() {
    const double value = number();
    if (value < 1 || value > std::numeric_limits<int>::max() || value != std::floor(value)) {
      fail_value("a positive integer");
    }
    return static_cast<int>(value);
  }

  std::optional<std::int64_t> memory() {
    std::optional<std::int64_t> bytes;
    if (!engine::parse_memory(word(), bytes)) fail_value(engine::kMemoryValues);
    return bytes;
  }

  [[noreturn]] void fail_keyword() {
    fail(next_ - 1, "pair_style dpa4: unknown keyword '" + *keyword_ + "'; known are " + kKeywords);
  }

 private:
  [[noreturn]] void fail_value(const std::string& wanted) {
    fail(next_ - 1, "pair_style dpa4: '" + *keyword_ + "' takes " + wanted + ", not '" +
                        arguments_[next_ - 1] + "'");
  }

  [[noreturn]] void fail(std::size_t argument, const std::string& sentence) {
    throw ArgumentError(static_cast<int>(argument), sentence);
  }

  const std::vector<std::string>& arguments_;
  const std::string* keyword_ = nullptr;
  std::size_t next_ = 0;
};

std::string count_of(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? " value" : " values");
}

}  // namespace

PairSettings parse_pair_settings(const std::vector<std::string>& arguments) {
  using engine::Engine;
  using model::Device;
  using model::Precision;
  PairSettings settings;
  engine::EngineOptions& options = settings.engine;
  ArgumentReader reader(arguments);
  while (!reader.done()) {
    const std::string& keyword = reader.keyword();
    if (keyword == "engine") {
      options.engine = reader.choice<Engine>(
          {{"auto", Engine::kAuto}, {"eager", Engine::kEager}, {"native", Engine::kNative}});
    } else if (keyword == "precision") {
      options.evaluator.precision = reader.choice<Precision>(
          {{"float32", Precision::kFloat32}, {"float64", Precision::kFloat64}});
    } else if (keyword == "device") {
      const auto device = reader.choice<std::optional<Device>>(
          {{"auto", std::nullopt}, {"cpu", Device::kCpu}, {"cuda", Device::kCuda}});
      options.auto_device = !device;
      options.evaluator.device = device.value_or(Device::kCpu);
    } else if (keyword == "cohort") {
      options.evaluator.cohort = reader.positive_int();
    } else if (keyword == "memory") {
      options.evaluator.memory = reader.memory();
    } else if (keyword == "arithmetic") {
      options.evaluator.arithmetic = reader.word();
    } else if (keyword == "head") {
      options.checkpoint.head = reader.word();
    } else if (keyword == "ema") {
      options.checkpoint.use_ema = reader.yes_or_no();
    } else if (keyword == "charge") {
      settings.charge = reader.number();
    } else if (keyword == "spin") {
      settings.spin = reader.number();
    } else if (keyword == "charge_spin") {
      settings.charge = reader.number();
      settings.spin = reader.number();
    } else if (keyword == "fparam") {
      settings.fparam = reader.numbers();
      settings.fparam_compute.clear();
    } else if (keyword == "aparam") {
      settings.aparam = reader.numbers();
      settings.aparam_compute.clear();
    } else if (keyword == "fparam_from_compute") {
      settings.fparam_compute = reader.word();
      settings.fparam.clear();
    } else if (keyword == "aparam_from_compute") {
      settings.aparam_compute = reader.word();
      settings.aparam.clear();
    } else {
      reader.fail_keyword();
    }
  }
  return settings;
}

model::Conditions resolve_conditions(const PairSettings& settings,
                                     const model::ModelConfig& config) {
  model::Conditions conditions;
  const auto n_wanted = static_cast<std::size_t>(config.numb_fparam);
  if (!settings.fparam_compute.empty() && n_wanted == 0) {
    throw InputError("pair_style dpa4: the model takes no fparam");
  }
  if (!settings.fparam.empty() && settings.fparam.size() != n_wanted) {
    throw InputError("pair_style dpa4: the model takes " + count_of(n_wanted, "fparam") + ", not " +
                     std::to_string(settings.fparam.size()));
  }
  if (settings.fparam.empty() && settings.fparam_compute.empty() && n_wanted > 0 &&
      !config.default_fparam) {
    throw InputError("pair_style dpa4: the model has no default for its " +
                     count_of(n_wanted, "fparam") +
                     ": add the keyword 'fparam' or 'fparam_from_compute'");
  }
  conditions.fparam = settings.fparam;

  if (!settings.charge && !settings.spin) {
    if (config.add_chg_spin_ebd && !config.default_chg_spin) {
      throw InputError(
          "pair_style dpa4: the model depends on the total charge and spin multiplicity and has no "
          "default for them: add the keyword 'charge_spin'");
    }
    return conditions;
  }
  if (!config.add_chg_spin_ebd) {
    throw InputError("pair_style dpa4: the model does not depend on charge or spin");
  }
  if ((!settings.charge || !settings.spin) && !config.default_chg_spin) {
    throw InputError(std::string("pair_style dpa4: the model has no default for the ") +
                     (settings.charge ? "spin multiplicity: add the keyword 'spin'"
                                      : "total charge: add the keyword 'charge'"));
  }
  const auto defaults = config.default_chg_spin.value_or(std::array<double, 2>{});
  conditions.charge_spin = {settings.charge.value_or(defaults[0]),
                            settings.spin.value_or(defaults[1])};
  if (const auto problem = model::charge_spin_problem(*conditions.charge_spin)) {
    throw InputError("pair_style dpa4: " + *problem);
  }
  return conditions;
}

std::vector<double> resolve_aparam(const PairSettings& settings, const model::ModelConfig& config) {
  const auto n_wanted = static_cast<std::size_t>(config.numb_aparam);
  if (!settings.aparam_compute.empty()) {
    if (n_wanted == 0) throw InputError("pair_style dpa4: the model takes no aparam");
    return std::vector<double>(n_wanted, 0.0);
  }
  if (settings.aparam.size() != n_wanted) {
    throw InputError("pair_style dpa4: the model takes " + count_of(n_wanted, "aparam") +
                     " for each atom, not " + std::to_string(settings.aparam.size()));
  }
  return settings.aparam;
}

std::vector<int> map_elements(const std::vector<std::string>& elements, int n_lammps_types,
                              const std::vector<std::string>& type_map) {
  const int n_given = static_cast<int>(elements.size());
  if (n_given != n_lammps_types) {
    throw ArgumentError(std::min(n_given, n_lammps_types),
                        "pair_coeff takes one element, or NULL, for each of the " +
                            std::to_string(n_lammps_types) + " atom types, not " +
                            std::to_string(n_given) + "; the model's elements are " +
                            join(type_map));
  }
  std::vector<int> mapping;
  for (int i = 0; i < n_given; ++i) {
    const std::string& name = elements[i];
    const auto found = std::find(type_map.begin(), type_map.end(), name);
    if (found == type_map.end() && name != "NULL") {
      throw ArgumentError(
          i, "the model has no element '" + name + "'; its elements are " + join(type_map));
    }
    mapping.push_back(name == "NULL" ? -1 : static_cast<int>(found - type_map.begin()));
  }
  if (std::all_of(mapping.begin(), mapping.end(), [](int type) { return type < 0; })) {
    throw ArgumentError(0, "pair_coeff maps every atom type to NULL");
  }
  return mapping;
}

}  // namespace dpa4::lammps
