// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <type_traits>
#include <utility>

#include "src/base/host_device.h"

namespace dpa4::math {

template <class Body, int... kIndex>
DPA4_HD constexpr void static_for_indices(Body&& body, std::integer_sequence<int, kIndex...>) {
  (body(std::integral_constant<int, kIndex>{}), ...);
}

/// body(integral_constant 0), ..., body(integral_constant kCount - 1): a loop whose index is a
/// constant, so that arrays it indexes can live in registers and coefficients are computed by the
/// compiler.
template <int kCount, class Body>
DPA4_HD constexpr void static_for(Body&& body) {
  static_for_indices(body, std::make_integer_sequence<int, (kCount > 0 ? kCount : 0)>{});
}

}  // namespace dpa4::math
