// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "src/model/weights.h"

namespace dpa4::native {

/// A dense matrix of doubles on the host, row-major: for the products of weights that are made
/// once, when a model is loaded.
struct HostMatrix {
  int rows = 0;
  int cols = 0;
  std::vector<double> v;

  HostMatrix() = default;
  HostMatrix(int rows, int cols);
  HostMatrix(int rows, int cols, std::vector<double> values);

  double& operator()(int i, int j) { return v[static_cast<std::size_t>(i) * cols + j]; }
  double operator()(int i, int j) const { return v[static_cast<std::size_t>(i) * cols + j]; }

  HostMatrix transposed() const;
  HostMatrix row_range(int first, int count) const;
  HostMatrix col_range(int first, int count) const;

  static HostMatrix identity(int n);
};

HostMatrix operator*(const HostMatrix& a, const HostMatrix& b);
HostMatrix operator+(const HostMatrix& a, const HostMatrix& b);

/// Writes `part` into `whole` at (row, col).
void place(HostMatrix& whole, int row, int col, const HostMatrix& part);

/// A weight as a matrix: the last dimension is the columns, the others are the rows.
HostMatrix matrix_of(const model::Weights& weights, const std::string& name);

/// A weight as a flat list.
std::vector<double> list_of(const model::Weights& weights, const std::string& name);

}  // namespace dpa4::native
