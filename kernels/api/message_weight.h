// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/common.h"

namespace dpa4::kernels {

/// Weight of every message. H >= 1: alpha[i, f, h] = exp(logit[edge, f, h] - lse[dst, f, h]).
/// H = 0: alpha[i, f] = envelope[i] gate[src] for every f.
template <class Real>
struct MessageWeightArgs {
  EdgeSlice edges;
  MessageShape shape;
  const Real* logit = nullptr;     // (E, F H) by edge; null for H = 0
  const Real* lse = nullptr;       // (n_owned, F H); null for H = 0
  const Real* envelope = nullptr;  // (count)
  const Real* gate = nullptr;      // (N) or null
  Real* alpha = nullptr;           // (count, weights())  out
};

/// H >= 1, with S[n, f, h] = <grad_pg, pg> of the destination (head_gate.h):
///
///   g[i, f, h]   = alpha (grad_alpha - S[dst])          written to grad_logit[edge]
///   grad_radial  = g                                     written
///   grad_envelope += 2 sum g / envelope (0 where envelope <= 0);  grad_gate += sum g / gate
///   grad_key[src, f, h, :] += ch^(-1/2) sum over the edges of src of g query[dst, f, h, :]
///
/// H = 0: grad_envelope += gate sum_f grad_alpha;  grad_gate += envelope sum_f grad_alpha.
/// `edges` lists by source.
template <class Real>
struct MessageWeightBackwardArgs {
  EdgeSlice edges;
  MessageShape shape;
  const Real* alpha = nullptr;       // (count, weights())
  const Real* grad_alpha = nullptr;  // (count, weights())
  const Real* row_sum = nullptr;     // (n_owned, F H)  S; null for H = 0
  const Real* query = nullptr;       // (n_owned, Cw); null for H = 0
  const Real* envelope = nullptr;    // (count)
  const Real* gate = nullptr;        // (N) or null
  Real* grad_logit = nullptr;        // (E, F H) by edge  out for the edges of the call
  Real* grad_radial = nullptr;       // (count, F H), leading dimension ld_radial  out
  int ld_radial = 0;
  Real* grad_envelope = nullptr;  // (count)   +=
  Real* grad_gate = nullptr;      // (count)   +=, or null when gate is null
  Real* grad_key = nullptr;       // (N, Cw)   +=
};

/// The destination's side: grad_query[n, f, h, :] = ch^(-1/2) sum over the edges of n of
/// grad_logit[edge, f, h] key[src, f, h, :].
template <class Real>
struct QueryGradientArgs {
  int node_first = 0;
  int node_count = 0;
  MessageShape shape;
  const int* dst_begin = nullptr;    // (n_owned + 1)
  const int* src = nullptr;          // (E) by edge
  const Real* grad_logit = nullptr;  // (E, F H) by edge
  const Real* key = nullptr;         // (N, Cw)
  Real* grad_query = nullptr;        // (n_owned, Cw)  out in the range
};

}  // namespace dpa4::kernels
