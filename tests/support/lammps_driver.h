// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// Where models run in the tests: "cpu", or "cuda" in those of a LAMMPS whose Kokkos has the GPU.
#ifndef DPA4_TEST_DEVICE
#define DPA4_TEST_DEVICE "cpu"
#endif

namespace dpa4::test {

/// What LAMMPS holds after a step: everything of all atoms, on every rank, in the order of the IDs.
struct Snapshot {
  std::vector<std::int64_t> id;
  std::vector<int> type;
  std::vector<double> x, f, v;          // (N * 3)
  double energy = 0;                    // pe, in LAMMPS' units
  std::array<double, 6> virial{};       // of the pair style: xx yy zz xy xz yz, in units of energy
  std::vector<double> atom_energy;      // (N)      with watch_atoms() only, as are the next two
  std::vector<double> atom_virial;      // (N * 6)  xx yy zz xy xz yz
  std::vector<double> centroid_virial;  // (N * 9)  xx yy zz xy xz yz yx zx zy

  int n_atoms() const { return static_cast<int>(id.size()); }
};

class LammpsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// LAMMPS through its C library. A failed command throws LammpsError on every rank that saw it
/// fail.
class Lammps {
 public:
  /// @param ranks  MPI_COMM_WORLD, or MPI_COMM_SELF for an instance of this rank's own
  explicit Lammps(MPI_Comm ranks = MPI_COMM_WORLD);
  ~Lammps();
  Lammps(const Lammps&) = delete;
  Lammps& operator=(const Lammps&) = delete;

  /// One or more lines of input.
  void commands(const std::string& lines);

  /// Makes thermodynamic output ask the pair style for everything a snapshot holds; `atoms` says
  /// whether that includes the values of single atoms.
  void watch(bool atoms);

  /// What LAMMPS holds after the last `run`, which must have ended with thermodynamic output.
  Snapshot snapshot();

  /// Of the simulation cell: rows a, b, c [LAMMPS' units], and which are periodic.
  std::array<std::array<double, 3>, 3> cell() const;
  std::array<bool, 3> periodic() const;

  double thermo(const std::string& keyword);

  /// What LAMMPS printed into its log so far, on every rank.
  std::string log() const;

  void* handle() { return handle_; }

 private:
  /// Values of own atoms of all ranks, one after the other.
  std::vector<double> gather(const double* own, int count) const;
  std::vector<double> gather_compute(const char* id, int count) const;
  std::vector<double> gather_atoms(const char* name) const;

  MPI_Comm ranks_;
  void* handle_ = nullptr;
  std::string log_path_;
  bool watches_atoms_ = false;
};

/// Command-line switches of every LAMMPS started from now on, such as -k on t 2 -sf kk.
void set_lammps_switches(std::vector<std::string> switches);

const std::vector<std::string>& lammps_switches();

/// Whether they switch Kokkos on.
bool with_kokkos();

/// Rank and number of ranks of the test program.
int mpi_rank();
int mpi_size();

/// A path for a file of this run of the program, the same on all ranks; nothing is made there.
std::string temporary_path(const std::string& name);

/// What the failing command says; empty if it does not fail.
std::string error_of(Lammps& lammps, const std::string& lines);

}  // namespace dpa4::test
