// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/pair_dpa4_kokkos.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "atom.h"
#include "comm.h"
#include "compute.h"
#include "domain.h"
#include "error.h"
#include "force.h"
#include "neighbor.h"

using dpa4::TensorView;
using dpa4::lammps::KokkosDevice;
using dpa4::lammps::KokkosHost;
using dpa4::lammps::KokkosNeighborList;
using dpa4::lammps::stream_of;

namespace LAMMPS_NS {
namespace dpa4_kernels {

/// Numbers the entries of the list whose atoms the model sees.
template <class List, class Types>
struct MarkCenters {
  List list;
  Types type;
  const int* model_type_of;
  int* number;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    number[k] = model_type_of[type(list.center(static_cast<int>(k)))] >= 0 ? 1 : 0;
  }
};

template <class List>
struct WriteCenters {
  List list;
  const int* number;
  int rank;
  int* row_of_atom;
  int* atom_of_row;
  double* owner;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    const int row = number[k];
    if (number[k + 1] == row) return;
    const int i = list.center(static_cast<int>(k));
    row_of_atom[i] = row;
    atom_of_row[row] = i;
    owner[2 * i] = rank;
    owner[2 * i + 1] = row;
  }
};

/// Cells of the box, `n` along each axis.
template <class Positions>
struct Bins {
  Positions x;
  double low[3];
  double per_length[3];
  int n;
  KOKKOS_INLINE_FUNCTION int operator()(int atom) const {
    int bin = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const double at = (x(atom, axis) - low[axis]) * per_length[axis];
      const int k = at > 0 ? (at < n ? static_cast<int>(at) : n - 1) : 0;
      bin = bin * n + k;
    }
    return bin;
  }
};

/// Atoms by their bin, then by position.
template <class Positions>
struct BinOrder {
  Bins<Positions> bins;
  KOKKOS_INLINE_FUNCTION bool operator()(int a, int b) const {
    const int bin_a = bins(a), bin_b = bins(b);
    if (bin_a != bin_b) return bin_a < bin_b;
    return dpa4::graph::detail::PositionOrder<Positions>{bins.x}(a, b);
  }
};

/// The rows from the first on, after their atoms were put in order.
struct NumberRows {
  const int* atom_of_row;
  int first;
  int* row_of_atom;
  double* owner;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    const int row = first + static_cast<int>(k);
    const int i = atom_of_row[row];
    row_of_atom[i] = row;
    if (first == 0) owner[2 * i + 1] = row;
  }
};

/// Numbers the ghosts that other ranks own.
struct MarkGhosts {
  const double* owner;  // of the first ghost
  int rank;
  int* number;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t g) const {
    number[g] = owner[2 * g + 1] >= 0 && static_cast<int>(owner[2 * g]) != rank ? 1 : 0;
  }
};

struct WriteGhosts {
  const double* owner;  // of the first ghost
  const int* number;
  int rank, first, n_owned;
  int* row_of_atom;
  int* atom_of_row;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t g) const {
    const int row = static_cast<int>(owner[2 * g + 1]);
    if (row < 0) return;
    const int i = first + static_cast<int>(g);
    if (static_cast<int>(owner[2 * g]) == rank) {
      row_of_atom[i] = row;
    } else {
      row_of_atom[i] = n_owned + number[g];
      atom_of_row[n_owned + number[g]] = i;
    }
  }
};

/// Writes the rows' types; says in status[0] that one is NULL, in status[1] that one changed.
template <class Types>
struct ReadTypes {
  Types type;
  const int* model_type_of;
  const int* atom_of_row;
  int* type_of_row;
  int* status;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const int now = model_type_of[type(atom_of_row[row])];
    if (now == type_of_row[row]) return;
    if (now < 0) {
      status[0] = 1;
    } else {
      type_of_row[row] = now;
      status[1] = 1;
    }
  }
};

/// Energy, the six components of the virial, and the number of edges (-1: a type became NULL).
constexpr int kSums = 8;

/// Energy and the nine components of the virial.
constexpr int kTerms = 10;

/// Sums of energy and virial over ranges of rows, in their order. Forces are added where all edges
/// had room.
template <class Forces>
struct AddForcesAndSum {
  const int* atom_of_row;
  const double* force;  // (n_owned, 3)
  double unit;
  Forces f;
  const int* n_edges;
  int room;
  const double* atom_energy;  // (n_owned)
  const double* node_virial;  // (n_nodes, 9)
  int n_owned, n_nodes, range, n_parts;
  double* partial;  // (n_parts, kTerms)

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    if (k < n_owned && *n_edges <= room) {
      const int i = atom_of_row[k];
      for (int a = 0; a < 3; ++a) f(i, a) += unit * force[3 * k + a];
    }
    if (k < std::int64_t{kTerms} * n_parts) partial[k] = sum(static_cast<int>(k));
  }
  KOKKOS_INLINE_FUNCTION double sum(int k) const {
    const int first = k / kTerms * range, term = k % kTerms;
    const int end_of_all = term == 0 ? n_owned : n_nodes;
    const int end = first + range < end_of_all ? first + range : end_of_all;
    const double* const from = term == 0 ? atom_energy : node_virial + (term - 1);
    const std::int64_t step = term == 0 ? 1 : 9;
    double result = 0;
    for (int row = first; row < end; ++row) result += from[step * row];
    return result;
  }
};

struct TotalSums {
  const double* partial;  // (n_parts, kTerms)
  int n_parts;
  const int* status;
  const int* n_edges;
  double* out;  // (kSums)  in memory of the host
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    if (k == kSums - 1) {
      out[k] = status[0] != 0 ? -1 : *n_edges;
      return;
    }
    // The components of the partial sums: xx yy zz, and means of xy yx, xz zx, yz zy.
    constexpr int kFirst[kSums - 1] = {0, 1, 5, 9, 2, 3, 6};
    constexpr int kSecond[kSums - 1] = {0, 1, 5, 9, 4, 7, 8};
    double sum = 0;
    for (int part = 0; part < n_parts; ++part) {
      const double* const terms = partial + kTerms * part;
      sum += 0.5 * (terms[kFirst[k]] + terms[kSecond[k]]);
    }
    out[k] = sum;
  }
};

template <class Forces>
struct AddForces {
  const int* atom_of_row;
  const double* force;  // (n_owned, 3)
  double unit;
  Forces f;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const int i = atom_of_row[row];
    for (int a = 0; a < 3; ++a) f(i, a) += unit * force[3 * row + a];
  }
};

template <class Energies>
struct AddAtomEnergies {
  const int* atom_of_row;
  const double* atom_energy;  // (n_owned)
  double unit;
  Energies eatom;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    eatom(atom_of_row[row]) += unit * atom_energy[row];
  }
};

/// kComponents of LAMMPS' virial: 6, the symmetric part of the model's, or 9.
template <class Virials, int kComponents>
struct AddAtomVirials {
  const int* atom_of_row;
  const double* atom_virial;  // (n_owned, 9)
  double unit;
  Virials virial;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const double* w = atom_virial + 9 * row;
    const int i = atom_of_row[row];
    for (int k = 0; k < kComponents; ++k) {
      const double value = w[centroid_component(k)];
      const double other = w[transposed_component(k)];
      virial(i, k) += unit * (kComponents == 6 ? 0.5 * (value + other) : value);
    }
  }
};

}  // namespace dpa4_kernels

template <class DeviceType>
PairDPA4Kokkos<DeviceType>::PairDPA4Kokkos(LAMMPS* lmp, dpa4::lammps::ModelSource source)
    : PairDPA4(lmp, std::move(source)), halo_(lmp, this) {
  if (lmp->kokkos == nullptr || lmp->kokkos->kokkos_exists == 0) {
    error->all(FLERR, "pair_style dpa4/kk needs Kokkos switched on: start LAMMPS with -k on");
  }
  kokkosable = 1;
  reverse_comm_device = 1;
  atomKK = static_cast<AtomKokkos*>(atom);
  execution_space = ExecutionSpaceFromDevice<DeviceType>::space;
  datamask_read = EMPTY_MASK;  // compute() asks for what it needs
  datamask_modify = EMPTY_MASK;
}

template <class DeviceType>
PairDPA4Kokkos<DeviceType>::~PairDPA4Kokkos() {
  if (copymode) return;
  memoryKK->destroy_kokkos(k_eatom_, eatom);
  memoryKK->destroy_kokkos(k_vatom_, vatom);
  memoryKK->destroy_kokkos(k_cvatom_, cvatom);
}

// ---- commands
// --------------------------------------------------------------------------------------

/// The model runs where Kokkos has the atoms, on the device that Kokkos gave this rank.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::choose_place(dpa4::engine::EngineOptions& options) {
  PairDPA4::choose_place(options);
  const auto here = Space::kHostAccessible ? dpa4::model::Device::kCpu : dpa4::model::Device::kCuda;
  if (!options.auto_device && options.evaluator.device != here) {
    error->all(
        FLERR, Error::COMMAND,
        Space::kHostAccessible
            ? "pair_style dpa4/kk: 'device cuda' needs a LAMMPS whose Kokkos has the GPU, and "
              "not dpa4/kk/host; here the model runs on the CPU"
            : "pair_style dpa4/kk: Kokkos has the atoms on the GPU; use dpa4/kk/host for "
              "'device cpu'");
  }
  options.auto_device = false;
  options.evaluator.device = here;
#ifdef KOKKOS_ENABLE_CUDA
  if (!Space::kHostAccessible) options.evaluator.device_index = Kokkos::Cuda().cuda_device();
#endif
  options.evaluator.stream = stream_of(dpa4::lammps::ExecutionSpaceOf<DeviceType>());
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::coeff(int narg, char** arg) {
  edges_.reset();
  PairDPA4::coeff(narg, arg);
  edges_.emplace(space_, model_.config.rcut, model_.config.n_types(), model_.config.exclude_types);
  const std::size_t n = model_type_of_.size();
  space_.copy_in(model_type_of_here_.reserve(static_cast<std::int64_t>(n)), model_type_of_.data(),
                 n * sizeof(int));
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::init_style() {
  PairDPA4::init_style();
  auto* request = neighbor->find_request(this);
  request->set_kokkos_host(std::is_same_v<DeviceType, KokkosHost> &&
                           !std::is_same_v<DeviceType, KokkosDevice>);
  request->set_kokkos_device(std::is_same_v<DeviceType, KokkosDevice>);
}

// ---- a step
// ----------------------------------------------------------------------------------------

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::compute(int eflag, int vflag) {
  ev_init(eflag, vflag, 0);
  reserve_atom_arrays();
  guarded([&] {
    atomKK->sync(execution_space, X_MASK | F_MASK | TYPE_MASK);
    const Atoms atoms(*atomKK);
    // As in PairDPA4::compute.
    if (neighbor->ago == 0 || rows_built_at_ != neighbor->ncalls) {
      rebuild_rows(atoms);
    } else {
      refresh_types(atoms);
    }
    for (const Compute* compute : {fparam_compute_, aparam_compute_}) {
      if (compute != nullptr) atomKK->sync(compute->execution_space, compute->datamask_read);
    }
    read_computes();
    evaluate(atoms);
  });
}

/// As PairDPA4::rebuild_rows, with scans in place of counting.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::rebuild_rows(const Atoms& atoms) {
  const int n_local = atom->nlocal;
  const int n_ghosts = atom->nghost;
  const int n_atoms = n_local + n_ghosts;
  const KokkosNeighborList<DeviceType> neighbors(*list);
  const int n_entries = neighbors.size();
  const int* const model_type_of = model_type_of_here_.data();
  int* const number = number_.reserve(std::int64_t{1} + std::max(n_entries, n_ghosts));
  int* const row_of_atom = row_of_atom_here_.reserve(n_atoms);
  int* const atom_of_row = atom_of_row_here_.reserve(std::int64_t{n_entries} + n_ghosts);
  double* const owner = owner_.reserve(std::int64_t{2} * n_atoms);

  dpa4::base::fill(space_, "dpa4_rows_clear", n_atoms, row_of_atom, -1);
  dpa4::base::fill(space_, "dpa4_owners_clear", std::int64_t{2} * n_atoms, owner, -1.0);
  dpa4::base::parallel_for(
      space_, "dpa4_mark_centers", n_entries,
      dpa4_kernels::MarkCenters<KokkosNeighborList<DeviceType>, decltype(atoms.type)>{
          neighbors, atoms.type, model_type_of, number});
  dpa4::base::exclusive_scan(space_, "dpa4_number_centers", n_entries, number);
  n_owned_ = dpa4::base::read_element(space_, number + n_entries);
  dpa4::base::parallel_for(space_, "dpa4_write_centers", n_entries,
                           dpa4_kernels::WriteCenters<KokkosNeighborList<DeviceType>>{
                               neighbors, number, comm->me, row_of_atom, atom_of_row, owner});

  order_rows(atoms, 0, n_owned_);

  halo_.exchange_owners(owner, n_local, n_atoms);
  const double* const ghost_owner = owner + std::int64_t{2} * n_local;
  dpa4::base::parallel_for(space_, "dpa4_mark_ghosts", n_ghosts,
                           dpa4_kernels::MarkGhosts{ghost_owner, comm->me, number});
  dpa4::base::exclusive_scan(space_, "dpa4_number_ghosts", n_ghosts, number);
  n_nodes_ = n_owned_ + dpa4::base::read_element(space_, number + n_ghosts);
  dpa4::base::parallel_for(space_, "dpa4_write_ghosts", n_ghosts,
                           dpa4_kernels::WriteGhosts{ghost_owner, number, comm->me, n_local,
                                                     n_owned_, row_of_atom, atom_of_row});
  order_rows(atoms, n_owned_, n_nodes_ - n_owned_);
  halo_.set_rows({row_of_atom, n_atoms}, n_owned_, n_nodes_);

  int* const type_of_row = type_of_row_here_.reserve(n_nodes_);
  dpa4::base::fill(space_, "dpa4_types_clear", n_nodes_, type_of_row, -1);
  dpa4::base::fill(space_, "dpa4_type_status_clear", 2, type_status_.reserve(2), 0);
  refresh_types(atoms);
  rebuild_edges(atoms);
  aparam_of_row_.clear();
  for (int row = 0; row < n_owned_; ++row) {
    aparam_of_row_.insert(aparam_of_row_.end(), aparam_.begin(), aparam_.end());
  }
  if (aparam_compute_ != nullptr || drops_special_neighbors()) bring_rows_to_host();
  if (drops_special_neighbors()) {
    atomKK->sync(Host, X_MASK | TYPE_MASK | TAG_MASK | SPECIAL_MASK);
    // LAMMPS may have lost its pointer to the copy of a map that is on the device.
    atomKK->k_sametag.sync_host();
    atom->sametag = atomKK->k_sametag.view_host().data();
    check_special_neighbors();
  }
  rows_built_at_ = neighbor->ncalls;
}

/// Puts rows in the order of bins of space, and of positions within a bin: on a GPU LAMMPS sorts
/// atoms and numbers ghosts in the order in which threads come by, and sums must not depend on
/// that.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::order_rows(const Atoms& atoms, int first, int count) {
  constexpr int kAtomsOfABin = 8, kMostBins = 128;
  dpa4_kernels::Bins<decltype(atoms.x)> bins{atoms.x, {}, {}, 1};
  const double side = std::cbrt(static_cast<double>(atom->natoms) / kAtomsOfABin);
  bins.n = std::clamp(static_cast<int>(side), 1, kMostBins);
  const double* const low = domain->triclinic != 0 ? domain->boxlo_bound : domain->boxlo;
  const double* const high = domain->triclinic != 0 ? domain->boxhi_bound : domain->boxhi;
  for (int axis = 0; axis < 3; ++axis) {
    bins.low[axis] = low[axis];
    bins.per_length[axis] = bins.n / std::max(high[axis] - low[axis], 1e-300);
  }
  int* const atom_of_row = atom_of_row_here_.data();
  dpa4::base::merge_sort(space_, "dpa4_sort_rows", count, atom_of_row + first,
                         order_scratch_.reserve(count),
                         dpa4_kernels::BinOrder<decltype(atoms.x)>{bins});
  dpa4::base::parallel_for(
      space_, "dpa4_number_rows", count,
      dpa4_kernels::NumberRows{atom_of_row, first, row_of_atom_here_.data(), owner_.data()});
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::bring_rows_to_host() {
  atom_of_row_.resize(n_nodes_);
  space_.copy_out(atom_of_row_.data(), atom_of_row_here_.data(),
                  static_cast<std::size_t>(n_nodes_) * sizeof(int));
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::rebuild_edges(const Atoms& atoms) {
  dpa4::graph::NodeMap nodes;
  nodes.n_owned = n_owned_;
  nodes.n_nodes = n_nodes_;
  nodes.row_of_atom = {row_of_atom_here_.data(), atom->nlocal + atom->nghost};
  nodes.type_of_row = {type_of_row_here_.data(), n_nodes_};
  // Kokkos' threads fill the bins behind a neighbor list, and on a GPU number the ghosts, in the
  // order in which they come by.
  edges_->rebuild(KokkosNeighborList<DeviceType>(*list), nodes, atoms.x);
}

/// Atoms may change their type between builds of the neighbor list (fix atom/swap and its like).
/// Whether one became NULL is told with the sums; that one changed matters only where pairs are
/// excluded.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::refresh_types(const Atoms& atoms) {
  int* const status = type_status_.data();
  dpa4::base::parallel_for(space_, "dpa4_read_types", n_nodes_,
                           dpa4_kernels::ReadTypes<decltype(atoms.type)>{
                               atoms.type, model_type_of_here_.data(), atom_of_row_here_.data(),
                               type_of_row_here_.data(), status});
  if (model_.config.exclude_types.empty()) return;
  const bool rebuilding = rows_built_at_ != neighbor->ncalls || neighbor->ago == 0;
  const bool changed = !rebuilding && dpa4::base::read_element(space_, status + 1) != 0;
  if (rebuilding || changed) {
    dpa4::base::fill(space_, "dpa4_type_change_clear", 1, status + 1, 0);
  }
  if (changed) rebuild_edges(atoms);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::evaluate(const Atoms& atoms) {
  dpa4::model::Structure structure;
  structure.type = {type_of_row_here_.data(), n_nodes_};
  structure.on_device = model_.evaluator->works_on_device();
  if (!aparam_.empty()) structure.aparam = {aparam_of_row_.data(), n_owned_, aparam_.size()};
  if (structure.on_device) {
    evaluate_here(atoms, structure);
  } else {
    evaluate_elsewhere(atoms, structure);
  }
  atomKK->modified(execution_space, F_MASK);
}

/// The model takes and leaves its arrays where Kokkos has the atoms. A rank that is alone does not
/// wait for the number of edges; in the few steps that have many more edges than the one before it
/// starts again. (Ranks would have to agree on that.)
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::evaluate_here(const Atoms& atoms,
                                               dpa4::model::Structure& structure) {
  const bool padded = comm->nprocs == 1 && model_.evaluator->takes_padding();
  int n_edges = 0;
  do {
    structure.edges = padded ? edges_->update_padded(atoms.x) : edges_->update(atoms.x);
    call_evaluator(structure);
    n_edges = add_forces_and_sum(atoms, structure.edges.n_edges());
    if (n_edges < 0) fail_null_type();
  } while (padded && !edges_->fits(n_edges));
  const double* const sums = sums_.data();
  add_sums(sums[0], {sums[1], sums[2], sums[3], sums[4], sums[5], sums[6]});
  const dpa4::model::DeviceResults& device = result_.device;
  add_atom_results({device.atom_energy.data(), device.force.data(), device.node_virial.data()});
}

/// The model works on the host.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::evaluate_elsewhere(const Atoms& atoms,
                                                    dpa4::model::Structure& structure) {
  structure.edges = edges_->update(atoms.x);
  if (!Space::kHostAccessible) {
    structure.edges = to_host(structure.edges);
    structure.type = {host_.type.data(), n_nodes_};
  }
  call_evaluator(structure);
  const auto& w = result_.virial;
  add_sums(result_.energy,
           {w[0], w[4], w[8], 0.5 * (w[1] + w[3]), 0.5 * (w[2] + w[6]), 0.5 * (w[5] + w[7])});
  if (dpa4::base::read_element(space_, type_status_.data()) != 0) fail_null_type();
  const Results results = results_here();
  dpa4::base::parallel_for(space_, "dpa4_add_forces", n_owned_,
                           dpa4_kernels::AddForces<decltype(atoms.f)>{
                               atom_of_row_here_.data(), results.force, energy_unit_, atoms.f});
  add_atom_results(results);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::call_evaluator(const dpa4::model::Structure& structure) {
  // Without a stream of Kokkos' the evaluator has one of its own.
  if (stream_of(dpa4::lammps::ExecutionSpaceOf<DeviceType>()) == nullptr) space_.fence();
  dpa4::model::Request request;
  request.atom_virial = vflag_atom != 0 || cvflag_atom != 0;
  model_.evaluator->evaluate(structure, conditions_, halo_, request, result_);
}

template <class DeviceType>
dpa4::graph::EdgeList PairDPA4Kokkos<DeviceType>::to_host(const dpa4::graph::EdgeList& edges) {
  const auto bring = [this](auto& copy, const auto& view) {
    copy.resize(static_cast<std::size_t>(view.size()));
    space_.copy_out(copy.data(), view.data(), copy.size() * sizeof(copy[0]));
  };
  bring(host_.type, TensorView<const int, 1>(type_of_row_here_.data(), n_nodes_));
  bring(host_.src, edges.src);
  bring(host_.dst, edges.dst);
  bring(host_.vec, edges.vec);
  bring(host_.dst_begin, edges.dst_begin);
  bring(host_.by_src, edges.by_src);
  bring(host_.src_begin, edges.src_begin);
  dpa4::graph::EdgeList copy = edges;
  copy.src = {host_.src.data(), host_.src.size()};
  copy.dst = {host_.dst.data(), host_.dst.size()};
  copy.vec = {host_.vec.data(), edges.n_edges(), 3};
  copy.dst_begin = {host_.dst_begin.data(), host_.dst_begin.size()};
  copy.by_src = {host_.by_src.data(), host_.by_src.size()};
  copy.src_begin = {host_.src_begin.data(), host_.src_begin.size()};
  return copy;
}

/// Results that an evaluator left on the host.
template <class DeviceType>
typename PairDPA4Kokkos<DeviceType>::Results PairDPA4Kokkos<DeviceType>::results_here() {
  if (Space::kHostAccessible) {
    return {result_.atom_energy.data(), result_.force.data(), result_.atom_virial.data()};
  }
  const auto bring = [this](Buffer<double>& copy, const std::vector<double>& values) {
    double* const to = copy.reserve(static_cast<std::int64_t>(values.size()));
    space_.copy_in(to, values.data(), values.size() * sizeof(double));
    return to;
  };
  return {bring(energy_here_, result_.atom_energy), bring(force_here_, result_.force),
          bring(virial_here_, result_.atom_virial)};
}

/// Adds the forces, if all edges had room in the lists, and leaves energy and virial in `sums_`.
/// Parts of equal size, so that the sums do not depend on how Kokkos divides the work.
///
/// @param room  size of the lists of edges
/// @return      number of edges, or -1 if an atom's type became NULL
template <class DeviceType>
int PairDPA4Kokkos<DeviceType>::add_forces_and_sum(const Atoms& atoms, int room) {
  using dpa4_kernels::kSums;
  using dpa4_kernels::kTerms;
  const dpa4::model::DeviceResults& results = result_.device;
  const int range = 1 + static_cast<int>(std::sqrt(static_cast<double>(n_nodes_)));
  const int n_parts = (n_nodes_ + range - 1) / range;
  double* const partial = partial_.reserve(std::int64_t{kTerms} * n_parts);
  double* const sums = sums_.reserve(kSums);
  dpa4::base::parallel_for(
      space_, "dpa4_add_forces", std::max(n_owned_, kTerms * n_parts),
      dpa4_kernels::AddForcesAndSum<decltype(atoms.f)>{
          atom_of_row_here_.data(), results.force.data(), energy_unit_, atoms.f, edges_->n_edges(),
          room, results.atom_energy.data(), results.node_virial.data(), n_owned_, n_nodes_, range,
          n_parts, partial});
  dpa4::base::parallel_for(
      space_, "dpa4_total_sums", kSums,
      dpa4_kernels::TotalSums{partial, n_parts, type_status_.data(), edges_->n_edges(), sums});
  space_.fence();
  return static_cast<int>(sums[kSums - 1]);
}

/// Arrays for the values of atoms, zeroed; LAMMPS' own allocation is switched off in ev_init.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::reserve_atom_arrays() {
  const auto reserve = [](auto& array, auto*& legacy, int n, const char* name, Memory& memory) {
    auto& kokkos_memory = static_cast<MemoryKokkos&>(memory);
    if (legacy == nullptr || static_cast<int>(array.view_host().extent(0)) < n) {
      kokkos_memory.destroy_kokkos(array, legacy);
      kokkos_memory.create_kokkos(array, legacy, n, name);
    }
    Kokkos::deep_copy(array.template view<DeviceType>(), 0);
    array.template modify<DeviceType>();
  };
  if (eflag_atom) reserve(k_eatom_, eatom, maxeatom, "pair:eatom", *memory);
  if (vflag_atom) reserve(k_vatom_, vatom, maxvatom, "pair:vatom", *memory);
  if (cvflag_atom) reserve(k_cvatom_, cvatom, maxcvatom, "pair:cvatom", *memory);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::add_atom_results(const Results& results) {
  const int* const atom_of_row = atom_of_row_here_.data();
  if (eflag_atom) {
    const auto values = k_eatom_.template view<DeviceType>();
    dpa4::base::parallel_for(space_, "dpa4_add_atom_energies", n_owned_,
                             dpa4_kernels::AddAtomEnergies<std::decay_t<decltype(values)>>{
                                 atom_of_row, results.atom_energy, energy_unit_, values});
    k_eatom_.sync_host();
  }
  if (vflag_atom) {
    const auto values = k_vatom_.template view<DeviceType>();
    dpa4::base::parallel_for(space_, "dpa4_add_atom_virials", n_owned_,
                             dpa4_kernels::AddAtomVirials<std::decay_t<decltype(values)>, 6>{
                                 atom_of_row, results.atom_virial, energy_unit_, values});
    k_vatom_.sync_host();
  }
  if (cvflag_atom) {
    const auto values = k_cvatom_.template view<DeviceType>();
    dpa4::base::parallel_for(space_, "dpa4_add_centroid_virials", n_owned_,
                             dpa4_kernels::AddAtomVirials<std::decay_t<decltype(values)>, 9>{
                                 atom_of_row, results.atom_virial, energy_unit_, values});
    k_cvatom_.sync_host();
  }
}

// ---- communication
// ---------------------------------------------------------------------------------

template <class DeviceType>
int PairDPA4Kokkos<DeviceType>::pack_forward_comm(int n, int* list, double* buffer, int, int*) {
  return halo_.pack_forward(n, list, buffer);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::unpack_forward_comm(int n, int first, double* buffer) {
  halo_.unpack_forward(n, first, buffer);
}

template <class DeviceType>
int PairDPA4Kokkos<DeviceType>::pack_reverse_comm(int n, int first, double* buffer) {
  return halo_.pack_reverse(n, first, buffer);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::unpack_reverse_comm(int n, int* list, double* buffer) {
  halo_.unpack_reverse(n, list, buffer);
}

template <class DeviceType>
int PairDPA4Kokkos<DeviceType>::pack_forward_comm_kokkos(int n, dpa4::lammps::CommList list,
                                                         dpa4::lammps::CommBuffer& buffer, int,
                                                         int*) {
  return halo_.pack_forward_kokkos(n, list, buffer);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::unpack_forward_comm_kokkos(int n, int first,
                                                            dpa4::lammps::CommBuffer& buffer) {
  halo_.unpack_forward_kokkos(n, first, buffer);
}

template <class DeviceType>
int PairDPA4Kokkos<DeviceType>::pack_reverse_comm_kokkos(int n, int first,
                                                         dpa4::lammps::CommBuffer& buffer) {
  return halo_.pack_reverse_kokkos(n, first, buffer);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::unpack_reverse_comm_kokkos(int n, dpa4::lammps::CommList list,
                                                            dpa4::lammps::CommBuffer& buffer) {
  halo_.unpack_reverse_kokkos(n, list, buffer);
}

template <class DeviceType>
double PairDPA4Kokkos<DeviceType>::memory_usage() {
  double bytes = Pair::memory_usage();
  const std::int64_t rows = number_.bytes() + owner_.bytes() + row_of_atom_here_.bytes() +
                            atom_of_row_here_.bytes() + type_of_row_here_.bytes();
  bytes += static_cast<double>(rows + partial_.bytes() + energy_here_.bytes() +
                               force_here_.bytes() + virial_here_.bytes() + halo_.bytes());
  if (edges_ && model_.evaluator) {
    bytes += static_cast<double>(
        edges_->bytes() + model_.evaluator->memory_plan().total(n_nodes_, edges_->n_candidates()));
  }
  return bytes;
}

template class PairDPA4Kokkos<KokkosDevice>;
#ifdef LMP_KOKKOS_GPU
template class PairDPA4Kokkos<KokkosHost>;
#endif

}  // namespace LAMMPS_NS
