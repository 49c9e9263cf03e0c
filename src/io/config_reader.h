// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "src/io/options.h"
#include "src/model/model_config.h"

namespace dpa4::io {

/// Refuses models that are not DPA4/SeZM energy models (another descriptor, property heads, spin,
/// ...).
void require_dpa4_energy_model(const Options& model);

/// Reads the options of one model (one branch of a multi-task file), fills in every default and
/// resolves every automatic value. `n_tensors` is how many arrays the file holds: options that need
/// more of them are refused before anything of that size is made.
model::ModelConfig read_config(const Options& model, double format_version, std::int64_t n_tensors);

}  // namespace dpa4::io
