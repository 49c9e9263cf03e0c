// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pair.h"

#include "lammps_plugin/lammps_halo.h"
#include "lammps_plugin/model_source.h"
#include "lammps_plugin/pair_settings.h"
#include "src/base/host_device.h"
#include "src/base/parallel.h"
#include "src/graph/edge_builder.h"

namespace LAMMPS_NS {

/// The model's w[3 a + b] = -g_a v_b has the force's axis a first. LAMMPS' six components are the
/// symmetric part, xx yy zz xy xz yz; its nine name the position's axis first, xx yy zz xy xz yz yx
/// zx zy. Which of the model's components is LAMMPS' component k, and the transposed one.
DPA4_HD constexpr int centroid_component(int k) {
  constexpr int kComponent[9] = {0, 4, 8, 3, 6, 7, 1, 2, 5};
  return kComponent[k];
}
DPA4_HD constexpr int transposed_component(int k) {
  constexpr int kComponent[9] = {0, 4, 8, 1, 2, 5, 3, 6, 7};
  return kComponent[k];
}

/// `pair_style dpa4`: hands LAMMPS' positions and neighbor list to the model and its results back.
/// Everything here is translation: units, rows of atoms, who owns what.
class PairDPA4 : public Pair {
 public:
  PairDPA4(LAMMPS* lmp, dpa4::lammps::ModelSource source);
  ~PairDPA4() override;

  void settings(int narg, char** arg) override;
  void coeff(int narg, char** arg) override;
  void init_style() override;
  double init_one(int i, int j) override;
  void compute(int eflag, int vflag) override;

  int pack_forward_comm(int n, int* list, double* buffer, int pbc_flag, int* pbc) override;
  void unpack_forward_comm(int n, int first, double* buffer) override;
  int pack_reverse_comm(int n, int first, double* buffer) override;
  void unpack_reverse_comm(int n, int* list, double* buffer) override;

  void* extract(const char* name, int& dimension) override;
  double memory_usage() override;

 protected:
  /// Where the model runs and who shares that place: the devices of the machine go round its ranks.
  virtual void choose_place(dpa4::engine::EngineOptions& options);
  /// Runs `work`; what it throws stops this rank with one sentence.
  void guarded(const std::function<void()>& work);
  void read_computes();
  /// Whether special_bonds takes neighbors out of the lists that the model may need.
  bool drops_special_neighbors() const;
  void check_special_neighbors();
  [[noreturn]] void fail_null_type();
  void add_sums(double energy, const std::array<double, 6>& symmetric_virial);

  dpa4::lammps::ModelSource source_;
  dpa4::lammps::PairSettings settings_;
  dpa4::engine::LoadedModel model_;  // no evaluator before pair_coeff
  dpa4::model::Conditions conditions_;
  std::vector<double> aparam_;      // (numb_aparam), the same for every atom
  std::vector<int> model_type_of_;  // by LAMMPS type, from 1; -1: NULL
  class Compute* fparam_compute_ = nullptr;
  class Compute* aparam_compute_ = nullptr;
  double energy_unit_ = 1;  // LAMMPS' units of energy in an eV

  bigint rows_built_at_ = -1;          // which build of the neighbor list the rows belong to
  std::vector<int> atom_of_row_;       // (n_nodes)
  std::vector<double> aparam_of_row_;  // (n_owned, numb_aparam)
  int n_owned_ = 0;
  dpa4::model::Evaluation result_;

 private:
  void load_model(const std::string& path, char** file_argument);
  void forget_model();
  void set_type_tables();
  [[noreturn]] void fail_argument(char** arg, const dpa4::lammps::ArgumentError& failure);
  template <class Work>
  void on_all_ranks(int position, const Work& work);

  void rebuild_rows();
  void rebuild_edges();
  void refresh_types();
  void find_computes();
  void find_dropped_neighbor() const;
  void add_results();
  void add_atom_virial();

  int model_type(int atom) const;

  dpa4::lammps::LammpsHalo halo_;
  std::optional<dpa4::graph::EdgeBuilder<dpa4::base::Threads>> edges_;
  std::vector<dpa4::lammps::RowOwner> row_owner_;  // (atoms, ghosts included)
  std::vector<int> row_of_atom_;                   // (atoms, ghosts included)
  std::vector<int> type_of_row_;                   // (n_nodes)
};

}  // namespace LAMMPS_NS
