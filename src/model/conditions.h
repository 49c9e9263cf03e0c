// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace dpa4::model {

/// External conditions of a run; empty members take the model's defaults (or none).
struct Conditions {
  std::vector<double> fparam;                        // (numb_fparam)
  std::optional<std::array<double, 2>> charge_spin;  // total charge, spin multiplicity
};

/// What is wrong with a total charge and a spin multiplicity, or nothing: a model has tables of
/// features for integers in these ranges.
inline std::optional<std::string> charge_spin_problem(const std::array<double, 2>& charge_spin) {
  const auto within = [](double value, double first, double last) {
    return value == std::floor(value) && value >= first && value <= last;
  };
  if (!within(charge_spin[0], -100, 99)) return "the charge must be an integer from -100 to 99";
  if (!within(charge_spin[1], 0, 99))
    return "the spin multiplicity must be an integer from 0 to 99";
  return std::nullopt;
}

}  // namespace dpa4::model
