// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "src/model/model_config.h"

namespace dpa4::model {

/// Names of the released sizes, smallest first: nano, mini, neo, air, plus, pro, max, ultra.
const std::vector<std::string>& preset_names();

/// The released architecture of that name, for the given elements; format 1.2, norms as in the
/// releases of August 2026. An unknown name is an InputError that lists the known ones.
ModelConfig preset(const std::string& name, std::vector<std::string> type_map);

/// The 118 elements from H to Og: the type map of the released models.
const std::vector<std::string>& all_elements();

/// Name of the released architecture that `config` has, or empty. What users choose freely does not
/// matter: elements, cutoff, conditions, exclusions, norms and envelopes, and the fitting net.
std::string find_preset(const ModelConfig& config);

}  // namespace dpa4::model
