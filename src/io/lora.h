// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "src/io/state_dict.h"
#include "src/model/weight_schema.h"
#include "src/model/weights.h"

namespace dpa4::io {

/// Adds the low-rank adapters of a fine-tuned checkpoint to the weights they adapt:
///
///   weight[l, i, o]  += s sum_r A_by_l[l, r, i] B_by_l[l, o, r]
///   weight_m0[i, o]  += s sum_r A_m0[r, i] B_m0[o, r],      weight_m.k likewise
///
/// with s = lora_scaling (1 if missing). Sums in double, results in the type of the weight.
/// @return true if there were any
bool fold_lora(const StateDict& state, TensorLoader& loader,
               const std::vector<model::WeightSpec>& schema, model::Weights& weights);

/// True for the arrays fold_lora consumes.
bool is_lora(const std::string& canonical_name);

}  // namespace dpa4::io
