// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/math/elementary.h"

namespace dpa4::math {

/// 1 / (1 + e^-x)
template <class T>
DPA4_HD inline T sigmoid(T x) {
  return T(1) / (T(1) + exp_of(-x));
}

/// d sigmoid / dx from the value s = sigmoid(x).
template <class T>
DPA4_HD inline T sigmoid_derivative(T s) {
  return s * (T(1) - s);
}

/// x sigmoid(x)
template <class T>
DPA4_HD inline T silu(T x) {
  return x * sigmoid(x);
}

/// d silu / dx from x and s = sigmoid(x).
template <class T>
DPA4_HD inline T silu_derivative(T x, T s) {
  return s * (T(1) + x * (T(1) - s));
}

/// Gradient of the logit of a gate, y_r = sigmoid(logit) z_r, from the sum of grad_y_r z_r over the
/// rows that share it and from s = sigmoid(logit).
template <class T>
DPA4_HD inline T gate_logit_gradient(T sum_grad_times_value, T s) {
  return sum_grad_times_value * sigmoid_derivative(s);
}

}  // namespace dpa4::math
