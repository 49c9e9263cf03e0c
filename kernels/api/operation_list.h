// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

/// apply(NAME) for every operation of a KernelTable (kernel_table.h), for what is done to all of
/// them alike: timing, recording.
#define DPA4_FOR_EACH_OPERATION(apply)                                                            \
  apply(cut_nodes) apply(pad_edges) apply(kept_rows) apply(gemm) apply(edge_geometry) apply(      \
      edge_geometry_backward) apply(wigner_rows) apply(rms_norm_silu)                             \
      apply(rms_norm_silu_backward) apply(pair_bias) apply(pair_bias_backward) apply(             \
          edge_condition) apply(edge_condition_backward) apply(node_degree)                       \
          apply(node_degree_backward) apply(edge_degree_backward) apply(                          \
              source_gate_partial) apply(source_gate) apply(source_gate_sum)                      \
              apply(source_gate_backward) apply(env_seed_sum) apply(env_seed_sum_backward) apply( \
                  zonal_sum) apply(zonal_sum_backward) apply(film_gram) apply(film_gram_backward) \
                  apply(film_apply) apply(film_apply_backward) apply(so3_norm) apply(             \
                      so3_norm_backward) apply(scalar_norm) apply(scalar_norm_backward)           \
                      apply(attention_logits) apply(attention_lse) apply(message_weight) apply(   \
                          message_weight_backward) apply(query_gradient) apply(rotate_mix)        \
                          apply(rotate_mix_backward) apply(focus_weights) apply(                  \
                              focus_weights_backward) apply(so2_stack) apply(so2_stack_backward)  \
                              apply(rotate_back_sum) apply(rotate_back_sum_backward)              \
                                  apply(head_gate) apply(head_gate_backward) apply(grid_product)  \
                                      apply(grid_product_backward) apply(grid_router)             \
                                          apply(grid_router_backward) apply(grid_mean)            \
                                              apply(grid_mean_backward) apply(grid_gate)          \
                                                  apply(grid_gate_backward) apply(glu)            \
                                                      apply(glu_backward) apply(rows)             \
                                                          apply(type_rows) apply(energy_head)     \
                                                              apply(zbl_pair) apply(edge_force)
