// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/base/error.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/tensor_view.h"

namespace dpa4 {
namespace {

TEST(Expects, NamesTheConditionAndThePlace) {
  const int n_edges = -1;
  try {
    DPA4_EXPECTS(n_edges >= 0);
    FAIL() << "a broken precondition must throw";
  } catch (const InternalError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("n_edges >= 0"), std::string::npos) << message;
    EXPECT_NE(message.find("error_test.cpp"), std::string::npos) << message;
  }
}

TEST(TensorView, IsRowMajorAndConvertsToConst) {
  double data[24];
  for (int i = 0; i < 24; ++i) data[i] = i;
  TensorView<double, 3> view(data, 2, 3, 4);
  view(1, 2, 3) = -1;
  const TensorView<const double, 3> constant = view;
  EXPECT_EQ(data[23], -1);
  EXPECT_EQ(constant(1, 0, 2), 14);
  EXPECT_EQ(constant.extent(1), 3);
  EXPECT_EQ(constant.size(), 24);
}

TEST(TensorView, CountsElementsBeyondInt) {
  const TensorView<const float, 3> view(nullptr, 70000, 70000, 3);
  EXPECT_EQ(view.size(), std::int64_t{14700000000});
  EXPECT_FALSE(view.empty());
  EXPECT_TRUE((TensorView<const float, 2>().empty()));
}

}  // namespace
}  // namespace dpa4
