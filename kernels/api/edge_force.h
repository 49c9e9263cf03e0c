// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Forces and virials from g = dE/dvec, in double, node by node:
///
///   force[n] = sum_{dst = n} g - sum_{src = n} g                                    [eV/Angstrom]
///   node_virial[n] = 1/2 sum_{dst = n} w + 1/2 sum_{src = n} w,  w[a, b] = -g[a] vec[b]   [eV]
///
/// for all N nodes; rows of nodes that are not owned go home through the halo exchange.
template <class Real>
struct EdgeForceArgs {
  int node_first = 0;
  int node_count = 0;
  int n_owned = 0;
  const int* dst_begin = nullptr;  // (n_owned + 1)
  const int* src_begin = nullptr;  // (N + 1)
  const int* by_src = nullptr;     // (E)
  const double* vec = nullptr;     // (E, 3) by edge
  const Real* grad_vec = nullptr;  // (E, 3) by edge
  double* force = nullptr;         // (N, 3)  out in the range
  double* node_virial = nullptr;   // (N, 9)  out in the range
};

}  // namespace dpa4::kernels
