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
  const int* atom_of_row;
  double low[3];
  double per_length[3];
  int n;
  KOKKOS_INLINE_FUNCTION int operator()(std::int64_t row) const {
    int bin = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const double at = (x(atom_of_row[row], axis) - low[axis]) * per_length[axis];
      const int k = at > 0 ? (at < n ? static_cast<int>(at) : n - 1) : 0;
      bin = bin * n + k;
    }
    return bin;
  }
};

template <class Positions>
struct WriteBins {
  Bins<Positions> bins;
  int* bin;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const { bin[row] = bins(row); }
};

struct RowsToAtoms {
  const int* atom_of_row;
  int* member;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    member[k] = atom_of_row[member[k]];
  }
};

template <class Positions>
struct SortBins {
  dpa4::graph::detail::PositionOrder<Positions> order;
  const int* begin;
  int* member;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t bin) const {
    dpa4::base::detail::sort_in_place(member + begin[bin], begin[bin + 1] - begin[bin], order);
  }
};

struct WriteRows {
  const int* atom;
  int* atom_of_row;
  int* row_of_atom;
  double* owner;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    const int i = atom[k];
    const int row = static_cast<int>(k);
    atom_of_row[row] = i;
    row_of_atom[i] = row;
    owner[2 * i + 1] = row;
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

/// Energy, the six components of the virial, and status[0].
constexpr int kSums = 8;

/// Sums of energy and virial over a range of rows, in their order.
struct PartialSums {
  const double* atom_energy;  // (n_owned)
  const double* node_virial;  // (n_nodes, 9)
  int n_owned, n_nodes, range;
  double* partial;  // (ranges, 7)
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t part) const {
    double energy = 0, w[9] = {};
    const int first = static_cast<int>(part) * range;
    for (int row = first; row < n_nodes && row < first + range; ++row) {
      if (row < n_owned) energy += atom_energy[row];
      for (int k = 0; k < 9; ++k) w[k] += node_virial[static_cast<std::int64_t>(9) * row + k];
    }
    double* out = partial + 7 * part;
    out[0] = energy;
    for (int k = 0; k < 3; ++k) out[1 + k] = w[4 * k];
    out[4] = 0.5 * (w[1] + w[3]);
    out[5] = 0.5 * (w[2] + w[6]);
    out[6] = 0.5 * (w[5] + w[7]);
  }
};

struct TotalSums {
  const double* partial;
  int n_parts;
  const int* status;
  double* out;  // (kSums)
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t k) const {
    double sum = k == 7 ? status[0] : 0;
    for (int part = 0; k < 7 && part < n_parts; ++part) sum += partial[7 * part + k];
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
    if (aparam_compute_ != nullptr) {
      atomKK->sync(aparam_compute_->execution_space, aparam_compute_->datamask_read);
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

  order_rows(atoms, owner);

  halo_.exchange_owners(owner, n_local, n_atoms);
  const double* const ghost_owner = owner + std::int64_t{2} * n_local;
  dpa4::base::parallel_for(space_, "dpa4_mark_ghosts", n_ghosts,
                           dpa4_kernels::MarkGhosts{ghost_owner, comm->me, number});
  dpa4::base::exclusive_scan(space_, "dpa4_number_ghosts", n_ghosts, number);
  n_nodes_ = n_owned_ + dpa4::base::read_element(space_, number + n_ghosts);
  dpa4::base::parallel_for(space_, "dpa4_write_ghosts", n_ghosts,
                           dpa4_kernels::WriteGhosts{ghost_owner, number, comm->me, n_local,
                                                     n_owned_, row_of_atom, atom_of_row});
  halo_.set_rows({row_of_atom, n_atoms}, n_owned_, n_nodes_);

  int* const type_of_row = type_of_row_here_.reserve(n_nodes_);
  dpa4::base::fill(space_, "dpa4_types_clear", n_nodes_, type_of_row, -1);
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

/// Puts own rows in the order of bins of space, and of positions within a bin: on a GPU LAMMPS
/// sorts atoms in the order in which threads come by, and sums must not depend on that.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::order_rows(const Atoms& atoms, double* owner) {
  constexpr int kAtomsOfABin = 8, kMostBins = 128;
  dpa4_kernels::Bins<decltype(atoms.x)> bins{atoms.x, atom_of_row_here_.data(), {}, {}, 1};
  const double side = std::cbrt(static_cast<double>(atom->natoms) / kAtomsOfABin);
  bins.n = std::clamp(static_cast<int>(side), 1, kMostBins);
  const double* const low = domain->triclinic != 0 ? domain->boxlo_bound : domain->boxlo;
  const double* const high = domain->triclinic != 0 ? domain->boxhi_bound : domain->boxhi;
  for (int axis = 0; axis < 3; ++axis) {
    bins.low[axis] = low[axis];
    bins.per_length[axis] = bins.n / std::max(high[axis] - low[axis], 1e-300);
  }
  const int n_bins = bins.n * bins.n * bins.n;
  int* const bin = number_.reserve(n_owned_);
  int* const begin = bin_begin_.reserve(std::int64_t{n_bins} + 1);
  int* const member = member_.reserve(n_owned_);
  dpa4::base::parallel_for(space_, "dpa4_bins", n_owned_,
                           dpa4_kernels::WriteBins<decltype(atoms.x)>{bins, bin});
  dpa4::base::group_by_key(space_, "dpa4_rows_by_bin", n_owned_, bin, n_bins, begin, member,
                           bin_cursor_.reserve(n_bins));
  dpa4::base::parallel_for(space_, "dpa4_row_atoms", n_owned_,
                           dpa4_kernels::RowsToAtoms{atom_of_row_here_.data(), member});
  dpa4::base::parallel_for(space_, "dpa4_sort_bins", n_bins,
                           dpa4_kernels::SortBins<decltype(atoms.x)>{{atoms.x}, begin, member});
  dpa4::base::parallel_for(
      space_, "dpa4_write_rows", n_owned_,
      dpa4_kernels::WriteRows{member, atom_of_row_here_.data(), row_of_atom_here_.data(), owner});
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
  int* const status = type_status_.reserve(2);
  dpa4::base::fill(space_, "dpa4_type_status_clear", 2, status, 0);
  dpa4::base::parallel_for(space_, "dpa4_read_types", n_nodes_,
                           dpa4_kernels::ReadTypes<decltype(atoms.type)>{
                               atoms.type, model_type_of_here_.data(), atom_of_row_here_.data(),
                               type_of_row_here_.data(), status});
  const bool rebuilding = rows_built_at_ != neighbor->ncalls || neighbor->ago == 0;
  if (rebuilding || model_.config.exclude_types.empty()) return;
  if (dpa4::base::read_element(space_, status + 1) != 0) rebuild_edges(atoms);
}

template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::evaluate(const Atoms& atoms) {
  const bool on_device = model_.evaluator->works_on_device();
  dpa4::model::Structure structure;
  structure.type = {type_of_row_here_.data(), n_nodes_};
  structure.edges = edges_->update(atoms.x);
  structure.on_device = on_device;
  if (!aparam_.empty()) structure.aparam = {aparam_of_row_.data(), n_owned_, aparam_.size()};
  if (!on_device && !Space::kHostAccessible) structure.edges = to_host(structure.edges);
  if (!on_device && !Space::kHostAccessible) structure.type = {host_.type.data(), n_nodes_};
  // Without a stream of Kokkos' the evaluator has one of its own.
  if (stream_of(dpa4::lammps::ExecutionSpaceOf<DeviceType>()) == nullptr) space_.fence();
  dpa4::model::Request request;
  request.atom_virial = vflag_atom != 0 || cvflag_atom != 0;
  model_.evaluator->evaluate(structure, conditions_, halo_, request, result_);

  if (on_device) {
    const dpa4::model::DeviceResults& device = result_.device;
    add_device_sums(device);
    add_atom_results(atoms,
                     {device.atom_energy.data(), device.force.data(), device.node_virial.data()});
  } else {
    const auto& w = result_.virial;
    add_sums(result_.energy,
             {w[0], w[4], w[8], 0.5 * (w[1] + w[3]), 0.5 * (w[2] + w[6]), 0.5 * (w[5] + w[7])});
    if (dpa4::base::read_element(space_, type_status_.data()) != 0) fail_null_type();
    add_atom_results(atoms, results_here());
  }
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

/// Energy and virial in one read of 64 bytes. Parts of equal size, so that the sums do not depend
/// on how Kokkos divides the work.
template <class DeviceType>
void PairDPA4Kokkos<DeviceType>::add_device_sums(const dpa4::model::DeviceResults& results) {
  const int range = 1 + static_cast<int>(std::sqrt(static_cast<double>(n_nodes_)));
  const int n_parts = (n_nodes_ + range - 1) / range;
  double* const partial = partial_.reserve(std::int64_t{7} * n_parts);
  double* const sums = sums_.reserve(dpa4_kernels::kSums);
  dpa4::base::parallel_for(
      space_, "dpa4_partial_sums", n_parts,
      dpa4_kernels::PartialSums{results.atom_energy.data(), results.node_virial.data(), n_owned_,
                                n_nodes_, range, partial});
  dpa4::base::parallel_for(space_, "dpa4_total_sums", dpa4_kernels::kSums,
                           dpa4_kernels::TotalSums{partial, n_parts, type_status_.data(), sums});
  std::array<double, dpa4_kernels::kSums> read;
  space_.copy_out(read.data(), sums, sizeof read);
  if (read[7] != 0) fail_null_type();
  add_sums(read[0], {read[1], read[2], read[3], read[4], read[5], read[6]});
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
void PairDPA4Kokkos<DeviceType>::add_atom_results(const Atoms& atoms, const Results& results) {
  const int* const atom_of_row = atom_of_row_here_.data();
  dpa4::base::parallel_for(space_, "dpa4_add_forces", n_owned_,
                           dpa4_kernels::AddForces<decltype(atoms.f)>{atom_of_row, results.force,
                                                                      energy_unit_, atoms.f});
  atomKK->modified(execution_space, F_MASK);
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
