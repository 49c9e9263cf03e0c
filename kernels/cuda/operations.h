// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/kernel_table.h"
#include "kernels/cuda/cuda_backend.h"

/// The operations of the CUDA backend; contracts in kernels/api. Each is made for float and double
/// in the file of its name.
namespace dpa4::cuda {

std::int64_t so2_stack_work(const kernels::MessageShape& shape);
template <Arithmetic kArithmetic>
std::int64_t grid_product_work(const kernels::GridShape& shape);

template <class Real>
void cut_nodes(const kernels::CutNodesArgs<Real>& args, kernels::Stream stream);
template <class Real>
void pad_edges(const kernels::PadEdgesArgs<Real>& args, kernels::Stream stream);
template <class Real>
void kept_rows(const kernels::KeptRowsArgs<Real>& args, kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
void gemm(const kernels::GemmArgs<Real>& args, kernels::Stream stream);
template <class Real>
void edge_geometry(const kernels::EdgeGeometryArgs<Real>& args, kernels::Stream stream);
template <class Real>
void edge_geometry_backward(const kernels::EdgeGeometryBackwardArgs<Real>& args,
                            kernels::Stream stream);
template <class Real>
void wigner_rows(const kernels::WignerRowsArgs<Real>& args, kernels::Stream stream);
template <class Real>
void rms_norm_silu(const kernels::RmsNormSiluArgs<Real>& args, kernels::Stream stream);
template <class Real>
void rms_norm_silu_backward(const kernels::RmsNormSiluBackwardArgs<Real>& args,
                            kernels::Stream stream);
template <class Real>
void pair_bias(const kernels::PairBiasArgs<Real>& args, kernels::Stream stream);
template <class Real>
void pair_bias_backward(const kernels::PairBiasBackwardArgs<Real>& args, kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
std::int64_t edge_condition_work(const kernels::EdgeConditionNet<Real>& net, int count,
                                 bool backward);
template <Arithmetic kArithmetic, class Real>
void edge_condition(const kernels::EdgeConditionArgs<Real>& args, kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
void edge_condition_backward(const kernels::EdgeConditionBackwardArgs<Real>& args,
                             kernels::Stream stream);
template <class Real>
void node_degree(const kernels::NodeDegreeArgs<Real>& args, kernels::Stream stream);
template <class Real>
void node_degree_backward(const kernels::NodeDegreeBackwardArgs<Real>& args,
                          kernels::Stream stream);
template <class Real>
void edge_degree_backward(const kernels::EdgeDegreeBackwardArgs<Real>& args,
                          kernels::Stream stream);
template <class Real>
void source_gate_partial(const kernels::SourceGatePartialArgs<Real>& args, kernels::Stream stream);
template <class Real>
void source_gate(const kernels::SourceGateArgs<Real>& args, kernels::Stream stream);
template <class Real>
void source_gate_sum(const kernels::SourceGateSumArgs<Real>& args, kernels::Stream stream);
template <class Real>
void source_gate_backward(const kernels::SourceGateBackwardArgs<Real>& args,
                          kernels::Stream stream);
template <class Real>
void env_seed_sum(const kernels::EnvSeedSumArgs<Real>& args, kernels::Stream stream);
template <class Real>
void env_seed_sum_backward(const kernels::EnvSeedSumBackwardArgs<Real>& args,
                           kernels::Stream stream);
template <class Real>
void zonal_sum(const kernels::ZonalSumArgs<Real>& args, kernels::Stream stream);
template <class Real>
void zonal_sum_backward(const kernels::ZonalSumBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void film_gram(const kernels::FilmGramArgs<Real>& args, kernels::Stream stream);
template <class Real>
void film_gram_backward(const kernels::FilmGramBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void film_apply(const kernels::FilmApplyArgs<Real>& args, kernels::Stream stream);
template <class Real>
void film_apply_backward(const kernels::FilmApplyBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void so3_norm(const kernels::So3NormArgs<Real>& args, kernels::Stream stream);
template <class Real>
void so3_norm_backward(const kernels::So3NormBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void scalar_norm(const kernels::ScalarNormArgs<Real>& args, kernels::Stream stream);
template <class Real>
void scalar_norm_backward(const kernels::ScalarNormBackwardArgs<Real>& args,
                          kernels::Stream stream);
template <class Real>
void attention_logits(const kernels::AttentionLogitsArgs<Real>& args, kernels::Stream stream);
template <class Real>
void attention_lse(const kernels::AttentionLseArgs<Real>& args, kernels::Stream stream);
template <class Real>
void message_weight(const kernels::MessageWeightArgs<Real>& args, kernels::Stream stream);
template <class Real>
void message_weight_backward(const kernels::MessageWeightBackwardArgs<Real>& args,
                             kernels::Stream stream);
template <class Real>
void query_gradient(const kernels::QueryGradientArgs<Real>& args, kernels::Stream stream);
template <class Real>
void rotate_mix(const kernels::RotateMixArgs<Real>& args, kernels::Stream stream);
template <class Real>
void rotate_mix_backward(const kernels::RotateMixBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void focus_weights(const kernels::FocusWeightsArgs<Real>& args, kernels::Stream stream);
template <class Real>
void focus_weights_backward(const kernels::FocusWeightsBackwardArgs<Real>& args,
                            kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
void so2_stack(const kernels::So2StackArgs<Real>& args, kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
void so2_stack_backward(const kernels::So2StackBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void rotate_back_sum(const kernels::RotateBackSumArgs<Real>& args, kernels::Stream stream);
template <class Real>
void rotate_back_sum_backward(const kernels::RotateBackSumBackwardArgs<Real>& args,
                              kernels::Stream stream);
template <class Real>
void head_gate(const kernels::HeadGateArgs<Real>& args, kernels::Stream stream);
template <class Real>
void head_gate_backward(const kernels::HeadGateBackwardArgs<Real>& args, kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
void grid_product(const kernels::GridProductArgs<Real>& args, kernels::Stream stream);
template <Arithmetic kArithmetic, class Real>
void grid_product_backward(const kernels::GridProductBackwardArgs<Real>& args,
                           kernels::Stream stream);
template <class Real>
void grid_router(const kernels::GridRouterArgs<Real>& args, kernels::Stream stream);
template <class Real>
void grid_router_backward(const kernels::GridRouterBackwardArgs<Real>& args,
                          kernels::Stream stream);
template <class Real>
void grid_mean(const kernels::GridMeanArgs<Real>& args, kernels::Stream stream);
template <class Real>
void grid_mean_backward(const kernels::GridMeanBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void grid_gate(const kernels::GridGateArgs<Real>& args, kernels::Stream stream);
template <class Real>
void grid_gate_backward(const kernels::GridGateBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void glu(const kernels::GluArgs<Real>& args, kernels::Stream stream);
template <class Real>
void glu_backward(const kernels::GluBackwardArgs<Real>& args, kernels::Stream stream);
template <class Real>
void rows(const kernels::RowsArgs<Real>& args, kernels::Stream stream);
template <class Real>
void type_rows(const kernels::TypeRowsArgs<Real>& args, kernels::Stream stream);
template <class Real>
void energy_head(const kernels::EnergyHeadArgs<Real>& args, kernels::Stream stream);
template <class Real>
void zbl_pair(const kernels::ZblPairArgs<Real>& args, kernels::Stream stream);
template <class Real>
void edge_force(const kernels::EdgeForceArgs<Real>& args, kernels::Stream stream);

}  // namespace dpa4::cuda
