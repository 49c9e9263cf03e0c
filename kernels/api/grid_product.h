// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Sizes of a product on a grid (matrices: src/math/grid.h).
struct GridShape {
  int n_points = 0;        // G
  int n_coefficients = 0;  // K = rows * frames
  int width = 0;           // Cg channels of the result
  int n_branches = 1;      // nb
};

/// Between coefficients and points of a grid, both ways, each matrix in the two orders of storage.
template <class Real>
struct GridMatrices {
  const Real* to = nullptr;               // (G, K)
  const Real* to_transposed = nullptr;    // (K, G)
  const Real* from = nullptr;             // (K, G)
  const Real* from_transposed = nullptr;  // (G, K)
};

/// Product of two fields on a grid, item by item (a node, or a focus of a node):
///
///   value[g, b, c] = (sum_i to[g, i] left[i, b, c]) (sum_i to[g, i] right[i, b, c])
///   out[i, c] = sum_g from[i, g] sum_b router[b] value[g, b, c]
///
/// router is null for nb = 1, and 1 then.
template <class Real>
struct GridProductArgs {
  int count = 0;
  GridShape shape;
  GridMatrices<Real> grid;
  const Real* left = nullptr;    // (count, K, nb Cg)
  const Real* right = nullptr;   // (count, K, nb Cg)
  const Real* router = nullptr;  // (count, nb) or null
  Real* out = nullptr;           // (count, K, Cg)  out
  Real* work = nullptr;          // count * grid_product_work(shape) elements
};

template <class Real>
struct GridProductBackwardArgs {
  int count = 0;
  GridShape shape;
  GridMatrices<Real> grid;
  const Real* left = nullptr;      // (count, K, nb Cg)
  const Real* right = nullptr;     // (count, K, nb Cg)
  const Real* router = nullptr;    // (count, nb) or null
  const Real* grad_out = nullptr;  // (count, K, Cg)
  Real* grad_left = nullptr;       // (count, K, nb Cg)  out; may be left
  Real* grad_right = nullptr;      // (count, K, nb Cg)  out; may be right
  Real* grad_router = nullptr;     // (count, nb)  out, or null when router is null
  Real* work = nullptr;            // count * grid_product_work(shape) elements
};

/// Softmax of `n_branches` router logits, row by row, and its backward.
template <class Real>
struct GridRouterArgs {
  int count = 0;
  int n_branches = 1;
  const Real* logit = nullptr;  // (count, nb)
  Real* router = nullptr;       // (count, nb)  out
};

template <class Real>
struct GridRouterBackwardArgs {
  int count = 0;
  int n_branches = 1;
  const Real* router = nullptr;       // (count, nb)
  const Real* grad_router = nullptr;  // (count, nb)
  Real* grad_logit = nullptr;         // (count, nb)  out
};

/// The scalar coefficient of a grid product without the grid, for the last read-out layer:
/// out[c] = sum_i weight[i] left[i, c] right[i, c].
template <class Real>
struct GridMeanArgs {
  int count = 0;
  int n_coefficients = 0;
  int width = 0;
  const Real* weight = nullptr;  // (K)
  const Real* left = nullptr;    // (count, K, width)
  const Real* right = nullptr;   // (count, K, width)
  Real* out = nullptr;           // (count, width)  out
};

template <class Real>
struct GridMeanBackwardArgs {
  int count = 0;
  int n_coefficients = 0;
  int width = 0;
  const Real* weight = nullptr;
  const Real* left = nullptr;
  const Real* right = nullptr;
  const Real* grad_out = nullptr;  // (count, width)
  Real* grad_left = nullptr;       // (count, K, width)  out; not left or right
  Real* grad_right = nullptr;      // (count, K, width)  out; not left or right
};

}  // namespace dpa4::kernels
