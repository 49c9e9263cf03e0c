// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <vector>

#include "src/model/evaluator.h"

namespace dpa4::model {

/// |value - reference| <= absolute + relative * |reference|
struct Tolerance {
  double absolute;
  double relative;

  double allowed(double reference) const;
};

/// When results agree with a float64 reference of the same weights.
///
/// float64: the energy to 1e-10 relative (and 1e-12 eV, the rounding of a sum that cancels); every
/// element of all else to 1e-9 absolute plus relative. float32: every element to 1e-5 + 1e-4
/// relative, which catches a wrong term and lets pass what single precision costs.
struct Acceptance {
  Tolerance energy;
  Tolerance element;
};

Acceptance acceptance(Precision precision);

/// How far one quantity is from its reference.
struct Deviation {
  double largest = 0;           // max |value - reference|; infinity if a value is not finite
  double worst = 0;             // max |value - reference| / allowed: above 1 is outside
  std::size_t worst_index = 0;  // the element of `worst`

  bool accepted() const { return worst <= 1; }
};

/// Both lists have the same length, which may be 0.
Deviation compare(const std::vector<double>& values, const std::vector<double>& reference,
                  Tolerance tolerance);

}  // namespace dpa4::model
