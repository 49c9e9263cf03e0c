// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cmath>

namespace dpa4::testing {

/// value + derivative * epsilon, epsilon^2 = 0: evaluates a formula and its derivative together.
struct Dual {
  double value = 0;
  double derivative = 0;

  Dual() = default;
  Dual(double value, double derivative = 0) : value(value), derivative(derivative) {}
};

inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.derivative + b.derivative}; }
inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.derivative - b.derivative}; }
inline Dual operator-(Dual a) { return {-a.value, -a.derivative}; }
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
}
inline Dual operator/(Dual a, Dual b) {
  return {a.value / b.value, (a.derivative - a.value / b.value * b.derivative) / b.value};
}
inline bool operator>(Dual a, Dual b) { return a.value > b.value; }
inline bool operator<(Dual a, Dual b) { return a.value < b.value; }
inline bool operator>=(Dual a, Dual b) { return a.value >= b.value; }

inline Dual exp_of(Dual x) { return {std::exp(x.value), x.derivative * std::exp(x.value)}; }
inline Dual log_of(Dual x) { return {std::log(x.value), x.derivative / x.value}; }
inline Dual sin_of(Dual x) { return {std::sin(x.value), x.derivative * std::cos(x.value)}; }
inline Dual cos_of(Dual x) { return {std::cos(x.value), -x.derivative * std::sin(x.value)}; }
inline Dual sqrt_of(Dual x) {
  return {std::sqrt(x.value), x.derivative / (2 * std::sqrt(x.value))};
}
inline Dual select_of(bool condition, Dual a, Dual b) { return condition ? a : b; }

/// The variable of a derivative.
inline Dual variable(double x) { return {x, 1}; }

}  // namespace dpa4::testing
