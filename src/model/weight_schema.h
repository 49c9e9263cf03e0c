// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/model/model_config.h"
#include "src/model/weights.h"

namespace dpa4::model {

/// One array a model needs: its canonical name (see weights.h) and its row-major shape.
struct WeightSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  bool trainable = true;  // false: set from data statistics, not by the optimizer
};

/// Every array a model of this configuration needs, in a fixed order. This is the only place that
/// spells the names; a reader fills exactly these, an engine may rely on all of them being there.
std::vector<WeightSpec> weight_schema(const ModelConfig& config);

/// Elements of all trainable arrays: the size by which a model is known.
std::int64_t count_parameters(const std::vector<WeightSpec>& schema);

/// Reproducible float32 weights for benches and tests, scaled so that features keep their size
/// through the network. Nothing is zero: also what training starts at zero (last layers, residual
/// scales, norm biases) gets a value, so that every term of the model contributes.
Weights random_weights(const ModelConfig& config, std::uint64_t seed);

}  // namespace dpa4::model
