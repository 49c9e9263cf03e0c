// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "atom_kokkos.h"
#include "atom_masks.h"
#include "comm_kokkos.h"
#include "kokkos.h"
#include "kokkos_base.h"
#include "kokkos_type.h"
#include "memory_kokkos.h"
#include "neigh_list_kokkos.h"
#include "neigh_request.h"
#include "neighbor_kokkos.h"

#include "src/base/kokkos_space.h"

/// The names of LAMMPS' KOKKOS package that this project uses. They have changed between releases
/// of LAMMPS; here, and only here, is what has to follow.
namespace dpa4::lammps {

/// Where Kokkos computes, and where it can compute on the host; the same type without a GPU.
using KokkosDevice = LMPDeviceType;
using KokkosHost = LMPHostType;

template <class DeviceType>
using ExecutionSpaceOf = typename DeviceType::execution_space;

/// The queue of an execution space, as EvaluatorOptions::stream and NodeRows::stream name it; null
/// on the host, and for CUDA's default stream.
template <class ExecutionSpace>
void* stream_of(const ExecutionSpace&) {
  return nullptr;
}
#ifdef KOKKOS_ENABLE_CUDA
inline void* stream_of(const Kokkos::Cuda& space) { return space.cuda_stream(); }
#endif

/// Lists of atoms and buffers as LAMMPS' communication hands them over.
using CommList = DAT::tdual_int_1d;
using CommBuffer = DAT::tdual_double_1d;

/// Atom arrays, as the device sees them.
template <class DeviceType>
struct AtomViews {
  typename ArrayTypes<DeviceType>::t_kkfloat_1d_3_lr x;  // (atoms, 3)
  typename ArrayTypes<DeviceType>::t_kkacc_1d_3 f;       // (atoms, 3)
  typename ArrayTypes<DeviceType>::t_int_1d type;        // (atoms)

  explicit AtomViews(LAMMPS_NS::AtomKokkos& atom)
      : x(atom.k_x.template view<DeviceType>()),
        f(atom.k_f.template view<DeviceType>()),
        type(atom.k_type.template view<DeviceType>()) {}
};

/// What a pair style adds to for each atom, seen by LAMMPS' computes on the host.
using AtomEnergies = DAT::ttransform_kkacc_1d;
using AtomVirials = DAT::ttransform_kkacc_1d_6;
using CentroidVirials = DAT::ttransform_kkacc_1d_9;

/// A full neighbor list where Kokkos built it, in place (src/graph/edge_builder.h says what a list
/// is).
template <class DeviceType>
struct KokkosNeighborList {
  typename ArrayTypes<DeviceType>::t_neighbors_2d_const neighbors;  // (atoms, most neighbors)
  typename ArrayTypes<DeviceType>::t_int_1d_const center_atom;      // (n_entries)
  typename ArrayTypes<DeviceType>::t_int_1d_const n_neighbors;      // (atoms)
  int n_entries = 0;

  explicit KokkosNeighborList(LAMMPS_NS::NeighList& list) : n_entries(list.inum) {
    auto& kokkos_list = static_cast<LAMMPS_NS::NeighListKokkos<DeviceType>&>(list);
    neighbors = kokkos_list.d_neighbors;
    center_atom = kokkos_list.d_ilist;
    n_neighbors = kokkos_list.d_numneigh;
  }

  KOKKOS_INLINE_FUNCTION int size() const { return n_entries; }
  KOKKOS_INLINE_FUNCTION int center(int entry) const { return center_atom(entry); }
  KOKKOS_INLINE_FUNCTION int count(int entry) const { return n_neighbors(center_atom(entry)); }
  KOKKOS_INLINE_FUNCTION int neighbor(int entry, int k) const {
    return neighbors(center_atom(entry), k) & NEIGHMASK;
  }
};

}  // namespace dpa4::lammps
