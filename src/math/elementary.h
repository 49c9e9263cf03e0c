// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cmath>

#include "src/base/host_device.h"

/// The elementary functions that the formulas of this folder are written with. A type other than
/// float and double (a vector of numbers, a dual number) brings its own overloads in its own
/// namespace.
namespace dpa4::math {

DPA4_HD inline float exp_of(float x) { return ::expf(x); }
DPA4_HD inline double exp_of(double x) { return ::exp(x); }
DPA4_HD inline float log_of(float x) { return ::logf(x); }
DPA4_HD inline double log_of(double x) { return ::log(x); }
DPA4_HD inline float sqrt_of(float x) { return ::sqrtf(x); }
DPA4_HD inline double sqrt_of(double x) { return ::sqrt(x); }
DPA4_HD inline float sin_of(float x) { return ::sinf(x); }
DPA4_HD inline double sin_of(double x) { return ::sin(x); }
DPA4_HD inline float cos_of(float x) { return ::cosf(x); }
DPA4_HD inline double cos_of(double x) { return ::cos(x); }
DPA4_HD inline float tanh_of(float x) { return ::tanhf(x); }
DPA4_HD inline double tanh_of(double x) { return ::tanh(x); }

/// a if condition, else b; vectors choose lane by lane.
DPA4_HD inline float select_of(bool condition, float a, float b) { return condition ? a : b; }
DPA4_HD inline double select_of(bool condition, double a, double b) { return condition ? a : b; }

/// sqrt at compile time, for coefficients of the formulas.
constexpr double constant_sqrt(double x) {
  if (x <= 0) return 0;
  double root = x < 1 ? 1 : x;
  for (int i = 0; i < 64; ++i) {
    const double next = 0.5 * (root + x / root);
    if (next == root) break;
    root = next;
  }
  return root;
}

}  // namespace dpa4::math
