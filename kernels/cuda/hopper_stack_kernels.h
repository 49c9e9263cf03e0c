// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "kernels/cuda/hopper_stack.h"

namespace dpa4::cuda {

/// The kernels for a part and direction, made by CMake from hopper_stack_shapes.cmake.
const std::vector<StackKernel>& hopper_stack_kernels(StackPart part, bool backward);

}  // namespace dpa4::cuda
