// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/elementary.h"

namespace dpa4::cuda {

template <class Real>
void message_weight(const kernels::MessageWeightArgs<Real>& args, kernels::Stream stream) {
  const int weights = args.shape.weights();
  const bool attention = args.shape.n_heads > 0;
  for_rows("message_weight", args.edges.count, weights, stream, [=] __device__(int i, int h) {
    const int edge = edge_at(args.edges, i);
    Real& alpha = args.alpha[static_cast<std::int64_t>(i) * weights + h];
    if (!attention) {
      alpha = args.envelope[i] * (args.gate != nullptr ? args.gate[args.edges.src[edge]] : Real(1));
      return;
    }
    const std::int64_t dst = args.edges.dst[edge];
    alpha = math::exp_of(args.logit[static_cast<std::int64_t>(edge) * weights + h] -
                         args.lse[dst * weights + h]);
  });
}

/// Without attention: no sum over edges.
template <class Real>
void plain_weight_backward(const kernels::MessageWeightBackwardArgs<Real>& args,
                           kernels::Stream stream) {
  const int weights = args.shape.weights();
  for_items("message_weight_backward", args.edges.count, stream, [=] __device__(std::int64_t i) {
    const int src = args.edges.src[edge_at(args.edges, static_cast<int>(i))];
    Real sum = 0;
    for (int h = 0; h < weights; ++h) sum += args.grad_alpha[i * weights + h];
    args.grad_envelope[i] += (args.gate != nullptr ? args.gate[src] : Real(1)) * sum;
    if (args.grad_gate != nullptr) args.grad_gate[i] += args.envelope[i] * sum;
  });
}

/// Gradient of the logit of edge i.
template <class Real>
__device__ Real logit_gradient(const kernels::MessageWeightBackwardArgs<Real>& args, int weights,
                               int i, int dst, int h) {
  const std::int64_t at = static_cast<std::int64_t>(i) * weights + h;
  return args.alpha[at] *
         (args.grad_alpha[at] - args.row_sum[static_cast<std::int64_t>(dst) * weights + h]);
}

/// What an edge keeps for itself.
template <class Real>
__device__ void weight_edge_backward(const kernels::MessageWeightBackwardArgs<Real>& args,
                                     int weights, int i) {
  const int edge = edge_at(args.edges, i);
  const int dst = args.edges.dst[edge];
  Real sum = 0;
  for (int h = 0; h < weights; ++h) {
    const Real grad = logit_gradient(args, weights, i, dst, h);
    args.grad_logit[static_cast<std::int64_t>(edge) * weights + h] = grad;
    args.grad_radial[static_cast<std::int64_t>(i) * args.ld_radial + h] = grad;
    sum += grad;
  }
  const Real envelope = args.envelope[i];
  if (envelope > 0) args.grad_envelope[i] += 2 * sum / envelope;
  if (args.grad_gate != nullptr) {
    const Real gate = args.gate[args.edges.src[edge]];
    if (gate > 0) args.grad_gate[i] += sum / gate;
  }
}

template <class Real>
void message_weight_backward(const kernels::MessageWeightBackwardArgs<Real>& args,
                             kernels::Stream stream) {
  if (args.shape.n_heads == 0) return plain_weight_backward(args, stream);
  const int weights = args.shape.weights(), hidden = args.shape.hidden();
  const int head_width = hidden / weights;
  for_items("message_weight_backward", args.edges.count, stream, [=] __device__(std::int64_t i) {
    weight_edge_backward(args, weights, static_cast<int>(i));
  });
  node_sums<1, Real>(
      "message_weight_key_gradient", args.edges, hidden, stream,
      [=] __device__(int, int i, int c, Real* sum) {
        const int dst = args.edges.dst[edge_at(args.edges, i)];
        *sum += logit_gradient(args, weights, i, dst, c / head_width) *
                args.query[static_cast<std::int64_t>(dst) * hidden + c];
      },
      [=] __device__(int node, int c, const Real* sum) {
        const Real scale = Real(1) / math::sqrt_of(static_cast<Real>(head_width));
        args.grad_key[static_cast<std::int64_t>(node) * hidden + c] += scale * *sum;
      });
}

template <class Real>
void query_gradient(const kernels::QueryGradientArgs<Real>& args, kernels::Stream stream) {
  const int weights = args.shape.weights(), hidden = args.shape.hidden();
  const int head_width = hidden / weights;
  kernels::EdgeSlice edges;  // all edges
  edges.count = 2147483647;
  edges.begin = args.dst_begin;
  edges.node_first = args.node_first;
  edges.node_count = args.node_count;
  node_sums<1, Real>(
      "query_gradient", edges, hidden, stream,
      [=] __device__(int, int e, int c, Real* sum) {
        *sum += args.grad_logit[static_cast<std::int64_t>(e) * weights + c / head_width] *
                args.key[static_cast<std::int64_t>(args.src[e]) * hidden + c];
      },
      [=] __device__(int node, int c, const Real* sum) {
        const Real scale = Real(1) / math::sqrt_of(static_cast<Real>(head_width));
        args.grad_query[static_cast<std::int64_t>(node) * hidden + c] = scale * *sum;
      });
}

DPA4_CUDA_INSTANTIATE(message_weight, MessageWeightArgs);
DPA4_CUDA_INSTANTIATE(message_weight_backward, MessageWeightBackwardArgs);
DPA4_CUDA_INSTANTIATE(query_gradient, QueryGradientArgs);

}  // namespace dpa4::cuda
