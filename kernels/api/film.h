// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Rotation invariants of the environment matrix: gram[n, j, a] = sum_k sum[n, k, j] sum[n, k, a],
/// j < width, a < axes.
template <class Real>
struct FilmGramArgs {
  int n_nodes = 0;
  int width = 0;
  int axes = 0;
  const Real* sum = nullptr;  // (n_nodes, 4, width)
  Real* gram = nullptr;       // (n_nodes, width, axes)  out
};

template <class Real>
struct FilmGramBackwardArgs {
  int n_nodes = 0;
  int width = 0;
  int axes = 0;
  const Real* sum = nullptr;        // (n_nodes, 4, width)
  const Real* grad_gram = nullptr;  // (n_nodes, width, axes)
  Real* grad_sum = nullptr;         // (n_nodes, 4, width)  out; not sum
};

/// Scalar row of the initial features:
///
///   x[n, c] = T[type, c] (1 + scale_strength tanh s[n, c]) + shift_strength tanh t[n, c]
///
/// s and t are the halves of film[n, :], each normalised: rms(v) = scale * v / sqrt(mean(v^2) +
/// eps), or as they are where the norm scales are null.
template <class Real>
struct FilmApplyArgs {
  int n_nodes = 0;
  int channels = 0;
  const int* type = nullptr;         // (n_nodes)
  const Real* type_table = nullptr;  // (types, C)
  const Real* film = nullptr;        // (n_nodes, 2 C)
  const Real* scale_norm = nullptr;  // (C) or null
  const Real* shift_norm = nullptr;  // (C) or null
  double eps = 0;
  double scale_strength = 0;
  double shift_strength = 0;
  Real* x = nullptr;  // (n_nodes, C), leading dimension ldx  out
  std::int64_t ldx = 0;
};

template <class Real>
struct FilmApplyBackwardArgs {
  int n_nodes = 0;
  int channels = 0;
  const int* type = nullptr;
  const Real* type_table = nullptr;
  const Real* film = nullptr;
  const Real* scale_norm = nullptr;
  const Real* shift_norm = nullptr;
  double eps = 0;
  double scale_strength = 0;
  double shift_strength = 0;
  const Real* grad_x = nullptr;  // (n_nodes, C), leading dimension ldx
  std::int64_t ldx = 0;
  Real* grad_film = nullptr;  // (n_nodes, 2 C)  out; may be film
};

}  // namespace dpa4::kernels
