// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Attention logit of every edge, focus and head, with the logarithms of its weight and gate:
///
///   logit[edge, f, h] = ch^(-1/2) <q[dst, f, h, :], k[src, f, h, :]> + radial[i, f, h]
///                       + 2 ln envelope[i] + ln gate[src]
///
/// minus infinity where envelope <= 0 or gate <= 0. gate null is 1. Needs H >= 1.
template <class Real>
struct AttentionLogitsArgs {
  EdgeSlice edges;
  MessageShape shape;
  const Real* query = nullptr;   // (n_owned, Cw)
  const Real* key = nullptr;     // (N, Cw)
  const Real* radial = nullptr;  // (count, F H), leading dimension ld_radial
  int ld_radial = 0;
  const Real* envelope = nullptr;  // (count)
  const Real* gate = nullptr;      // (N) or null
  Real* logit = nullptr;           // (E, F H) by edge  out for the edges of the call
};

/// Log-normaliser of each destination: lse[n, f, h] = ln( exp(null_logit[f, h]) + sum exp(logit) ).
template <class Real>
struct AttentionLseArgs {
  int node_first = 0;
  int node_count = 0;
  int n_weights = 0;                 // F H
  const int* dst_begin = nullptr;    // (n_owned + 1)
  const Real* logit = nullptr;       // (E, F H) by edge
  const Real* null_logit = nullptr;  // (F H)
  Real* lse = nullptr;               // (n_owned, F H)  out in the range
};

}  // namespace dpa4::kernels
