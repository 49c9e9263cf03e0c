// SPDX-License-Identifier: GPL-2.0-or-later
#include "lammps_plugin/pair_dpa4.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>

#include "atom.h"
#include "atom_vec.h"
#include "comm.h"
#include "compute.h"
#include "domain.h"
#include "error.h"
#include "exceptions.h"
#include "force.h"
#include "input.h"
#include "memory.h"
#include "modify.h"
#include "molecule.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "update.h"

using dpa4::TensorView;
using dpa4::lammps::ArgumentError;
using dpa4::lammps::LammpsHalo;
using dpa4::lammps::RowOwner;

namespace LAMMPS_NS {
namespace {

/// Messages of the library, on rank 0.
class LammpsLogger final : public dpa4::Logger {
 public:
  explicit LammpsLogger(LAMMPS* lmp) : lmp_(lmp) {}
  void info(const std::string& line) override {
    if (lmp_->comm->me == 0) utils::logmesg(lmp_, line + "\n");
  }
  void warning(const std::string& line) override {
    if (lmp_->comm->me == 0) lmp_->error->warning(FLERR, line);
  }

 private:
  LAMMPS* lmp_;
};

/// Which of its machine's devices a rank takes, and how many ranks share the machine.
void share_machine(MPI_Comm world, dpa4::model::EvaluatorOptions& options) {
  MPI_Comm machine;
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Comm_rank(machine, &options.device_index);
  MPI_Comm_size(machine, &options.sharers);
  MPI_Comm_free(&machine);
}

/// Where `arg` stands in the command that LAMMPS is executing, so that it can underline it; the
/// command itself if it is elsewhere (read_restart, sub-styles' own copies).
int position_in_command(const Input& input, char** arg) {
  const std::less<> before;
  if (input.arg == nullptr || before(arg, input.arg) || !before(arg, input.arg + input.narg)) {
    return Error::COMMAND;
  }
  return static_cast<int>(arg - input.arg);
}

/// What happened, without the stack trace that LibTorch appends to its messages.
std::string first_line(const std::exception& failure) {
  const std::string text = failure.what();
  return text.substr(0, text.find('\n'));
}

std::vector<std::string> to_strings(int narg, char** arg) { return {arg, arg + narg}; }

}  // namespace

PairDPA4::PairDPA4(LAMMPS* lmp, dpa4::lammps::ModelSource source)
    : Pair(lmp), source_(std::move(source)), halo_(lmp, this) {
  single_enable = 0;
  restartinfo = 0;
  one_coeff = 1;
  manybody_flag = 1;
  reinitflag = 0;
  no_virial_fdotr_compute = 1;  // forces of ghosts stay zero, so F.r over them is not the virial
  centroidstressflag = CENTROID_AVAIL;
  unit_convert_flag = utils::get_supported_conversions(utils::ENERGY);
  // All three the same: one of LAMMPS' reverse communications picks the wrong one of the last two.
  // Set here because pair_style hybrid takes them over before there is a model.
  comm_forward = comm_reverse = comm_reverse_off = LammpsHalo::kSlice;
}

PairDPA4::~PairDPA4() {
  if (copymode) return;
  memory->destroy(setflag);
  memory->destroy(cutsq);
}

// ---- commands
// --------------------------------------------------------------------------------------

void PairDPA4::settings(int narg, char** arg) {
  if (std::strcmp(update->unit_style, "metal") != 0 &&
      std::strcmp(update->unit_style, "real") != 0) {
    error->all(
        FLERR, Error::COMMAND,
        std::string("pair_style dpa4 works in units metal or real (eV or kcal/mol, Angstrom), "
                    "not ") +
            update->unit_style);
  }
  dpa4::lammps::PairSettings parsed;
  try {
    parsed = dpa4::lammps::parse_pair_settings(to_strings(narg, arg));
  } catch (const ArgumentError& failure) {
    fail_argument(arg, failure);
  }
  settings_ = std::move(parsed);
  forget_model();
}

void PairDPA4::coeff(int narg, char** arg) {
  if (narg < 3 || std::strcmp(arg[0], "*") != 0 || std::strcmp(arg[1], "*") != 0) {
    error->all(FLERR, Error::COMMAND,
               "pair_coeff of pair_style dpa4 reads: pair_coeff * * MODEL_FILE ELEMENT_OR_NULL ... "
               "(one for each atom type)");
  }
  forget_model();
  load_model(arg[2], arg + 2);
  try {
    const std::vector<int> mapping = dpa4::lammps::map_elements(
        to_strings(narg - 3, arg + 3), atom->ntypes, model_.config.type_map);
    model_type_of_.assign(1, -1);
    model_type_of_.insert(model_type_of_.end(), mapping.begin(), mapping.end());
  } catch (const ArgumentError& failure) {
    model_.evaluator.reset();
    fail_argument(arg + 3, failure);
  }
  edges_.emplace(dpa4::base::Threads{}, model_.config.rcut, model_.config.n_types(),
                 model_.config.exclude_types);
  set_type_tables();

  LammpsLogger log(lmp);
  for (const std::string& line : source_.start_report(model_)) log.info(line);
}

/// Every rank reads the file, and all of them stop with the same message if one of them cannot.
void PairDPA4::load_model(const std::string& path, char** file_argument) {
  dpa4::engine::EngineOptions options = settings_.engine;
  choose_place(options);
  const std::string found = utils::get_potential_file_path(path);
  LammpsLogger log(lmp);
  on_all_ranks(position_in_command(*input, file_argument), [&] {
    dpa4::engine::LoadedModel model = source_.load(found.empty() ? path : found, options, log);
    conditions_ = dpa4::lammps::resolve_conditions(settings_, model.config);
    aparam_ = dpa4::lammps::resolve_aparam(settings_, model.config);
    model_ = std::move(model);
  });
}

void PairDPA4::choose_place(dpa4::engine::EngineOptions& options) {
  share_machine(world, options.evaluator);
}

void PairDPA4::forget_model() {
  model_ = {};
  edges_.reset();
  if (!allocated) return;
  for (int i = 1; i <= atom->ntypes; ++i) {
    for (int j = 1; j <= atom->ntypes; ++j) setflag[i][j] = 0;
  }
}

void PairDPA4::set_type_tables() {
  const int n_types = atom->ntypes;
  if (!allocated) {
    memory->create(setflag, n_types + 1, n_types + 1, "pair:setflag");
    memory->create(cutsq, n_types + 1, n_types + 1, "pair:cutsq");
    allocated = 1;
  }
  // As a sub-style NULL leaves a type to the others; alone, atoms of that type have no
  // interactions.
  const bool is_substyle = utils::strmatch(force->pair_style, "^hybrid");
  for (int i = 1; i <= n_types; ++i) {
    for (int j = 1; j <= n_types; ++j) {
      const bool both_mapped = model_type_of_[i] >= 0 && model_type_of_[j] >= 0;
      setflag[i][j] = both_mapped || !is_substyle ? 1 : 0;
      cutsq[i][j] = 0;
    }
  }
}

void PairDPA4::init_style() {
  neighbor->add_request(this, NeighConst::REQ_FULL);
  rows_built_at_ = -1;
  find_computes();
  energy_unit_ = std::strcmp(update->unit_style, "real") == 0
                     ? utils::get_conversion_factor(utils::ENERGY, utils::METAL2REAL)
                     : 1.0;
}

/// The computes of fparam_from_compute and aparam_from_compute, which must fit the model.
void PairDPA4::find_computes() {
  const auto find = [this](const std::string& id) -> Compute* {
    if (id.empty()) return nullptr;
    Compute* compute = modify->get_compute_by_id(id);
    if (compute == nullptr) {
      error->all(FLERR, Error::NOLASTLINE, "pair_style dpa4: there is no compute '" + id + "'");
    }
    return compute;
  };
  fparam_compute_ = find(settings_.fparam_compute);
  const int n_fparam = model_.config.numb_fparam;
  if (fparam_compute_ != nullptr && !(n_fparam == 1 && fparam_compute_->scalar_flag != 0) &&
      !(fparam_compute_->vector_flag != 0 && fparam_compute_->size_vector == n_fparam)) {
    error->all(FLERR, Error::NOLASTLINE,
               "pair_style dpa4: compute '" + settings_.fparam_compute +
                   "' does not give the model's " + std::to_string(n_fparam) +
                   " fparam as a global vector");
  }
  aparam_compute_ = find(settings_.aparam_compute);
  const int n_aparam = model_.config.numb_aparam;
  if (aparam_compute_ != nullptr && (aparam_compute_->peratom_flag == 0 ||
                                     std::max(aparam_compute_->size_peratom_cols, 1) != n_aparam)) {
    error->all(FLERR, Error::NOLASTLINE,
               "pair_style dpa4: compute '" + settings_.aparam_compute +
                   "' does not give the model's " + std::to_string(n_aparam) +
                   " aparam for each atom");
  }
}

double PairDPA4::init_one(int i, int j) {
  // pair_style hybrid asks for the pairs of every pair_coeff, also of those that another replaced.
  if (!allocated || setflag[i][j] == 0) {
    error->all(
        FLERR, Error::NOLASTLINE,
        "All pair coeffs are not set: the last pair_coeff of pair_style dpa4 has no elements "
        "for the atom types " +
            std::to_string(i) + " and " + std::to_string(j) + " (it replaces those before it)");
  }
  return model_type_of_[i] >= 0 && model_type_of_[j] >= 0 ? model_.config.rcut : 0.0;
}

void PairDPA4::fail_argument(char** arg, const ArgumentError& failure) {
  error->all(FLERR, position_in_command(*input, arg + failure.argument()), failure.what());
}

/// Does `work` and, if it failed on any rank, stops all of them with the message of the first such
/// rank. `position` is that of the argument to underline, or one of LAMMPS' names for none.
template <class Work>
void PairDPA4::on_all_ranks(int position, const Work& work) {
  std::string failure;
  try {
    work();
  } catch (const LAMMPSException&) {
    throw;
  } catch (const std::exception& exception) {
    failure = first_line(exception);
    if (failure.empty()) failure = "unknown failure";
  }
  const int mine = failure.empty() ? comm->nprocs : comm->me;
  int first = comm->nprocs;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, world);
  if (first == comm->nprocs) return;
  int length = static_cast<int>(failure.size());
  MPI_Bcast(&length, 1, MPI_INT, first, world);
  failure.resize(length);
  MPI_Bcast(failure.data(), length, MPI_CHAR, first, world);
  error->all(FLERR, position, failure);
}

// ---- a step
// ----------------------------------------------------------------------------------------

void PairDPA4::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const LAMMPSException&) {
    throw;
  } catch (const std::exception& failure) {
    error->one(FLERR, first_line(failure));
  }
}

void PairDPA4::compute(int eflag, int vflag) {
  ev_init(eflag, vflag);
  guarded([&] {
    // The count finds builds whose step was not computed (pair_modify compute no), the age those
    // after which LAMMPS sets the count back (every setup).
    if (neighbor->ago == 0 || rows_built_at_ != neighbor->ncalls) {
      rebuild_rows();
    } else {
      refresh_types();
    }
    read_computes();
    const int n_atoms = atom->nlocal + atom->nghost;
    const TensorView<const double, 2> x(n_atoms > 0 ? atom->x[0] : nullptr, n_atoms, 3);
    dpa4::model::Structure structure;
    structure.type = {type_of_row_.data(), type_of_row_.size()};
    structure.edges = edges_->update(x);
    if (!aparam_.empty()) {
      structure.aparam = {aparam_of_row_.data(), n_owned_, aparam_.size()};
    }
    dpa4::model::Request request;
    request.atom_virial = vflag_atom != 0 || cvflag_atom != 0;
    model_.evaluator->evaluate(structure, conditions_, halo_, request, result_);
  });
  add_results();
}

int PairDPA4::model_type(int i) const { return model_type_of_[atom->type[i]]; }

/// Gives every atom the model sees a row: first those of the neighbor list, then ghosts of other
/// ranks. Ghosts that are images of own atoms share the row of the atom; nothing needs an atom map.
void PairDPA4::rebuild_rows() {
  const int n_atoms = atom->nlocal + atom->nghost;
  row_of_atom_.assign(n_atoms, -1);
  row_owner_.assign(n_atoms, RowOwner{});
  atom_of_row_.clear();
  for (int k = 0; k < list->inum; ++k) {
    const int i = list->ilist[k];
    if (model_type(i) < 0) continue;
    row_of_atom_[i] = static_cast<int>(atom_of_row_.size());
    row_owner_[i] = {comm->me, row_of_atom_[i]};
    atom_of_row_.push_back(i);
  }
  n_owned_ = static_cast<int>(atom_of_row_.size());

  halo_.exchange_owners(row_owner_);
  for (int i = atom->nlocal; i < n_atoms; ++i) {
    const RowOwner owner = row_owner_[i];
    if (owner.row < 0) continue;
    if (owner.rank == comm->me) {
      row_of_atom_[i] = owner.row;
    } else {
      row_of_atom_[i] = static_cast<int>(atom_of_row_.size());
      atom_of_row_.push_back(i);
    }
  }
  const auto n_nodes = static_cast<int>(atom_of_row_.size());
  halo_.set_rows({row_of_atom_.data(), n_atoms}, n_owned_, n_nodes);

  type_of_row_.resize(n_nodes);
  for (int row = 0; row < n_nodes; ++row) type_of_row_[row] = model_type(atom_of_row_[row]);
  aparam_of_row_.clear();
  for (int row = 0; row < n_owned_; ++row) {
    aparam_of_row_.insert(aparam_of_row_.end(), aparam_.begin(), aparam_.end());
  }
  check_special_neighbors();
  rebuild_edges();
  rows_built_at_ = neighbor->ncalls;
}

void PairDPA4::rebuild_edges() {
  dpa4::graph::NodeMap nodes;
  nodes.n_owned = n_owned_;
  nodes.n_nodes = static_cast<int>(atom_of_row_.size());
  nodes.row_of_atom = {row_of_atom_.data(), row_of_atom_.size()};
  nodes.type_of_row = {type_of_row_.data(), type_of_row_.size()};
  edges_->rebuild(dpa4::graph::PagedNeighborList{list->inum, list->ilist, list->numneigh,
                                                 list->firstneigh, NEIGHMASK},
                  nodes);
}

/// Atoms may change their type between builds of the neighbor list (fix atom/swap and its like).
void PairDPA4::refresh_types() {
  bool changed = false;
  for (std::size_t row = 0; row < atom_of_row_.size(); ++row) {
    const int type = model_type(atom_of_row_[row]);
    if (type == type_of_row_[row]) continue;
    if (type < 0) fail_null_type();
    type_of_row_[row] = type;
    changed = true;
  }
  if (changed && !model_.config.exclude_types.empty()) rebuild_edges();
}

void PairDPA4::fail_null_type() {
  error->one(FLERR,
             "An atom changed to a type that pair_coeff maps to NULL without a new neighbor list");
}

/// The conditions for these positions, from the computes that were asked for. They compute anew: in
/// one time step positions differ between a minimizer's trials and before and after integration.
void PairDPA4::read_computes() {
  if (fparam_compute_ == nullptr && aparam_compute_ == nullptr) return;
  modify->clearstep_compute();  // also those that these take numbers from
  if (fparam_compute_ != nullptr) {
    Compute& compute = *fparam_compute_;
    if (compute.vector_flag == 0) {
      compute.compute_scalar();
      conditions_.fparam = {compute.scalar};
    } else {
      compute.compute_vector();
      conditions_.fparam.assign(compute.vector, compute.vector + compute.size_vector);
    }
  }
  if (aparam_compute_ != nullptr) {
    Compute& compute = *aparam_compute_;
    compute.compute_peratom();
    const std::size_t n_aparam = aparam_.size();
    for (int row = 0; row < n_owned_; ++row) {
      const int i = atom_of_row_[row];
      const double* values =
          compute.size_peratom_cols == 0 ? &compute.vector_atom[i] : compute.array_atom[i];
      std::copy_n(values, n_aparam, aparam_of_row_.begin() + n_aparam * row);
    }
  }
}

/// LAMMPS drops neighbors whose special_bonds weights are all zero from its lists, whatever a pair
/// style asks for; a model trained on all neighbors would be silently wrong.
bool PairDPA4::drops_special_neighbors() const {
  const int* flag = neighbor->special_flag;
  return atom->molecular != Atom::ATOMIC && (flag[1] == 0 || flag[2] == 0 || flag[3] == 0);
}

void PairDPA4::check_special_neighbors() {
  if (!drops_special_neighbors()) return;
  on_all_ranks(Error::NOLASTLINE, [this] { find_dropped_neighbor(); });
}

/// Throws InputError if an own atom lacks a neighbor that special_bonds took away and the model
/// sees before the list is made anew.
void PairDPA4::find_dropped_neighbor() const {
  const int* flag = neighbor->special_flag;
  const int n_atoms = atom->nlocal + atom->nghost;
  const TensorView<const double, 2> x(n_atoms > 0 ? atom->x[0] : nullptr, n_atoms, 3);
  const double reach = model_.config.rcut + neighbor->skin;
  for (int row = 0; row < n_owned_; ++row) {
    const int i = atom_of_row_[row];
    const tagint* partners = nullptr;
    const int* n_up_to = nullptr;  // partners that are 1-2, up to 1-3, up to 1-4
    tagint offset = 0;
    if (atom->molecular == Atom::MOLECULAR) {
      partners = atom->special[i];
      n_up_to = atom->nspecial[i];
    } else if (atom->molindex[i] >= 0) {
      const Molecule* molecule = atom->avec->onemols[atom->molindex[i]];
      if (molecule->special == nullptr) continue;
      partners = molecule->special[atom->molatom[i]];
      n_up_to = molecule->nspecial[atom->molatom[i]];
      offset = atom->tag[i] - atom->molatom[i] - 1;
    } else {
      continue;
    }
    for (int k = 0; k < n_up_to[2]; ++k) {
      const int degree = k < n_up_to[0] ? 1 : (k < n_up_to[1] ? 2 : 3);
      if (flag[degree] != 0) continue;
      const int j = domain->closest_image(i, atom->map(partners[k] + offset));
      if (j < 0 || model_type(j) < 0) continue;
      const double squared = dpa4::graph::displacement(x, j, i).squared_length();
      if (!dpa4::graph::is_edge_length(squared, reach * reach)) continue;
      throw dpa4::InputError(
          "special_bonds takes the 1-" + std::to_string(degree + 1) + " neighbors " +
          std::to_string(atom->tag[i]) + " and " + std::to_string(atom->tag[j]) +
          " out of the neighbor list, but the model needs every neighbor: use 'special_bonds "
          "lj/coul 1 1 1', or tiny values such as 1e-100 instead of 0 if another pair style has to "
          "exclude them");
    }
  }
}

/// The results are those of own atoms, complete: what they owe to other ranks' atoms has been sent
/// home.
void PairDPA4::add_results() {
  double** f = atom->f;
  for (int row = 0; row < n_owned_; ++row) {
    const int i = atom_of_row_[row];
    for (int a = 0; a < 3; ++a) f[i][a] += energy_unit_ * result_.force[3 * row + a];
  }
  const auto& w = result_.virial;  // symmetric up to rounding
  add_sums(result_.energy,
           {w[0], w[4], w[8], 0.5 * (w[1] + w[3]), 0.5 * (w[2] + w[6]), 0.5 * (w[5] + w[7])});
  if (eflag_atom) {
    for (int row = 0; row < n_owned_; ++row) {
      eatom[atom_of_row_[row]] += energy_unit_ * result_.atom_energy[row];
    }
  }
  if (vflag_atom || cvflag_atom) add_atom_virial();
}

/// This rank's energy [eV] and virial [eV], xx yy zz xy xz yz.
void PairDPA4::add_sums(double energy, const std::array<double, 6>& symmetric_virial) {
  if (eflag_global) eng_vdwl += energy_unit_ * energy;
  if (vflag_global) {
    for (int k = 0; k < 6; ++k) virial[k] += energy_unit_ * symmetric_virial[k];
  }
}

void PairDPA4::add_atom_virial() {
  for (int row = 0; row < n_owned_; ++row) {
    const int i = atom_of_row_[row];
    const double* w = result_.atom_virial.data() + std::int64_t{9} * row;
    if (vflag_atom) {
      for (int k = 0; k < 6; ++k) {
        vatom[i][k] += 0.5 * energy_unit_ * (w[centroid_component(k)] + w[transposed_component(k)]);
      }
    }
    if (cvflag_atom) {
      for (int k = 0; k < 9; ++k) cvatom[i][k] += energy_unit_ * w[centroid_component(k)];
    }
  }
}

// ---- communication
// ---------------------------------------------------------------------------------

int PairDPA4::pack_forward_comm(int n, int* list, double* buffer, int, int*) {
  return halo_.pack_forward(n, list, buffer);
}

void PairDPA4::unpack_forward_comm(int n, int first, double* buffer) {
  halo_.unpack_forward(n, first, buffer);
}

int PairDPA4::pack_reverse_comm(int n, int first, double* buffer) {
  return halo_.pack_reverse(n, first, buffer);
}

void PairDPA4::unpack_reverse_comm(int n, int* list, double* buffer) {
  halo_.unpack_reverse(n, list, buffer);
}

// ---- questions
// -------------------------------------------------------------------------------------

void* PairDPA4::extract(const char* name, int& dimension) {
  dimension = 0;
  if (std::strcmp(name, "rcut") == 0 && model_.evaluator) return &model_.config.rcut;
  return nullptr;
}

double PairDPA4::memory_usage() {
  double bytes = Pair::memory_usage();
  bytes += static_cast<double>(row_owner_.capacity() * sizeof(RowOwner));
  bytes += static_cast<double>(
      (row_of_atom_.capacity() + atom_of_row_.capacity() + type_of_row_.capacity()) * sizeof(int));
  bytes += static_cast<double>((aparam_of_row_.capacity() + result_.atom_energy.capacity() +
                                result_.force.capacity() + result_.atom_virial.capacity()) *
                               sizeof(double));
  if (edges_) bytes += static_cast<double>(edges_->bytes());
  if (model_.evaluator) {
    bytes += static_cast<double>(model_.evaluator->memory_plan().total(
        static_cast<std::int64_t>(atom_of_row_.size()), edges_->n_candidates()));
  }
  return bytes;
}

}  // namespace LAMMPS_NS
