// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <type_traits>

#include "src/base/error.h"

namespace dpa4::cuda {

/// body(integral_constant lmax) for lmax = 1..6.
template <class Body>
void with_degree(int lmax, Body&& body) {
  DPA4_EXPECTS(lmax >= 1 && lmax <= 6);
  switch (lmax) {
    case 1:
      return body(std::integral_constant<int, 1>{});
    case 2:
      return body(std::integral_constant<int, 2>{});
    case 3:
      return body(std::integral_constant<int, 3>{});
    case 4:
      return body(std::integral_constant<int, 4>{});
    case 5:
      return body(std::integral_constant<int, 5>{});
    default:
      return body(std::integral_constant<int, 6>{});
  }
}

}  // namespace dpa4::cuda
