// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Energy of each atom [eV]: energy[n] += scale[type] <x[n, :], output> + shift[type], and the
/// gradient of their sum: grad_x[n, :] = scale[type] output.
template <class Real>
struct EnergyHeadArgs {
  int n_nodes = 0;
  int width = 0;
  const int* type = nullptr;      // (n_nodes)
  const Real* x = nullptr;        // (n_nodes, width)
  const Real* output = nullptr;   // (width)
  const double* scale = nullptr;  // (types): 1, or 0 for types without energy
  const double* shift = nullptr;  // (types) [eV]
  double* energy = nullptr;       // (n_nodes)         +=
  Real* grad_x = nullptr;         // (n_nodes, width)  out; not x
};

}  // namespace dpa4::kernels
