// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/base/tensor_view.h"
#include "src/graph/periodic.h"

namespace dpa4::tools {

/// One configuration of atoms as a file gives it, with the external conditions it may carry.
struct Structure {
  std::string name;                  // for messages and tables: "frame 3", "triclinic"
  std::vector<std::string> element;  // (N)    names, matched with the model's type_map
  std::vector<double> x;             // (N, 3) [Angstrom]
  graph::Cell cell;
  std::vector<double> fparam;                        // (numb_fparam) or empty
  std::vector<double> aparam;                        // (N, numb_aparam) or empty
  std::optional<std::array<double, 2>> charge_spin;  // total charge, spin multiplicity

  int n_atoms() const { return static_cast<int>(element.size()); }
  TensorView<const double, 2> positions() const { return {x.data(), n_atoms(), 3}; }
};

}  // namespace dpa4::tools
