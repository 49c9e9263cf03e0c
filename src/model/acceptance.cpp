// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/acceptance.h"

#include <cmath>
#include <limits>

#include "src/base/error.h"

namespace dpa4::model {

double Tolerance::allowed(double reference) const {
  return absolute + relative * std::abs(reference);
}

Acceptance acceptance(Precision precision) {
  if (precision == Precision::kFloat64) return {{1e-12, 1e-10}, {1e-9, 1e-9}};
  return {{1e-5, 1e-4}, {1e-5, 1e-4}};
}

Deviation compare(const std::vector<double>& values, const std::vector<double>& reference,
                  Tolerance tolerance) {
  DPA4_EXPECTS(values.size() == reference.size());
  Deviation deviation;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double error = std::abs(values[i] - reference[i]);
    double ratio = error / tolerance.allowed(reference[i]);
    if (!std::isfinite(values[i]) || !std::isfinite(ratio)) {
      error = ratio = std::numeric_limits<double>::infinity();
    }
    if (error > deviation.largest) deviation.largest = error;
    if (ratio > deviation.worst) {
      deviation.worst = ratio;
      deviation.worst_index = i;
    }
  }
  return deviation;
}

}  // namespace dpa4::model
