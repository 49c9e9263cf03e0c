// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/model/host_tensor.h"

namespace dpa4::model {

/// The trained arrays of one model, by canonical name: the key of the `pt` dialect without its
/// prefix `model.<branch>.atomic_model.`, for example
/// `descriptor.blocks.0.so2_conv.pre_focus_mix.weight`,
/// `fitting_net.filter_layers.networks.0.output_layer.matrix`, `out_bias`. LoRA adapters are
/// folded, derived buffers (index and Wigner tables) are absent. Grid matrices
/// (`*.projector.{to,from}_grid_mat`) are present where the reference reads them from the file
/// (`pt_expt`): use them in place of computed ones.
class Weights {
 public:
  bool contains(const std::string& name) const { return tensors_.count(name) != 0; }

  const HostTensor& at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      throw InternalError("dpa4 internal error: no weight '" + name + "'");
    return found->second;
  }

  void set(const std::string& name, HostTensor tensor) { tensors_[name] = std::move(tensor); }
  void erase(const std::string& name) { tensors_.erase(name); }
  const std::map<std::string, HostTensor>& all() const { return tensors_; }

 private:
  std::map<std::string, HostTensor> tensors_;
};

}  // namespace dpa4::model
