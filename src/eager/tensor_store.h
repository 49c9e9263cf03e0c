// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>

#include "src/model/weights.h"

namespace dpa4::eager {

/// The weights of a model as tensors of one type on one device, looked up by canonical name.
/// A scope is a name prefix: store.scope("descriptor.blocks.0.so2_conv") ("pre_focus_mix.weight").
class TensorStore {
 public:
  TensorStore(const model::Weights& weights, at::TensorOptions options);

  TensorStore scope(const std::string& name) const;
  TensorStore scope(const std::string& name, int index) const {
    return scope(name + "." + std::to_string(index));
  }

  bool has(const std::string& name) const { return tensors_->count(prefix_ + name) != 0; }
  const at::Tensor& operator()(const std::string& name) const;

  /// Type and device of all tensors.
  const at::TensorOptions& options() const { return options_; }
  int64_t bytes() const;

 private:
  std::shared_ptr<const std::map<std::string, at::Tensor>> tensors_;
  at::TensorOptions options_;
  std::string prefix_;
};

/// A constant table (row-major) as a tensor with the given options.
at::Tensor constant(const std::vector<double>& values, at::IntArrayRef shape,
                    at::TensorOptions options);
at::Tensor index_tensor(const std::vector<int>& values, at::TensorOptions options);

}  // namespace dpa4::eager
