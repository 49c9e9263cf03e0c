// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/step_arrays.h"

namespace dpa4::native {

template <class Real>
void StepArrays<Real>::lay_out(Carver& carver, const ArraySizes& sizes, const StepCounts& counts) {
  const std::int64_t owned = counts.owned, nodes = counts.nodes, edges = counts.edges;
  if (sizes.mirrors) {
    type = carver.take<int>(nodes);
    src = carver.take<int>(edges);
    dst = carver.take<int>(edges);
    dst_begin = carver.take<int>(owned + 1);
    by_src = carver.take<int>(edges);
    src_begin = carver.take<int>(nodes + 1);
    vec = carver.take<double>(3 * edges);
    aparam = carver.take<Real>(owned * sizes.n_aparam);
  }
  inputs.clear();
  sums.clear();
  lses.clear();
  for (const ArraySizes::Block& block : sizes.blocks) {
    inputs.push_back(carver.take<Real>(nodes * block.row));
    sums.push_back(carver.take<Real>(owned * block.hidden_row));
    lses.push_back(carver.take<Real>(owned * block.weights));
  }
  if (sizes.blocks.empty()) inputs.push_back(carver.take<Real>(nodes * sizes.row));
  kappa = carver.take<Real>(owned);
  environment = carver.take<Real>(owned * 4 * sizes.environment);
  grad_environment = carver.take<Real>(owned * 4 * sizes.environment);
  grad_degree = carver.take<Real>(owned);
  grad_kappa = carver.take<Real>(owned);
  if (sizes.gate) {
    gate_partial = carver.take<Real>(2 * nodes);
    gate = carver.take<Real>(nodes);
    grad_gate = carver.take<Real>(nodes);
  }
  grad_x = carver.take<Real>(nodes * sizes.row);
  features = carver.take<Real>(nodes * sizes.hidden_row);
  query = carver.take<Real>(nodes * sizes.hidden);
  key = carver.take<Real>(nodes * sizes.hidden);
  logit = carver.take<Real>(edges * sizes.weights);
  grad_sum = carver.take<Real>(owned * sizes.hidden_row);
  row_sum = carver.take<Real>(owned * sizes.weights);
  grad_features = carver.take<Real>(nodes * sizes.hidden_row);
  grad_query = carver.take<Real>(nodes * sizes.hidden);
  grad_key = carver.take<Real>(nodes * sizes.hidden);
  grad_vec = carver.take<Real>(3 * edges);
  energy = carver.take<double>(owned);
  force = carver.take<double>(3 * nodes);
  node_virial = carver.take<double>(9 * nodes);
}

template struct StepArrays<float>;
template struct StepArrays<double>;

}  // namespace dpa4::native
