// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Adds what depends on the types of an edge's ends to features of its length:
///
///   y[i, :] = phi( factor[i] x[i, :] + src_table[type[src]] + dst_table[type[dst]] )
///
/// phi = silu or the identity; factor null is 1.
template <class Real>
struct PairBiasArgs {
  EdgeSlice edges;
  int width = 0;
  bool silu = false;
  const int* type = nullptr;        // (N)
  const Real* src_table = nullptr;  // (types, width)
  const Real* dst_table = nullptr;  // (types, width)
  const Real* factor = nullptr;     // (count) or null
  const Real* x = nullptr;          // (count, width)
  Real* y = nullptr;                // (count, width)  out; not x
};

/// grad_x = factor phi'(.) grad_y;  grad_factor += sum_c x phi'(.) grad_y.
template <class Real>
struct PairBiasBackwardArgs {
  EdgeSlice edges;
  int width = 0;
  bool silu = false;
  const int* type = nullptr;
  const Real* src_table = nullptr;
  const Real* dst_table = nullptr;
  const Real* factor = nullptr;  // (count) or null
  const Real* x = nullptr;       // (count, width)
  const Real* grad_y = nullptr;  // (count, width)
  Real* grad_x = nullptr;        // (count, width)  out; may be grad_y
  Real* grad_factor = nullptr;   // (count)  +=, or null when factor is null
};

}  // namespace dpa4::kernels
