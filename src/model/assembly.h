// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/model/evaluator.h"

namespace dpa4::model {

/// Forces and virials from g = dE/dvec of every edge (spec part 1, section 1.3):
///
///   F_k = sum_{dst = k} g - sum_{src = k} g,     W = -sum g (x) vec,     half of W_e to each end
///
/// Every atom sums its own edges in the order of the two edge orders, in double; contributions to
/// copies of other ranks' atoms are sent home. Collective. grad_vec: (E, 3) in host memory. Writes
/// force, virial and, when requested, atom_virial; energies are left alone.
void assemble_forces(const graph::EdgeList& edges, TensorView<const double, 2> grad_vec,
                     HaloExchange& halo, Request request, Evaluation& result);

}  // namespace dpa4::model
