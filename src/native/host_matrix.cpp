// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/host_matrix.h"

#include "src/base/error.h"

namespace dpa4::native {

HostMatrix::HostMatrix(int rows, int cols)
    : rows(rows), cols(cols), v(static_cast<std::size_t>(rows) * cols, 0.0) {}

HostMatrix::HostMatrix(int rows, int cols, std::vector<double> values)
    : rows(rows), cols(cols), v(std::move(values)) {
  DPA4_EXPECTS(v.size() == static_cast<std::size_t>(rows) * cols);
}

HostMatrix HostMatrix::transposed() const {
  HostMatrix result(cols, rows);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) result(j, i) = (*this)(i, j);
  return result;
}

HostMatrix HostMatrix::row_range(int first, int count) const {
  DPA4_EXPECTS(first >= 0 && first + count <= rows);
  const auto begin = v.begin() + static_cast<std::ptrdiff_t>(first) * cols;
  return {count, cols,
          std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count) * cols)};
}

HostMatrix HostMatrix::col_range(int first, int count) const {
  DPA4_EXPECTS(first >= 0 && first + count <= cols);
  HostMatrix result(rows, count);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < count; ++j) result(i, j) = (*this)(i, first + j);
  return result;
}

HostMatrix HostMatrix::identity(int n) {
  HostMatrix result(n, n);
  for (int i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}

HostMatrix operator*(const HostMatrix& a, const HostMatrix& b) {
  DPA4_EXPECTS(a.cols == b.rows);
  HostMatrix result(a.rows, b.cols);
  for (int i = 0; i < a.rows; ++i) {
    for (int k = 0; k < a.cols; ++k) {
      const double factor = a(i, k);
      if (factor == 0) continue;
      for (int j = 0; j < b.cols; ++j) result(i, j) += factor * b(k, j);
    }
  }
  return result;
}

HostMatrix operator+(const HostMatrix& a, const HostMatrix& b) {
  DPA4_EXPECTS(a.rows == b.rows && a.cols == b.cols);
  HostMatrix result = a;
  for (std::size_t i = 0; i < result.v.size(); ++i) result.v[i] += b.v[i];
  return result;
}

void place(HostMatrix& whole, int row, int col, const HostMatrix& part) {
  DPA4_EXPECTS(row + part.rows <= whole.rows && col + part.cols <= whole.cols);
  for (int i = 0; i < part.rows; ++i)
    for (int j = 0; j < part.cols; ++j) whole(row + i, col + j) = part(i, j);
}

HostMatrix matrix_of(const model::Weights& weights, const std::string& name) {
  const model::HostTensor& tensor = weights.at(name);
  DPA4_EXPECTS(!tensor.shape().empty());
  const int cols = static_cast<int>(tensor.shape().back());
  return {static_cast<int>(tensor.size() / cols), cols, tensor.to<double>()};
}

std::vector<double> list_of(const model::Weights& weights, const std::string& name) {
  return weights.at(name).to<double>();
}

}  // namespace dpa4::native
