// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/lammps_halo.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "comm.h"
#include "lammps.h"

#include "src/base/error.h"

namespace dpa4::lammps {
namespace {

/// to += from, element by element.
template <class Real>
void add(std::byte* to, const std::byte* from, std::int64_t bytes) {
  auto* sum = reinterpret_cast<Real*>(to);
  const auto* term = reinterpret_cast<const Real*>(from);
  for (std::int64_t k = 0; k < bytes / static_cast<std::int64_t>(sizeof(Real)); ++k) {
    sum[k] += term[k];
  }
}

}  // namespace

void LammpsHalo::exchange_owners(std::vector<RowOwner>& owner) {
  owners_ = &owner;
  lmp_->comm->forward_comm(pair_, 2);
  owners_ = nullptr;
}

void LammpsHalo::set_rows(TensorView<const int, 1> row_of_atom, int n_owned, int n_nodes) {
  row_of_atom_ = row_of_atom;
  n_owned_ = n_owned;
  n_nodes_ = n_nodes;
  active_ = any(n_nodes > n_owned);
}

void LammpsHalo::in_slices(const model::NodeRows& rows, const std::function<void(int)>& exchange) {
  DPA4_EXPECTS(rows.n_nodes == n_nodes_);
  const bool single_precision = rows.type == model::NodeRows::Type::kFloat32;
  const std::int64_t element_bytes = single_precision ? sizeof(float) : sizeof(double);
  constexpr std::int64_t kSliceBytes = kSlice * static_cast<std::int64_t>(sizeof(double));
  const std::int64_t row_bytes = rows.width * element_bytes;
  for (std::int64_t begin = 0; begin < row_bytes; begin += kSliceBytes) {
    const std::int64_t bytes = std::min(kSliceBytes, row_bytes - begin);
    const auto doubles = static_cast<int>((bytes + sizeof(double) - 1) / sizeof(double));
    slice_ = {static_cast<std::byte*>(rows.data) + begin, row_bytes, bytes, doubles,
              single_precision};
    exchange(doubles);
  }
}

void LammpsHalo::forward(model::NodeRows rows) {
  if (!active_) return;
  DPA4_EXPECTS(rows.space == model::NodeRows::Space::kHost);
  in_slices(rows, [this](int doubles) { lmp_->comm->forward_comm(pair_, doubles); });
}

void LammpsHalo::reverse(model::NodeRows rows) {
  if (!active_) return;
  DPA4_EXPECTS(rows.space == model::NodeRows::Space::kHost);
  in_slices(rows, [this](int doubles) { lmp_->comm->reverse_comm(pair_, doubles); });
}

bool LammpsHalo::any(bool condition) {
  const int mine = condition ? 1 : 0;
  int result = 0;
  MPI_Allreduce(&mine, &result, 1, MPI_INT, MPI_MAX, lmp_->world);
  return result != 0;
}

int LammpsHalo::pack_forward(int n, const int* atoms, double* buffer) const {
  if (owners_ != nullptr) {
    for (int k = 0; k < n; ++k) {
      const RowOwner& owner = (*owners_)[atoms[k]];
      buffer[2 * k] = owner.rank;
      buffer[2 * k + 1] = owner.row;
    }
    return 2 * n;
  }
  for (int k = 0; k < n; ++k) {
    const int node = row_of_atom_(atoms[k]);
    double* to = buffer + std::int64_t{k} * slice_.doubles;
    if (node >= 0) {
      to[slice_.doubles - 1] = 0;  // an odd number of floats leaves the last half unset
      std::memcpy(to, row(node), slice_.bytes);
    } else {
      std::memset(to, 0, slice_.doubles * sizeof(double));
    }
  }
  return n * slice_.doubles;
}

void LammpsHalo::unpack_forward(int n, int first, const double* buffer) {
  if (owners_ != nullptr) {
    for (int k = 0; k < n; ++k) {
      (*owners_)[first + k] = {static_cast<int>(buffer[2 * k]),
                               static_cast<int>(buffer[2 * k + 1])};
    }
    return;
  }
  for (int k = 0; k < n; ++k) {
    const int node = row_of_atom_(first + k);
    if (node < n_owned_) continue;  // an image of an own atom, or no row
    std::memcpy(row(node), buffer + std::int64_t{k} * slice_.doubles, slice_.bytes);
  }
}

int LammpsHalo::pack_reverse(int n, int first, double* buffer) {
  for (int k = 0; k < n; ++k) {
    const int node = row_of_atom_(first + k);
    double* to = buffer + std::int64_t{k} * slice_.doubles;
    std::memset(to, 0, slice_.doubles * sizeof(double));
    if (node < n_owned_) continue;
    std::memcpy(to, row(node), slice_.bytes);
    std::memset(row(node), 0, slice_.bytes);
  }
  return n * slice_.doubles;
}

void LammpsHalo::unpack_reverse(int n, const int* atoms, const double* buffer) {
  for (int k = 0; k < n; ++k) {
    const int node = row_of_atom_(atoms[k]);
    if (node < 0) continue;
    const auto* from =
        reinterpret_cast<const std::byte*>(buffer + std::int64_t{k} * slice_.doubles);
    if (slice_.single_precision) {
      add<float>(row(node), from, slice_.bytes);
    } else {
      add<double>(row(node), from, slice_.bytes);
    }
  }
}

}  // namespace dpa4::lammps
