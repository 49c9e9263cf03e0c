// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/native/model_case.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/error.h"

namespace dpa4::native::testing {

namespace {

io::Checkpoint read_model(const tools::ReferenceFile& file) {
  NullLogger log;
  io::CheckpointOptions options;
  options.head = file.head;
  return io::read_checkpoint(tools::find_model(file), options, log);
}

}  // namespace

ModelCase::ModelCase(const std::string& reference)
    : file_(tools::read_reference_file(data_path("tests/data/" + reference))),
      checkpoint_(read_model(file_)),
      graph_(checkpoint_.config.rcut, checkpoint_.config.n_types(),
             checkpoint_.config.exclude_types) {}

std::unique_ptr<model::Evaluator> ModelCase::make(const model::EvaluatorOptions& options) const {
  return make_evaluator(checkpoint_.config, checkpoint_.weights, options);
}

model::Evaluation ModelCase::evaluate(model::Evaluator& evaluator,
                                      const tools::ReferenceFrame& frame) {
  const std::vector<std::string>& names = checkpoint_.config.type_map;
  std::vector<int> type;
  for (const std::string& element : frame.structure.element) {
    const auto found = std::find(names.begin(), names.end(), element);
    DPA4_EXPECTS(found != names.end());
    type.push_back(static_cast<int>(found - names.begin()));
  }
  const int n = frame.structure.n_atoms();
  model::Structure structure;
  structure.type = TensorView<const int, 1>(type.data(), n);
  structure.edges = graph_.build(frame.structure.positions(), structure.type, frame.structure.cell);
  n_edges_ = structure.edges.n_edges();
  const int n_aparam = checkpoint_.config.numb_aparam;
  structure.aparam = TensorView<const double, 2>(frame.structure.aparam.data(), n, n_aparam);
  model::Conditions conditions;
  conditions.fparam = frame.structure.fparam;
  conditions.charge_spin = frame.structure.charge_spin;
  model::NoHalo halo;
  model::Evaluation result;
  evaluator.evaluate(structure, conditions, halo, {true}, result);
  return result;
}

void expect_accepted(const model::Evaluation& result, const tools::ReferenceResult& reference,
                     model::Precision precision, const std::string& what) {
  const model::Acceptance limits = model::acceptance(precision);
  const auto check = [&](const char* name, const std::vector<double>& values,
                         const std::vector<double>& expected, model::Tolerance tolerance) {
    if (expected.empty()) return;
    ASSERT_EQ(values.size(), expected.size()) << what << " " << name;
    const model::Deviation deviation = model::compare(values, expected, tolerance);
    EXPECT_LE(deviation.worst, 1) << what << " " << name << ": largest deviation "
                                  << deviation.largest << ", worst at " << deviation.worst_index;
  };
  check("energy", {result.energy}, {reference.energy}, limits.energy);
  check("atom energy", result.atom_energy, reference.atom_energy, limits.element);
  check("force", result.force, reference.force, limits.element);
  check("virial", {result.virial.begin(), result.virial.end()}, reference.virial, limits.element);
  check("atom virial", result.atom_virial, reference.atom_virial, limits.element);
}

void expect_same_bits(const model::Evaluation& a, const model::Evaluation& b) {
  EXPECT_EQ(a.energy, b.energy);
  EXPECT_EQ(a.virial, b.virial);
  EXPECT_EQ(a.atom_energy, b.atom_energy);
  EXPECT_EQ(a.force, b.force);
  EXPECT_EQ(a.atom_virial, b.atom_virial);
}

}  // namespace dpa4::native::testing
