// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <vector>

#include "kernels/api/kernel_table.h"
#include "src/model/evaluator.h"

namespace dpa4::native {

/// A copy of a table of operations that notes calls, time, arithmetic and traffic. The wrapped
/// functions are plain pointers, so one copy a precision and process may be in use at a time.
template <class Real>
class TimedTable {
 public:
  TimedTable(const kernels::KernelTable<Real>& original, kernels::Machine& machine);
  ~TimedTable();
  TimedTable(const TimedTable&) = delete;
  TimedTable& operator=(const TimedTable&) = delete;

  const kernels::KernelTable<Real>& table() const { return table_; }

  /// The operations since the last call, longest first; those never called are left out.
  std::vector<model::OperationTime> take();

 private:
  kernels::KernelTable<Real> table_;
};

}  // namespace dpa4::native
