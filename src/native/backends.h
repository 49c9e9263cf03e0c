// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <string>

#include "kernels/api/kernel_table.h"
#include "src/model/evaluator.h"

namespace dpa4::native {

/// A machine and its operations. Throws InputError if the build or the computer lacks them, or if
/// `options.arithmetic` is none of candidates().
template <class Real>
struct Backend {
  std::unique_ptr<kernels::Machine> machine;
  const kernels::KernelTable<Real>* table = nullptr;
  std::string arithmetic = {};  // the candidate's name
};

template <class Real>
Backend<Real> open_backend(const model::EvaluatorOptions& options);

}  // namespace dpa4::native
