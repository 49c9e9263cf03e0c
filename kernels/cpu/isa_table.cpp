// SPDX-License-Identifier: GPL-2.0-or-later
// Compiled once for every instruction set and precision: DPA4_CPU_ISA names the former,
// DPA4_CPU_REAL the latter.
#include "kernels/cpu/isa.h"
// isa.h first: it decides how the formulas are compiled.
#include "kernels/api/kernel_table.h"
#include "kernels/cpu/attention_logits.h"
#include "kernels/cpu/edge_condition.h"
#include "kernels/cpu/edge_force.h"
#include "kernels/cpu/edge_geometry.h"
#include "kernels/cpu/edge_lists.h"
#include "kernels/cpu/energy_head.h"
#include "kernels/cpu/env_seed_sum.h"
#include "kernels/cpu/film.h"
#include "kernels/cpu/focus_weights.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/glu.h"
#include "kernels/cpu/grid_gate.h"
#include "kernels/cpu/grid_product.h"
#include "kernels/cpu/head_gate.h"
#include "kernels/cpu/message_weight.h"
#include "kernels/cpu/node_degree.h"
#include "kernels/cpu/pair_bias.h"
#include "kernels/cpu/rms_norm_silu.h"
#include "kernels/cpu/rotate_back_sum.h"
#include "kernels/cpu/rotate_mix.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scalar_norm.h"
#include "kernels/cpu/so2_stack.h"
#include "kernels/cpu/so3_norm.h"
#include "kernels/cpu/source_gate.h"
#include "kernels/cpu/wigner_rows.h"
#include "kernels/cpu/zbl_pair.h"
#include "kernels/cpu/zonal_sum.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

void fill_table(kernels::KernelTable<DPA4_CPU_REAL>& table) {
  using Real = DPA4_CPU_REAL;
  table.so2_stack_work = so2_stack_work;
  table.grid_product_work = grid_product_work;
  table.edge_condition_work = edge_condition_work<Real>;
  table.cut_nodes = cut_nodes<Real>;
  table.pad_edges = pad_edges<Real>;
  table.kept_rows = kept_rows<Real>;
  table.gemm = gemm<Real>;
  table.edge_geometry = edge_geometry<Real>;
  table.edge_geometry_backward = edge_geometry_backward<Real>;
  table.wigner_rows = wigner_rows<Real>;
  table.rms_norm_silu = rms_norm_silu<Real>;
  table.rms_norm_silu_backward = rms_norm_silu_backward<Real>;
  table.pair_bias = pair_bias<Real>;
  table.pair_bias_backward = pair_bias_backward<Real>;
  table.edge_condition = edge_condition<Real>;
  table.edge_condition_backward = edge_condition_backward<Real>;
  table.node_degree = node_degree<Real>;
  table.node_degree_backward = node_degree_backward<Real>;
  table.edge_degree_backward = edge_degree_backward<Real>;
  table.source_gate_partial = source_gate_partial<Real>;
  table.source_gate = source_gate<Real>;
  table.source_gate_sum = source_gate_sum<Real>;
  table.source_gate_backward = source_gate_backward<Real>;
  table.env_seed_sum = env_seed_sum<Real>;
  table.env_seed_sum_backward = env_seed_sum_backward<Real>;
  table.zonal_sum = zonal_sum<Real>;
  table.zonal_sum_backward = zonal_sum_backward<Real>;
  table.film_gram = film_gram<Real>;
  table.film_gram_backward = film_gram_backward<Real>;
  table.film_apply = film_apply<Real>;
  table.film_apply_backward = film_apply_backward<Real>;
  table.so3_norm = so3_norm<Real>;
  table.so3_norm_backward = so3_norm_backward<Real>;
  table.scalar_norm = scalar_norm<Real>;
  table.scalar_norm_backward = scalar_norm_backward<Real>;
  table.attention_logits = attention_logits<Real>;
  table.attention_lse = attention_lse<Real>;
  table.message_weight = message_weight<Real>;
  table.message_weight_backward = message_weight_backward<Real>;
  table.query_gradient = query_gradient<Real>;
  table.rotate_mix = rotate_mix<Real>;
  table.rotate_mix_backward = rotate_mix_backward<Real>;
  table.focus_weights = focus_weights<Real>;
  table.focus_weights_backward = focus_weights_backward<Real>;
  table.so2_stack = so2_stack<Real>;
  table.so2_stack_backward = so2_stack_backward<Real>;
  table.rotate_back_sum = rotate_back_sum<Real>;
  table.rotate_back_sum_backward = rotate_back_sum_backward<Real>;
  table.head_gate = head_gate<Real>;
  table.head_gate_backward = head_gate_backward<Real>;
  table.grid_product = grid_product<Real>;
  table.grid_product_backward = grid_product_backward<Real>;
  table.grid_router = grid_router<Real>;
  table.grid_router_backward = grid_router_backward<Real>;
  table.grid_mean = grid_mean<Real>;
  table.grid_mean_backward = grid_mean_backward<Real>;
  table.grid_gate = grid_gate<Real>;
  table.grid_gate_backward = grid_gate_backward<Real>;
  table.glu = glu<Real>;
  table.glu_backward = glu_backward<Real>;
  table.rows = rows<Real>;
  table.type_rows = type_rows<Real>;
  table.energy_head = energy_head<Real>;
  table.zbl_pair = zbl_pair<Real>;
  table.edge_force = edge_force<Real>;
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
