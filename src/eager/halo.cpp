// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/halo.h"

namespace dpa4::eager {
namespace {

using model::HaloExchange;
using model::NodeRows;

enum class Direction { kForward, kReverse };

/// Runs one exchange on rows in host memory (a table on a device is staged through it).
void exchange(at::Tensor& rows, HaloExchange& halo, Direction direction) {
  at::Tensor host = rows.to(at::kCPU).contiguous();
  int width = 1;
  for (int64_t d = 1; d < host.dim(); ++d) width *= static_cast<int>(host.size(d));
  const NodeRows table{
      host.data_ptr(),
      static_cast<int>(host.size(0)),
      width,
      host.scalar_type() == at::kDouble ? NodeRows::Type::kFloat64 : NodeRows::Type::kFloat32,
      NodeRows::Space::kHost,
      nullptr};
  if (direction == Direction::kForward) {
    halo.forward(table);
  } else {
    halo.reverse(table);
  }
  if (!host.is_same(rows)) rows.copy_(host);
}

}  // namespace

Var extend_to_copies(Tape& tape, const Var& owned, int64_t n_nodes, HaloExchange& halo) {
  if (!halo.active()) return owned;
  const int64_t n_owned = owned->value.size(0);
  std::vector<int64_t> shape = owned->value.sizes().vec();
  shape[0] = n_nodes;
  at::Tensor rows = at::zeros(shape, owned->value.options());
  rows.narrow(0, 0, n_owned).copy_(owned->value);
  exchange(rows, halo, Direction::kForward);
  Var extended = make_var(rows);
  tape.record([owned, extended, n_owned, &halo] {
    exchange(extended->mutable_grad(), halo, Direction::kReverse);
    owned->add_grad(extended->grad.narrow(0, 0, n_owned));
    extended->grad.reset();
  });
  return extended;
}

Var complete_over_ranks(Tape& tape, const Var& partial, HaloExchange& halo) {
  if (!halo.active()) return partial;
  at::Tensor rows = partial->value.clone();
  exchange(rows, halo, Direction::kReverse);
  exchange(rows, halo, Direction::kForward);
  Var total = make_var(rows);
  tape.record([partial, total, &halo] {
    at::Tensor& grad = total->mutable_grad();
    exchange(grad, halo, Direction::kReverse);
    exchange(grad, halo, Direction::kForward);
    partial->add_grad(grad);
    total->grad.reset();
  });
  return total;
}

}  // namespace dpa4::eager
