// SPDX-License-Identifier: GPL-2.0-or-later
// main() of the tests that run LAMMPS: every rank runs every test; rank 0 reports, the others only
// their failures. What GoogleTest does not take of the arguments goes to every LAMMPS.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "library.h"
#include "tests/support/lammps_driver.h"

namespace {

class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cout << "rank " << rank_ << ": "
              << (result.file_name() != nullptr ? result.file_name() : "?") << ":"
              << result.line_number() << "\n"
              << result.summary() << std::endl;
  }
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  // More ranks than cores: let a waiting rank give its core away. Read by Open MPI only.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  dpa4::test::set_lammps_switches(std::vector<std::string>(argv + 1, argv + argc));
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
  const int result = RUN_ALL_TESTS();
  lammps_kokkos_finalize();  // Kokkos can start only once, so LAMMPS leaves it running
  MPI_Finalize();
  return result;
}
