// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace dpa4::math {

/// Sine and cosine in float32 with the rounding of the reference's math library on x86-64.
///
/// That library is accurate to 0.6 units in the last place, so about one argument in twenty does
/// not give the nearest float. For the arguments that occur in product grids up to lmax = 8 these
/// deviations are tabulated; everywhere else the result is the nearest float.
float reference_sin(float x);
float reference_cos(float x);

}  // namespace dpa4::math
