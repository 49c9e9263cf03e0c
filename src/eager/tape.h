// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <vector>

namespace dpa4::eager {

/// A table of node rows (rows first) and the gradient of the energy with respect to it.
struct Node {
  at::Tensor value;
  at::Tensor grad;  // undefined: zero

  void add_grad(const at::Tensor& contribution) {
    grad = grad.defined() ? grad.add_(contribution) : contribution.clone();
  }
  /// The gradient, allocated and zero when nothing has been added yet.
  at::Tensor& mutable_grad() {
    if (!grad.defined()) grad = at::zeros_like(value);
    return grad;
  }
};
using Var = std::shared_ptr<Node>;

inline Var make_var(at::Tensor value) {
  auto var = std::make_shared<Node>();
  var->value = std::move(value);
  return var;
}

/// A range of rows [begin, end).
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  at::Tensor of(const at::Tensor& table) const { return table.narrow(0, begin, size()); }
};

/// The explicit reverse pass of one step. Every operation records a closure that turns the
/// gradients of its outputs into gradients of its inputs; intermediates are recomputed there, a
/// chunk of rows at a time, so that only node tables live from forward to backward. The order of
/// the closures, and with it the order of all exchanges between ranks, is the program's own.
class Tape {
 public:
  explicit Tape(int64_t row_chunk) : row_chunk_(row_chunk) {}

  /// Maps chunks of rows of the inputs to chunks of rows of the outputs.
  using RowFunction =
      std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, RowRange rows)>;

  /// Applies `function` to every chunk of the first `n_rows` rows of the inputs.
  std::vector<Var> rows(const std::vector<Var>& inputs, int64_t n_rows, RowFunction function);

  void record(std::function<void()> backward) { steps_.push_back(std::move(backward)); }

  /// Runs the recorded closures last to first, freeing each one's tables as it goes.
  void backward() {
    while (!steps_.empty()) {
      steps_.back()();
      steps_.pop_back();
    }
  }

 private:
  int64_t row_chunk_;
  std::vector<std::function<void()>> steps_;
};

/// d(outputs)/d(inputs) applied to grad_outputs; zero-filled where an input does not matter.
std::vector<at::Tensor> vector_jacobian(const std::vector<at::Tensor>& outputs,
                                        const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& grad_outputs);

/// A detached view of `value` that collects a gradient.
at::Tensor make_leaf(const at::Tensor& value);

}  // namespace dpa4::eager
