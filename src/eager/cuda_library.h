// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace dpa4::eager {

/// Loads LibTorch's CUDA library, which this project does not link, and counts devices.
/// Returns 0 and says why in `reason` when there is nothing to use.
int load_cuda(std::string& reason);

}  // namespace dpa4::eager
