// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of this folder rest on `check`: it has to notice what is wrong.
#include <gtest/gtest-spi.h>

#include "tests/kernels/kernel_case.h"

namespace dpa4::testing {
namespace {

/// x^2, with errors to order.
struct Square {
  double value_error = 0, gradient_error = 0;
  bool forget_last = false;

  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> y;
    for (const T& x : in[0]) y.push_back(x * x);
    return y;
  }
  template <class Real>
  std::vector<Real> run(const kernels::KernelTable<Real>&, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(in[0].size());
    for (std::size_t i = 0; i < y.size() - (forget_last ? 1 : 0); ++i) {
      y[i] = in[0][i] * in[0][i] + static_cast<Real>(value_error);
    }
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const kernels::KernelTable<Real>&, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> grad;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      grad.push_back(2 * in[0][i] * weights[i] + static_cast<Real>(gradient_error));
    }
    return {grad};
  }
};

const Arrays<double> kInputs = {{1, -2, 0.5}};

/// What `check` says about an operation: all its failures.
std::string complaints(const Square& op) {
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(&results);
    check(op, kInputs, "square");
  }
  std::string all;
  for (int i = 0; i < results.size(); ++i) all += results.GetTestPartResult(i).message();
  return all;
}

TEST(Harness, AcceptsWhatIsRight) { EXPECT_EQ(complaints({}), ""); }

TEST(Harness, NoticesAWrongValue) {
  EXPECT_NE(complaints({1e-10, 0, false}).find("element 0"), std::string::npos);
}

TEST(Harness, NoticesAnElementNobodyWrote) {
  const std::string said = complaints({0, 0, true});
  EXPECT_NE(said.find("element 2"), std::string::npos);
  EXPECT_EQ(said.find("element 0"), std::string::npos);
}

TEST(Harness, NoticesAWrongGradient) {
  EXPECT_NE(complaints({0, 1e-8, false}).find("gradient 0"), std::string::npos);
}

}  // namespace
}  // namespace dpa4::testing
