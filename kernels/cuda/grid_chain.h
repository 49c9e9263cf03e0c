// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

#include "kernels/api/common.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/split_weights.h"

/// Products of two fields on a grid without the fields in memory, see grid_chain.cuh.
namespace dpa4::cuda {

inline constexpr int kGridChainSteps = 7;  // most coefficients: 16 times this

/// Coefficients and matrices; arrays (count, K, width). The outputs may be the second factors, in
/// any order.
template <int kPasses>
struct GridChainArgs {
  std::int64_t rows = 0;
  int size = 0;  // K
  int width = 0;
  int points = 0;  // G
  const float* first = nullptr;
  const float* second[kPasses] = {};
  float* out[kPasses] = {};
  SplitWeights first_to, second_to;  // the same if kPasses = 1
  SplitWeights back;
};

/// For size <= 16 kSteps. CMake makes the source files from the list of shapes.cmake and
/// grid_chain_shard.cu.in.
template <int kSteps, int kPasses>
void grid_chain_of_steps(const char* name, const GridChainArgs<kPasses>& args,
                         kernels::Stream stream);

/// Needs size <= 16 kGridChainSteps.
template <int kPasses>
void grid_chain(const char* name, const GridChainArgs<kPasses>& args, kernels::Stream stream) {
  switch (divide_up(args.size, 16)) {
    case 1:
      return grid_chain_of_steps<1>(name, args, stream);
    case 2:
      return grid_chain_of_steps<2>(name, args, stream);
    case 3:
      return grid_chain_of_steps<3>(name, args, stream);
    case 4:
      return grid_chain_of_steps<4>(name, args, stream);
    case 5:
      return grid_chain_of_steps<5>(name, args, stream);
    case 6:
      return grid_chain_of_steps<6>(name, args, stream);
    default:
      DPA4_EXPECTS(args.size <= 16 * kGridChainSteps);
      return grid_chain_of_steps<kGridChainSteps>(name, args, stream);
  }
}

}  // namespace dpa4::cuda
