// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/logger.h"
#include "src/engine/engine.h"

namespace dpa4::lammps {

/// Where a pair style gets its model from. The plugin uses the functions of src/engine; the tests
/// of the pair style put a potential with known derivatives in their place.
struct ModelSource {
  std::function<engine::LoadedModel(const std::string& path, const engine::EngineOptions& options,
                                    Logger& log)>
      load;
  std::function<std::vector<std::string>(const engine::LoadedModel& model)> start_report;
};

}  // namespace dpa4::lammps
