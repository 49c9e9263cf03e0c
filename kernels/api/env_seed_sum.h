// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Environment matrix of each destination, a sum over its edges:
///
///   sum[n, k, j] += kappa[n] gate[src] rho[k] feature[i, j],
///   rho = envelope / length * (1, unit)      (4)
///
/// `edges` lists by destination; gate null is 1.
template <class Real>
struct EnvSeedSumArgs {
  EdgeSlice edges;
  int width = 0;
  const Real* kappa = nullptr;     // (n_owned)
  const Real* gate = nullptr;      // (N) or null
  const Real* length = nullptr;    // (count)
  const Real* unit = nullptr;      // (count, 3)
  const Real* envelope = nullptr;  // (count)
  const Real* feature = nullptr;   // (count, width)
  Real* sum = nullptr;             // (n_owned, 4, width)  +=
};

template <class Real>
struct EnvSeedSumBackwardArgs {
  EdgeSlice edges;
  int width = 0;
  const Real* kappa = nullptr;
  const Real* gate = nullptr;
  const Real* length = nullptr;
  const Real* unit = nullptr;
  const Real* envelope = nullptr;
  const Real* feature = nullptr;   // (count, width)
  const Real* grad_sum = nullptr;  // (n_owned, 4, width)
  Real* grad_feature = nullptr;    // (count, width)  out; may be feature
  Real* grad_length = nullptr;     // (count)     +=
  Real* grad_unit = nullptr;       // (count, 3)  +=
  Real* grad_envelope = nullptr;   // (count)     +=
  Real* grad_gate = nullptr;       // (count)     +=, or null when gate is null
};

}  // namespace dpa4::kernels
