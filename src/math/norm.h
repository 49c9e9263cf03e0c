// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace dpa4::math {

/// Weight of a row of degree l (with `n_orders` rows) in the statistic of an equivariant norm over
/// degrees 0..lmax and `channels` channels: 1 / (n_orders (lmax + 1) channels).
///
/// Checkpoints store these numbers in the type of their weights, and the reference reads them back,
/// so for a float32 model the rounded value is the model's own (a difference of up to 6e-8
/// relative).
inline double norm_balance(int n_orders, int lmax, int channels, bool stored_in_float64) {
  const double exact = 1.0 / (static_cast<double>(n_orders) * (lmax + 1) * channels);
  return stored_in_float64 ? exact : static_cast<double>(static_cast<float>(exact));
}

}  // namespace dpa4::math
