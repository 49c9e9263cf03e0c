// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/support/lammps_driver.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>
#include <utility>

#define LAMMPS_LIB_MPI  // declares lammps_open
#include "library.h"

namespace dpa4::test {
namespace {

/// The columns of `values`, (N, count), in the order given.
template <class T>
std::vector<T> reordered(const std::vector<double>& values, const std::vector<int>& order) {
  std::vector<T> result;
  if (order.empty()) return result;
  const std::size_t count = values.size() / order.size();
  for (int n : order) {
    for (std::size_t k = 0; k < count; ++k) result.push_back(static_cast<T>(values[n * count + k]));
  }
  return result;
}

std::string temporary_path(int process, const std::string& name) {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder != nullptr ? folder : "/tmp") + "/dpa4_test_" +
         std::to_string(process) + "_" + name;
}

std::vector<std::string>& switches() {
  static std::vector<std::string> list;
  return list;
}

std::string next_log_path() {
  static int number = 0;
  return temporary_path(getpid(), std::to_string(number++) + ".log");
}

}  // namespace

void set_lammps_switches(std::vector<std::string> list) { switches() = std::move(list); }

const std::vector<std::string>& lammps_switches() { return switches(); }

bool with_kokkos() {
  return std::find(switches().begin(), switches().end(), "-k") != switches().end();
}

int mpi_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int mpi_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

Lammps::Lammps(MPI_Comm ranks) : ranks_(ranks), log_path_(next_log_path()) {
  std::vector<std::string> words{"dpa4_test", "-screen", "none", "-nocite", "-log", log_path_};
  words.insert(words.end(), switches().begin(), switches().end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  handle_ = lammps_open(static_cast<int>(arguments.size()), arguments.data(), ranks, nullptr);
  if (handle_ == nullptr) throw LammpsError("LAMMPS does not start");
}

Lammps::~Lammps() {
  lammps_close(handle_);
  std::remove(log_path_.c_str());
}

void Lammps::commands(const std::string& lines) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    lammps_command(handle_, line.c_str());
    if (lammps_has_error(handle_) != 0) {
      std::string message(4096, '\0');
      const int type =
          lammps_get_last_error_message(handle_, message.data(), static_cast<int>(message.size()));
      message.resize(message.find('\0'));
      int n_ranks = 1;
      MPI_Comm_size(ranks_, &n_ranks);
      constexpr int kOneRankFailed = 2;  // the others may wait for it for ever
      if (type == kOneRankFailed && n_ranks > 1) {
        std::fprintf(stderr, "%s\nin: %s\n", message.c_str(), line.c_str());
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      throw LammpsError(message);
    }
  }
}

void Lammps::watch(bool atoms) {
  watches_atoms_ = atoms;
  commands("compute watch_virial all pressure NULL pair");
  std::string columns;
  if (atoms) {
    commands(
        "compute watch_energy all pe/atom pair\n"
        "compute watch_stress all stress/atom NULL pair\n"
        "compute watch_centroid all centroid/stress/atom NULL pair\n"
        "compute watch_atoms all reduce sum c_watch_energy c_watch_stress[1] c_watch_centroid[1]");
    columns = " c_watch_atoms[1] c_watch_atoms[2] c_watch_atoms[3]";
  }
  commands("thermo_style custom step pe etotal press c_watch_virial[1]" + columns);
}

std::vector<double> Lammps::gather(const double* own, int count) const {
  const int mine = count * lammps_extract_setting(handle_, "nlocal");
  int n_ranks = 0;
  MPI_Comm_size(ranks_, &n_ranks);
  std::vector<int> sizes(n_ranks), offsets(n_ranks);
  MPI_Allgather(&mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, ranks_);
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::vector<double> all(std::accumulate(sizes.begin(), sizes.end(), 0));
  MPI_Allgatherv(own, mine, MPI_DOUBLE, all.data(), sizes.data(), offsets.data(), MPI_DOUBLE,
                 ranks_);
  return all;
}

std::vector<double> Lammps::gather_atoms(const char* name) const {
  const int n_local = lammps_extract_setting(handle_, "nlocal");
  void* data = lammps_extract_atom(handle_, name);
  std::vector<double> own(n_local);
  switch (lammps_extract_atom_datatype(handle_, name)) {
    case LAMMPS_INT:
      std::copy_n(static_cast<int*>(data), n_local, own.begin());
      break;
    case LAMMPS_INT64:
      std::copy_n(static_cast<std::int64_t*>(data), n_local, own.begin());
      break;
    case LAMMPS_DOUBLE_2D:
      return gather(n_local > 0 ? static_cast<double**>(data)[0] : nullptr, 3);
    default:
      throw LammpsError(std::string("atom property ") + name);
  }
  return gather(own.data(), 1);
}

std::vector<double> Lammps::gather_compute(const char* id, int count) const {
  const int n_local = lammps_extract_setting(handle_, "nlocal");
  const int type = count == 1 ? LMP_TYPE_VECTOR : LMP_TYPE_ARRAY;
  void* data = lammps_extract_compute(handle_, id, LMP_STYLE_ATOM, type);
  if (data == nullptr && n_local > 0) throw LammpsError(std::string("compute ") + id);
  if (count == 1) return gather(static_cast<double*>(data), 1);
  return gather(n_local > 0 ? static_cast<double**>(data)[0] : nullptr, count);
}

Snapshot Lammps::snapshot() {
  const std::vector<double> ids = gather_atoms("id");
  std::vector<int> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return ids[a] < ids[b]; });

  Snapshot result;
  result.id = reordered<std::int64_t>(ids, order);
  result.type = reordered<int>(gather_atoms("type"), order);
  result.x = reordered<double>(gather_atoms("x"), order);
  result.f = reordered<double>(gather_atoms("f"), order);
  result.v = reordered<double>(gather_atoms("v"), order);
  result.energy = thermo("pe");
  const auto* pressure = static_cast<double*>(
      lammps_extract_compute(handle_, "watch_virial", LMP_STYLE_GLOBAL, LMP_TYPE_VECTOR));
  const double per_pressure =
      thermo("vol") / *static_cast<double*>(lammps_extract_global(handle_, "nktv2p"));
  for (int k = 0; k < 6; ++k) result.virial[k] = pressure[k] * per_pressure;
  if (!watches_atoms_) return result;

  result.atom_energy = reordered<double>(gather_compute("watch_energy", 1), order);
  result.atom_virial = reordered<double>(gather_compute("watch_stress", 6), order);
  result.centroid_virial = reordered<double>(gather_compute("watch_centroid", 9), order);
  // These computes give -virial, in units of pressure times volume.
  const double nktv2p = *static_cast<double*>(lammps_extract_global(handle_, "nktv2p"));
  for (double& value : result.atom_virial) value *= -1 / nktv2p;
  for (double& value : result.centroid_virial) value *= -1 / nktv2p;
  return result;
}

std::array<std::array<double, 3>, 3> Lammps::cell() const {
  double low[3], high[3], xy, yz, xz;
  lammps_extract_box(handle_, low, high, &xy, &yz, &xz, nullptr, nullptr);
  return {{{high[0] - low[0], 0, 0}, {xy, high[1] - low[1], 0}, {xz, yz, high[2] - low[2]}}};
}

std::array<bool, 3> Lammps::periodic() const {
  int flags[3];
  lammps_extract_box(handle_, nullptr, nullptr, nullptr, nullptr, nullptr, flags, nullptr);
  return {flags[0] != 0, flags[1] != 0, flags[2] != 0};
}

double Lammps::thermo(const std::string& keyword) {
  return lammps_get_thermo(handle_, keyword.c_str());
}

std::string Lammps::log() const {
  lammps_flush_buffers(handle_);
  std::ostringstream text;
  text << std::ifstream(log_path_).rdbuf();
  std::string result = text.str();
  auto size = static_cast<unsigned long>(result.size());
  MPI_Bcast(&size, 1, MPI_UNSIGNED_LONG, 0, ranks_);
  result.resize(size);
  MPI_Bcast(result.data(), static_cast<int>(size), MPI_CHAR, 0, ranks_);
  return result;
}

std::string temporary_path(const std::string& name) {
  int process = getpid();
  MPI_Bcast(&process, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return temporary_path(process, name);
}

std::string error_of(Lammps& lammps, const std::string& lines) {
  try {
    lammps.commands(lines);
  } catch (const LammpsError& error) {
    return error.what();
  }
  return "";
}

}  // namespace dpa4::test
