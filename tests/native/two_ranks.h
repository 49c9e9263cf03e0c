// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/model/evaluator.h"

namespace dpa4::native::testing {

/// Evaluates a structure of one rank by two, as threads that exchange rows through memory: the
/// first owns atoms [0, n_first), the second the others, and each has copies of the atoms its edges
/// come from. Returns what the ranks' results add up to, in the order of the structure.
model::Evaluation evaluate_on_two_ranks(model::Evaluator& first, model::Evaluator& second,
                                        const model::Structure& whole, int n_first);

}  // namespace dpa4::native::testing
