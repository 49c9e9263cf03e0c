// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/math/dual.h"

/// How an operation is tested: its formula is written once more, plainly and for any type of
/// number. In double it gives the values; with dual numbers it gives the derivative along a random
/// direction, which the backward operation must reproduce.
namespace dpa4::testing {

template <class T>
using Arrays = std::vector<std::vector<T>>;

inline std::vector<double> random_values(std::size_t n, unsigned seed, double scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values(n);
  // Representable in float, so that both precisions get the same problem.
  for (double& v : values) v = static_cast<double>(static_cast<float>(normal(engine)));
  return values;
}

/// An output nobody has written yet.
template <class Real>
std::vector<Real> poisoned(std::size_t n) {
  return std::vector<Real>(n, std::numeric_limits<Real>::quiet_NaN());
}

template <class To, class From>
Arrays<To> converted(const Arrays<From>& from) {
  Arrays<To> result;
  for (const auto& array : from) result.emplace_back(array.begin(), array.end());
  return result;
}

inline double largest(const std::vector<double>& values) {
  double result = 0;
  for (double v : values) result = std::max(result, std::abs(v));
  return result;
}

template <class Real>
void expect_values(const std::vector<Real>& values, const std::vector<double>& expected,
                   double tolerance, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  const double allowed = tolerance * (1 + largest(expected));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(values[i]), expected[i], allowed) << what << " element " << i;
  }
}

// Sums of a few thousand products at most, in double and in float.
constexpr double kDoubleTolerance = 1e-12;
constexpr double kFloatTolerance = 2e-5;
constexpr double kGradientTolerance = 1e-11;

/// Checks an operation in all instruction sets of this machine.
///
///   op.formula(inputs of T) -> all outputs, one behind the other
///   op.run(table, inputs of Real) -> the same from the operation
///   op.run_backward(table, inputs, weights) -> gradient of sum(weights * outputs) with respect to
///       each input; empty for inputs that have none
template <class Op>
void check(const Op& op, const Arrays<double>& inputs, const std::string& what) {
  const std::vector<double> expected = op.formula(inputs);
  const std::vector<double> weights = random_values(expected.size(), 4711);
  for (const std::string& isa : cpu::instruction_sets()) {
    const std::string name = what + ", " + isa;
    expect_values(op.run(cpu::table<double>(isa), inputs), expected, kDoubleTolerance, name);
    expect_values(op.run(cpu::table<float>(isa), converted<float>(inputs)), expected,
                  kFloatTolerance, name + ", float");
    if constexpr (requires { op.run_backward(cpu::table<double>(), inputs, weights); }) {
      const Arrays<double> gradients = op.run_backward(cpu::table<double>(isa), inputs, weights);
      const std::vector<float> float_weights(weights.begin(), weights.end());
      const Arrays<float> float_gradients =
          op.run_backward(cpu::table<float>(isa), converted<float>(inputs), float_weights);
      ASSERT_EQ(gradients.size(), inputs.size());
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (gradients[k].empty()) continue;
        ASSERT_EQ(gradients[k].size(), inputs[k].size()) << name << " gradient " << k;
        const std::vector<double> direction = random_values(inputs[k].size(), 815);
        Arrays<Dual> moved = converted<Dual>(inputs);
        for (std::size_t i = 0; i < direction.size(); ++i) moved[k][i].derivative = direction[i];
        const std::vector<Dual> outputs = op.formula(moved);
        double slope = 0, along = 0, scale = 1;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          slope += weights[i] * outputs[i].derivative;
          scale += std::abs(weights[i] * outputs[i].derivative);
        }
        for (std::size_t i = 0; i < direction.size(); ++i) along += gradients[k][i] * direction[i];
        EXPECT_NEAR(along, slope, kGradientTolerance * scale) << name << " gradient " << k;
        expect_values(float_gradients[k], gradients[k], kFloatTolerance * 5,
                      name + ", float gradient " + std::to_string(k));
      }
    }
  }
}

/// Random edges of a few nodes in both orders.
struct TestGraph {
  int n_owned = 0, n_nodes = 0, n_edges = 0;
  std::vector<int> src, dst, dst_begin, by_src, src_begin, type;
  std::vector<double> vec;  // (E, 3), 0.5 to `rcut` long

  TestGraph(int n_edges, unsigned seed, double rcut = 5) : n_edges(n_edges) {
    std::mt19937 random(seed);
    n_owned = 5 + n_edges / 100;
    n_nodes = n_owned + 3;
    for (int n = 0; n < n_nodes; ++n) type.push_back(static_cast<int>(random() % 3));
    for (int e = 0; e < n_edges; ++e) {
      // Node 1 has no edges; node 0 many.
      const int draw = static_cast<int>(random() % static_cast<unsigned>(2 * n_owned));
      dst.push_back(draw >= n_owned || draw == 1 ? 0 : draw);
      src.push_back(static_cast<int>(random() % static_cast<unsigned>(n_nodes)));
    }
    std::sort(dst.begin(), dst.end());
    std::uniform_real_distribution<double> length(0.5, rcut);
    std::normal_distribution<double> normal;
    for (int e = 0; e < n_edges; ++e) {
      double v[3] = {normal(random), normal(random), normal(random)};
      const double norm = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
      const double r = length(random);
      for (double x : v) vec.push_back(x / norm * r);
    }
    dst_begin.assign(static_cast<std::size_t>(n_owned) + 1, 0);
    for (int e : dst) ++dst_begin[static_cast<std::size_t>(e) + 1];
    for (int n = 0; n < n_owned; ++n) dst_begin[n + 1] += dst_begin[n];
    src_begin.assign(1, 0);
    for (int n = 0; n < n_nodes; ++n) {
      for (int e = 0; e < n_edges; ++e) {
        if (src[e] == n) by_src.push_back(e);
      }
      src_begin.push_back(static_cast<int>(by_src.size()));
    }
  }

  /// All edges in two calls, so that the nodes at the cut have edges in both.
  std::vector<kernels::EdgeSlice> slices(bool sources) const {
    std::vector<kernels::EdgeSlice> result;
    const int cut = 2 * n_edges / 5;
    for (int part = 0; part < 2; ++part) {
      kernels::EdgeSlice slice;
      slice.first = part == 0 ? 0 : cut;
      slice.count = part == 0 ? cut : n_edges - cut;
      slice.order = sources ? by_src.data() : nullptr;
      slice.src = src.data();
      slice.dst = dst.data();
      slice.begin = sources ? src_begin.data() : dst_begin.data();
      const int nodes = sources ? n_nodes : n_owned;
      const int* begin = slice.begin;
      int first = 0, last = nodes;
      while (first < nodes && begin[first + 1] <= slice.first) ++first;
      while (last > first && begin[last - 1] >= slice.first + slice.count) --last;
      slice.node_first = first;
      slice.node_count = last - first;
      result.push_back(slice);
    }
    return result;
  }

  int edge(const kernels::EdgeSlice& slice, int i) const {
    return slice.order != nullptr ? slice.order[slice.first + i] : slice.first + i;
  }
};

/// Numbers of edges that break tilings.
inline std::vector<int> edge_counts() { return {0, 1, 31, 32, 33, 4097}; }

}  // namespace dpa4::testing
