// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/lammps_halo_kokkos.h"

#include <type_traits>

#include "comm.h"
#include "lammps.h"

#include "src/base/error.h"

namespace dpa4::lammps {
namespace halo_kernels {

/// A slice of the columns of all rows as numbers, and how the atoms of a buffer are laid out:
/// `stride` numbers each, of which the first `columns` are used.
template <class Real>
struct Columns {
  Real* data;
  std::int64_t row_size;
  int columns;
  int stride;

  KOKKOS_INLINE_FUNCTION Real& at(int row, int column) const {
    return data[row * row_size + column];
  }
};

template <class Real>
struct PackForward {
  const int* atoms;
  const int* row_of_atom;
  Columns<Real> rows;
  Real* buffer;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const int row = row_of_atom[atoms[i / rows.stride]];
    const int column = static_cast<int>(i % rows.stride);
    buffer[i] = row >= 0 && column < rows.columns ? rows.at(row, column) : Real{0};
  }
};

template <class Real>
struct UnpackForward {
  const int* row_of_atom;  // from the first atom that arrives
  int n_owned;
  Columns<Real> rows;
  const Real* buffer;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const int row = row_of_atom[i / rows.stride];
    const int column = static_cast<int>(i % rows.stride);
    if (row >= n_owned && column < rows.columns) rows.at(row, column) = buffer[i];
  }
};

template <class Real>
struct PackReverse {
  const int* row_of_atom;  // from the first atom that is sent
  int n_owned;
  Columns<Real> rows;
  Real* buffer;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const int row = row_of_atom[i / rows.stride];
    const int column = static_cast<int>(i % rows.stride);
    if (row < n_owned || column >= rows.columns) {
      buffer[i] = Real{0};
      return;
    }
    buffer[i] = rows.at(row, column);
    rows.at(row, column) = Real{0};
  }
};

/// The first entry of a row adds all of them.
template <class Real>
struct UnpackReverse {
  const int* entry;
  const int* row_of_entry;
  int n;
  int n_nodes;
  Columns<Real> rows;
  const Real* buffer;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    int k = static_cast<int>(i / rows.columns);
    const int column = static_cast<int>(i % rows.columns);
    const int row = row_of_entry[k];
    if (row == n_nodes || (k > 0 && row_of_entry[k - 1] == row)) return;
    Real sum = rows.at(row, column);
    for (; k < n && row_of_entry[k] == row; ++k) {
      sum += buffer[static_cast<std::int64_t>(entry[k]) * rows.stride + column];
    }
    rows.at(row, column) = sum;
  }
};

struct Identity {
  int* out;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { out[i] = static_cast<int>(i); }
};

struct RowOfEntry {
  const int* atoms;
  const int* row_of_atom;
  int n_nodes;
  int* row;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    const int found = row_of_atom[atoms[k]];
    row[k] = found >= 0 ? found : n_nodes;
  }
};

struct Gather {
  const int* from;
  const int* at;
  int* out;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const { out[k] = from[at[k]]; }
};

}  // namespace halo_kernels

namespace {

template <class Real, class Slice>
halo_kernels::Columns<Real> columns_of(const Slice& slice) {
  constexpr int kPerDouble = sizeof(double) / sizeof(Real);
  return {reinterpret_cast<Real*>(slice.data),
          slice.row_bytes / static_cast<std::int64_t>(sizeof(Real)),
          static_cast<int>(slice.bytes / static_cast<std::int64_t>(sizeof(Real))),
          slice.doubles * kPerDouble};
}

/// Calls work(Real{}) with the type of the numbers in the slice.
template <class Slice, class Work>
void with_type(const Slice& slice, const Work& work) {
  if (slice.single_precision) {
    work(float{});
  } else {
    work(double{});
  }
}

/// While it lives, LAMMPS takes the pair style for one that runs there.
class RunsIn {
 public:
  RunsIn(LAMMPS_NS::Pair& pair, LAMMPS_NS::ExecutionSpace space)
      : pair_(pair), usual_(pair.execution_space) {
    pair_.execution_space = space;
  }
  ~RunsIn() { pair_.execution_space = usual_; }
  RunsIn(const RunsIn&) = delete;
  RunsIn& operator=(const RunsIn&) = delete;

 private:
  LAMMPS_NS::Pair& pair_;
  LAMMPS_NS::ExecutionSpace usual_;
};

}  // namespace

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::exchange_owners(double* owner, int n_local, int n_atoms) {
  // Rows of two numbers, one row an atom.
  int* const identity = identity_.reserve(n_atoms);
  base::parallel_for(space_, "dpa4_halo_identity", n_atoms, halo_kernels::Identity{identity});
  row_of_atom_here_ = {identity, n_atoms};
  map_is_on_host_ = false;
  n_owned_ = n_local;
  n_nodes_ = n_atoms;
  n_incoming_ = 0;
  model::NodeRows rows;
  rows.data = owner;
  rows.n_nodes = n_atoms;
  rows.width = 2;
  rows.stream = stream_of(ExecutionSpaceOf<DeviceType>());
  rows.space =
      Space::kHostAccessible ? model::NodeRows::Space::kHost : model::NodeRows::Space::kDevice;
  exchange(rows, [this](int doubles) { lmp_->comm->forward_comm(pair_, doubles); });
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::set_rows(TensorView<const int, 1> row_of_atom, int n_owned,
                                            int n_nodes) {
  row_of_atom_here_ = row_of_atom;
  map_is_on_host_ = false;
  n_incoming_ = 0;
  LammpsHalo::set_rows(row_of_atom, n_owned, n_nodes);
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::forward(model::NodeRows rows) {
  if (!active()) return;
  exchange(rows, [this](int doubles) { lmp_->comm->forward_comm(pair_, doubles); });
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::reverse(model::NodeRows rows) {
  if (!active()) return;
  exchange(rows, [this](int doubles) { lmp_->comm->reverse_comm(pair_, doubles); });
}

/// LAMMPS' Kokkos communication looks at where the style runs to choose its functions; here it is
/// where the rows are that counts.
template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::exchange(const model::NodeRows& rows,
                                            const std::function<void(int)>& one) {
  rows_on_device_ = rows.space == model::NodeRows::Space::kDevice;
  if (!rows_are_here() || Space::kHostAccessible) bring_map_to_host();
  // Rows of another stream than Kokkos' own come from there and go back to it.
  void* const stream = stream_of(ExecutionSpaceOf<DeviceType>());
  const bool other_stream = rows_on_device_ && (stream == nullptr || rows.stream != stream);
  if (other_stream) Kokkos::fence("dpa4_halo_begin");
  constexpr bool kIsDevice = std::is_same_v<DeviceType, KokkosDevice>;
  const RunsIn here(*pair_, kIsDevice && rows_are_here() ? LAMMPS_NS::Device : LAMMPS_NS::HostKK);
  in_slices(rows, one);
  if (other_stream) Kokkos::fence("dpa4_halo_end");
}

/// The functions of LammpsHalo need it.
template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::bring_map_to_host() {
  if (Space::kHostAccessible) {
    row_of_atom_ = row_of_atom_here_;
    return;
  }
  if (map_is_on_host_) return;
  const auto n = static_cast<std::size_t>(row_of_atom_here_.extent(0));
  row_of_atom_on_host_.resize(n);
  space_.copy_out(row_of_atom_on_host_.data(), row_of_atom_here_.data(), n * sizeof(int));
  row_of_atom_ = {row_of_atom_on_host_.data(), n};
  map_is_on_host_ = true;
}

// ---- rows here, lists and buffers here
// ---------------------------------------------------------------

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::pack_forward_here(int n, const int* atoms, double* buffer) {
  with_type(slice_, [&](auto real) {
    using Real = decltype(real);
    const auto rows = columns_of<Real>(slice_);
    base::parallel_for(space_, "dpa4_halo_pack_forward", std::int64_t{n} * rows.stride,
                       halo_kernels::PackForward<Real>{atoms, row_of_atom_here_.data(), rows,
                                                       reinterpret_cast<Real*>(buffer)});
  });
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::unpack_forward_here(int n, int first, const double* buffer) {
  with_type(slice_, [&](auto real) {
    using Real = decltype(real);
    const auto rows = columns_of<Real>(slice_);
    base::parallel_for(
        space_, "dpa4_halo_unpack_forward", std::int64_t{n} * rows.stride,
        halo_kernels::UnpackForward<Real>{row_of_atom_here_.data() + first, n_owned_, rows,
                                          reinterpret_cast<const Real*>(buffer)});
  });
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::pack_reverse_here(int n, int first, double* buffer) {
  with_type(slice_, [&](auto real) {
    using Real = decltype(real);
    const auto rows = columns_of<Real>(slice_);
    base::parallel_for(space_, "dpa4_halo_pack_reverse", std::int64_t{n} * rows.stride,
                       halo_kernels::PackReverse<Real>{row_of_atom_here_.data() + first, n_owned_,
                                                       rows, reinterpret_cast<Real*>(buffer)});
  });
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::unpack_reverse_here(int n, const Incoming& from,
                                                       const double* buffer) {
  with_type(slice_, [&](auto real) {
    using Real = decltype(real);
    const auto rows = columns_of<Real>(slice_);
    base::parallel_for(
        space_, "dpa4_halo_unpack_reverse", std::int64_t{n} * rows.columns,
        halo_kernels::UnpackReverse<Real>{from.entry.data(), from.row.data(), n, n_nodes_, rows,
                                          reinterpret_cast<const Real*>(buffer)});
  });
}

/// Sorted once for each list and set of rows: a list takes part in several exchanges of every step.
template <class DeviceType>
const typename LammpsHaloKokkos<DeviceType>::Incoming& LammpsHaloKokkos<DeviceType>::incoming(
    int n, const int* atoms) {
  for (std::size_t k = 0; k < n_incoming_; ++k) {
    if (incoming_[k]->atoms == atoms && incoming_[k]->n == n) return *incoming_[k];
  }
  if (n_incoming_ == incoming_.size()) incoming_.push_back(std::make_unique<Incoming>());
  Incoming& made = *incoming_[n_incoming_++];
  made.atoms = atoms;
  made.n = n;
  int* const key = key_.reserve(n);
  base::parallel_for(space_, "dpa4_halo_row_of_entry", n,
                     halo_kernels::RowOfEntry{atoms, row_of_atom_here_.data(), n_nodes_, key});
  const int n_keys = n_nodes_ + 1;
  base::group_by_key(space_, "dpa4_halo_group", n, key, n_keys, group_begin_.reserve(n_keys + 1),
                     made.entry.reserve(n), cursor_.reserve(n_keys), n_nodes_);
  base::parallel_for(space_, "dpa4_halo_row_of_group", n,
                     halo_kernels::Gather{key, made.entry.data(), made.row.reserve(n)});
  return made;
}

// ---- what LAMMPS calls
// -------------------------------------------------------------------------------

template <class DeviceType>
int LammpsHaloKokkos<DeviceType>::pack_forward_kokkos(int n, const CommList& atoms,
                                                      CommBuffer& buffer) {
  pack_forward_here(n, atoms.template view<DeviceType>().data(),
                    buffer.template view<DeviceType>().data());
  return n * slice_.doubles;
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::unpack_forward_kokkos(int n, int first, CommBuffer& buffer) {
  unpack_forward_here(n, first, buffer.template view<DeviceType>().data());
}

template <class DeviceType>
int LammpsHaloKokkos<DeviceType>::pack_reverse_kokkos(int n, int first, CommBuffer& buffer) {
  pack_reverse_here(n, first, buffer.template view<DeviceType>().data());
  return n * slice_.doubles;
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::unpack_reverse_kokkos(int n, const CommList& atoms,
                                                         CommBuffer& buffer) {
  unpack_reverse_here(n, incoming(n, atoms.template view<DeviceType>().data()),
                      buffer.template view<DeviceType>().data());
}

template <class DeviceType>
int LammpsHaloKokkos<DeviceType>::pack_forward(int n, const int* atoms, double* buffer) {
  if (Space::kHostAccessible || !rows_on_device_) return LammpsHalo::pack_forward(n, atoms, buffer);
  const int size = n * slice_.doubles;
  int* const list = list_copy_.reserve(n);
  space_.copy_in(list, atoms, static_cast<std::size_t>(n) * sizeof(int));
  pack_forward_here(n, list, buffer_copy_.reserve(size));
  space_.copy_out(buffer, buffer_copy_.data(), static_cast<std::size_t>(size) * sizeof(double));
  return size;
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::unpack_forward(int n, int first, const double* buffer) {
  if (Space::kHostAccessible || !rows_on_device_)
    return LammpsHalo::unpack_forward(n, first, buffer);
  const int size = n * slice_.doubles;
  space_.copy_in(buffer_copy_.reserve(size), buffer,
                 static_cast<std::size_t>(size) * sizeof(double));
  unpack_forward_here(n, first, buffer_copy_.data());
}

template <class DeviceType>
int LammpsHaloKokkos<DeviceType>::pack_reverse(int n, int first, double* buffer) {
  if (Space::kHostAccessible || !rows_on_device_) return LammpsHalo::pack_reverse(n, first, buffer);
  const int size = n * slice_.doubles;
  pack_reverse_here(n, first, buffer_copy_.reserve(size));
  space_.copy_out(buffer, buffer_copy_.data(), static_cast<std::size_t>(size) * sizeof(double));
  return size;
}

template <class DeviceType>
void LammpsHaloKokkos<DeviceType>::unpack_reverse(int n, const int* atoms, const double* buffer) {
  if (Space::kHostAccessible || !rows_on_device_)
    return LammpsHalo::unpack_reverse(n, atoms, buffer);
  const int size = n * slice_.doubles;
  int* const list = list_copy_.reserve(n);
  space_.copy_in(list, atoms, static_cast<std::size_t>(n) * sizeof(int));
  space_.copy_in(buffer_copy_.reserve(size), buffer,
                 static_cast<std::size_t>(size) * sizeof(double));
  n_incoming_ = 0;  // the copies of all lists have one address
  unpack_reverse_here(n, incoming(n, list), buffer_copy_.data());
  n_incoming_ = 0;
}

template <class DeviceType>
std::int64_t LammpsHaloKokkos<DeviceType>::bytes() const {
  std::int64_t sum = identity_.bytes() + key_.bytes() + group_begin_.bytes() + cursor_.bytes() +
                     list_copy_.bytes() + buffer_copy_.bytes();
  for (const auto& list : incoming_) sum += list->entry.bytes() + list->row.bytes();
  return sum;
}

template class LammpsHaloKokkos<KokkosDevice>;
#ifdef LMP_KOKKOS_GPU
template class LammpsHaloKokkos<KokkosHost>;
#endif

}  // namespace dpa4::lammps
