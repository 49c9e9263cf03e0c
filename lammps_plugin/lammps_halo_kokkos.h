// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lammps_plugin/kokkos_lammps.h"
#include "lammps_plugin/lammps_halo.h"

namespace dpa4::lammps {

/// LammpsHalo where Kokkos has the atoms: rows in that memory are packed and unpacked there.
///
/// LAMMPS asks for one of two sets of functions: its Kokkos communication hands over buffers on the
/// device (`..._kokkos`), its tiled communication and `package kokkos comm/pair/... no` buffers on
/// the host. Either may meet rows on the device or, from an evaluator that works on the host, rows
/// on the host. What arrives for one row from several atoms is added in the order of the list,
/// which on a GPU depends on the timing of its threads.
template <class DeviceType>
class LammpsHaloKokkos final : public LammpsHalo {
 public:
  using Space = base::KokkosSpace<ExecutionSpaceOf<DeviceType>>;

  using LammpsHalo::LammpsHalo;

  /// Fills in the entries of ghosts from those of the atoms they are copies of. Collective.
  ///
  /// @param owner  (n_atoms, 2) in memory of the space: rank and row, as numbers of LAMMPS' buffers
  void exchange_owners(double* owner, int n_local, int n_atoms);

  /// As LammpsHalo::set_rows; `row_of_atom` is in memory of the space.
  void set_rows(TensorView<const int, 1> row_of_atom, int n_owned, int n_nodes);

  bool takes_device_rows() const override { return true; }
  void forward(model::NodeRows rows) override;
  void reverse(model::NodeRows rows) override;

  // What Pair's functions of the same names do; lists and buffers on the host.
  int pack_forward(int n, const int* atoms, double* buffer);
  void unpack_forward(int n, int first, const double* buffer);
  int pack_reverse(int n, int first, double* buffer);
  void unpack_reverse(int n, const int* atoms, const double* buffer);

  // The same with lists and buffers on the device.
  int pack_forward_kokkos(int n, const CommList& atoms, CommBuffer& buffer);
  void unpack_forward_kokkos(int n, int first, CommBuffer& buffer);
  int pack_reverse_kokkos(int n, int first, CommBuffer& buffer);
  void unpack_reverse_kokkos(int n, const CommList& atoms, CommBuffer& buffer);

  std::int64_t bytes() const;

 private:
  template <class T>
  using Buffer = base::Buffer<T, Space>;

  /// A list of atoms with its entries grouped by the rows they add to; good until the rows change.
  struct Incoming {
    const int* atoms = nullptr;  // tells the lists apart, with n
    int n = 0;
    Buffer<int> entry;  // (n)  entries of the list, ascending in row, then in the list's order
    Buffer<int> row;    // (n)  row of entry[k]; n_nodes: none
  };

  void exchange(const model::NodeRows& rows, const std::function<void(int)>& one);
  bool rows_are_here() const { return Space::kHostAccessible || rows_on_device_; }
  void bring_map_to_host();
  const Incoming& incoming(int n, const int* atoms);

  void pack_forward_here(int n, const int* atoms, double* buffer);
  void unpack_forward_here(int n, int first, const double* buffer);
  void pack_reverse_here(int n, int first, double* buffer);
  void unpack_reverse_here(int n, const Incoming& from, const double* buffer);

  Space space_;
  TensorView<const int, 1> row_of_atom_here_;
  std::vector<int> row_of_atom_on_host_;
  bool map_is_on_host_ = false;
  bool rows_on_device_ = false;  // those of the exchange under way
  Buffer<int> identity_;         // (atoms)
  Buffer<int> key_, group_begin_, cursor_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::size_t n_incoming_ = 0;  // in use; the others keep their memory for later
  Buffer<int> list_copy_;       // copies of the host's lists and buffers
  Buffer<double> buffer_copy_;
};

}  // namespace dpa4::lammps
