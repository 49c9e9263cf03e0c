// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Ziegler-Biersack-Littmark repulsion, half of it for each direction of a pair, in double:
/// energy[n] += 1/2 sum over the edges of n of V(|vec|), grad_vec[edge] += 1/2 V'(|vec|) vec /
/// |vec|. Edges that touch a type with included = 0 count nothing. Formulas: src/math/zbl.h.
template <class Real>
struct ZblPairArgs {
  int node_first = 0;
  int node_count = 0;
  const int* dst_begin = nullptr;         // (n_owned + 1)
  const int* src = nullptr;               // (E) by edge
  const int* type = nullptr;              // (N)
  const double* vec = nullptr;            // (E, 3) by edge [Angstrom]
  const double* atomic_number = nullptr;  // (types)
  const int* included = nullptr;          // (types)
  double* energy = nullptr;               // (n_owned)  += in the range [eV]
  Real* grad_vec = nullptr;               // (E, 3) by edge  +=
};

}  // namespace dpa4::kernels
