// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "lammps_plugin/kokkos_lammps.h"
#include "lammps_plugin/lammps_halo_kokkos.h"
#include "lammps_plugin/pair_dpa4.h"

namespace LAMMPS_NS {

/// `pair_style dpa4/kk`: PairDPA4 with everything where Kokkos has it. Positions, types and the
/// neighbor list are read in place, edges are built there by the functors of src/graph, the model
/// takes and leaves its arrays there, and forces are added in place. `dpa4/kk/host` is the same on
/// the host.
///
/// On a GPU all work goes to Kokkos' stream, the model's too, and nothing waits for it but the
/// reads of the host: in a step the sums (energy, virial), with them the number of edges, which is
/// guessed before, and, where a step has several cohorts, the ends of these; on several ranks the
/// number of edges before the model begins; for models that exclude pairs of types whether an atom
/// changed its type; when the neighbor list is rebuilt, three counts more.
/// None is larger than 64 bytes (tests/support/kokkos_transfers.cpp counts those that are copied;
/// the sums are written to memory of the host).
template <class DeviceType>
class PairDPA4Kokkos final : public PairDPA4, public KokkosBase {
 public:
  PairDPA4Kokkos(LAMMPS* lmp, dpa4::lammps::ModelSource source);
  ~PairDPA4Kokkos() override;

  void coeff(int narg, char** arg) override;
  void init_style() override;
  void compute(int eflag, int vflag) override;

  int pack_forward_comm(int n, int* list, double* buffer, int pbc_flag, int* pbc) override;
  void unpack_forward_comm(int n, int first, double* buffer) override;
  int pack_reverse_comm(int n, int first, double* buffer) override;
  void unpack_reverse_comm(int n, int* list, double* buffer) override;
  int pack_forward_comm_kokkos(int n, dpa4::lammps::CommList list, dpa4::lammps::CommBuffer& buffer,
                               int pbc_flag, int* pbc) override;
  void unpack_forward_comm_kokkos(int n, int first, dpa4::lammps::CommBuffer& buffer) override;
  int pack_reverse_comm_kokkos(int n, int first, dpa4::lammps::CommBuffer& buffer) override;
  void unpack_reverse_comm_kokkos(int n, dpa4::lammps::CommList list,
                                  dpa4::lammps::CommBuffer& buffer) override;

  double memory_usage() override;

 protected:
  void choose_place(dpa4::engine::EngineOptions& options) override;

 private:
  using Space = dpa4::base::KokkosSpace<dpa4::lammps::ExecutionSpaceOf<DeviceType>>;
  using Atoms = dpa4::lammps::AtomViews<DeviceType>;
  template <class T>
  using Buffer = dpa4::base::Buffer<T, Space>;

  using HostMemory = dpa4::base::KokkosHostMemory<dpa4::lammps::ExecutionSpaceOf<DeviceType>>;

  /// Results of atoms, in memory of the space.
  struct Results {
    const double* atom_energy;  // (n_owned)
    const double* force;        // (n_owned, 3)
    const double* atom_virial;  // (n_owned, 9)
  };

  /// Edges and types in memory of the host, for an evaluator that works there.
  struct HostStructure {
    std::vector<int> type, src, dst, dst_begin, by_src, src_begin;
    std::vector<double> vec;
  };

  void rebuild_rows(const Atoms& atoms);
  void rebuild_edges(const Atoms& atoms);
  void order_rows(const Atoms& atoms, int first, int count);
  void bring_rows_to_host();
  void refresh_types(const Atoms& atoms);
  void evaluate(const Atoms& atoms);
  void evaluate_here(const Atoms& atoms, dpa4::model::Structure& structure);
  void evaluate_elsewhere(const Atoms& atoms, dpa4::model::Structure& structure);
  void call_evaluator(const dpa4::model::Structure& structure);
  dpa4::graph::EdgeList to_host(const dpa4::graph::EdgeList& edges);
  Results results_here();
  int add_forces_and_sum(const Atoms& atoms, int room);
  void reserve_atom_arrays();
  void add_atom_results(const Results& results);

  Space space_;
  dpa4::lammps::LammpsHaloKokkos<DeviceType> halo_;
  std::optional<dpa4::graph::EdgeBuilder<Space>> edges_;
  int n_nodes_ = 0;
  Buffer<int> model_type_of_here_;               // by LAMMPS type
  Buffer<int> number_;                           // scratch of the scans
  Buffer<double> owner_;                         // (atoms, 2)  rank and row; -1: none
  Buffer<int> row_of_atom_here_;                 // (atoms)
  Buffer<int> atom_of_row_here_;                 // (n_nodes)
  Buffer<int> type_of_row_here_;                 // (n_nodes)
  Buffer<int> order_scratch_;                    // (rows)
  Buffer<int> type_status_;                      // (2)  a type became NULL; a type changed
  Buffer<double> partial_;                       // sums of energy and virial over some rows
  dpa4::base::Buffer<double, HostMemory> sums_;  // of all rows
  Buffer<double> energy_here_, force_here_, virial_here_;  // copies of results from the host
  HostStructure host_;
  dpa4::lammps::AtomEnergies k_eatom_;
  dpa4::lammps::AtomVirials k_vatom_;
  dpa4::lammps::CentroidVirials k_cvatom_;
};

}  // namespace LAMMPS_NS
