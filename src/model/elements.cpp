// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/model/elements.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/model/presets.h"

namespace dpa4::model {

int atomic_number(const std::string& symbol) {
  const auto& symbols = all_elements();
  const auto found = std::find(symbols.begin(), symbols.end(), symbol);
  return found == symbols.end() ? 0 : static_cast<int>(found - symbols.begin()) + 1;
}

int unpaired_electrons(int atomic_number) {
  constexpr int kUnpaired[118] = {
      1, 0, 1, 0, 1, 2, 3, 2, 1, 0, 1, 0, 1, 2, 3, 2, 1, 0, 1, 0, 1, 2, 3, 6, 5, 4, 3, 2, 1, 0,
      1, 2, 3, 2, 1, 0, 1, 0, 1, 2, 5, 6, 5, 4, 3, 0, 1, 0, 1, 2, 3, 2, 1, 0, 1, 0, 1, 2, 3, 4,
      5, 6, 7, 8, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 0, 1, 2,
      3, 4, 5, 6, 7, 8, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0};
  DPA4_EXPECTS(atomic_number >= 1 && atomic_number <= 118);
  return kUnpaired[atomic_number - 1];
}

}  // namespace dpa4::model
