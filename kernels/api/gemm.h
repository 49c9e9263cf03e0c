// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// `batch` products of row-major matrices: for each b
///
///   C_b = A_b B_b          (accumulate = false)
///   C_b = C_b + A_b B_b    (accumulate = true)
///
/// with X_b = x + b * stride_x. With `by_degree` the batches are the rows of packed features: row b
/// has degree l(b) = floor(sqrt(b)), and B_b = b + l(b) * stride_b. B holds weights: the same for
/// all calls of a model (transposes are made when the model is loaded). The bits of a row of C
/// depend neither on m nor on the row's place. Batches do not overlap in C.
template <class Real>
struct GemmArgs {
  int m = 0;
  int n = 0;
  int k = 0;
  const Real* a = nullptr;  // (m, k), leading dimension lda >= k
  int lda = 0;
  const Real* b = nullptr;  // (k, n), leading dimension ldb >= n
  int ldb = 0;
  Real* c = nullptr;  // (m, n), leading dimension ldc >= n
  int ldc = 0;
  int batch = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
  bool accumulate = false;
  bool by_degree = false;

  /// Matrices B of all batches, and the one of batch b.
  int n_weights() const { return batch > 0 ? weight_of(batch - 1) + 1 : 0; }
  int weight_of(int b) const {
    if (!by_degree) return b;
    int degree = 0;
    while ((degree + 1) * (degree + 1) <= b) ++degree;
    return degree;
  }
};

}  // namespace dpa4::kernels
