// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/tape.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "src/base/error.h"

namespace dpa4::eager {

at::Tensor make_leaf(const at::Tensor& value) { return value.detach().requires_grad_(true); }

std::vector<at::Tensor> vector_jacobian(const std::vector<at::Tensor>& outputs,
                                        const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& grad_outputs) {
  std::vector<at::Tensor> used_outputs, used_grads;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad() || !grad_outputs[i].defined()) continue;
    used_outputs.push_back(outputs[i]);
    used_grads.push_back(grad_outputs[i]);
  }
  if (used_outputs.empty()) return std::vector<at::Tensor>(inputs.size());
  return torch::autograd::grad(used_outputs, inputs, used_grads, /*retain_graph=*/false,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

std::vector<Var> Tape::rows(const std::vector<Var>& inputs, int64_t n_rows, RowFunction function) {
  const int64_t chunk = std::max<int64_t>(1, row_chunk_);
  const auto slices = [](const std::vector<Var>& vars, RowRange range) {
    std::vector<at::Tensor> out;
    for (const Var& var : vars) out.push_back(range.of(var->value));
    return out;
  };

  std::vector<Var> outputs;
  {
    const at::NoGradGuard no_grad;
    int64_t begin = 0;
    do {  // at least once, so that a rank without atoms gets its empty tables too
      const RowRange range{begin, std::min(begin + chunk, n_rows)};
      const std::vector<at::Tensor> results = function(slices(inputs, range), range);
      if (outputs.empty()) {
        for (const at::Tensor& result : results) {
          std::vector<int64_t> shape = result.sizes().vec();
          shape[0] = n_rows;
          outputs.push_back(make_var(at::empty(shape, result.options())));
        }
      }
      for (std::size_t i = 0; i < results.size(); ++i)
        range.of(outputs[i]->value).copy_(results[i]);
      begin = range.end;
    } while (begin < n_rows);
  }

  record([inputs, outputs, n_rows, chunk, slices, function = std::move(function)] {
    const bool any = std::any_of(outputs.begin(), outputs.end(),
                                 [](const Var& var) { return var->grad.defined(); });
    if (!any) return;
    for (int64_t begin = 0; begin < n_rows; begin += chunk) {
      const RowRange range{begin, std::min(begin + chunk, n_rows)};
      std::vector<at::Tensor> leaves = slices(inputs, range);
      for (at::Tensor& leaf : leaves) leaf = make_leaf(leaf);
      const at::AutoGradMode with_grad(true);
      const std::vector<at::Tensor> results = function(leaves, range);
      std::vector<at::Tensor> grad_results;
      for (const Var& output : outputs) {
        grad_results.push_back(output->grad.defined() ? range.of(output->grad) : at::Tensor());
      }
      const std::vector<at::Tensor> grads = vector_jacobian(results, leaves, grad_results);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (grads[i].defined()) range.of(inputs[i]->mutable_grad()).add_(grads[i]);
      }
    }
    for (const Var& output : outputs) output->grad.reset();
  });
  return outputs;
}

}  // namespace dpa4::eager
