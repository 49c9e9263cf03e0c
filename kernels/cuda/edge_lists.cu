// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace dpa4::cuda {

template <class Real>
void cut_nodes(const kernels::CutNodesArgs<Real>& args, kernels::Stream stream) {
  for_items("cut_nodes", 1, stream, [=] __device__(std::int64_t) { kernels::write_cuts(args); });
}

template <class Real>
void pad_edges(const kernels::PadEdgesArgs<Real>& args, kernels::Stream stream) {
  for_items("pad_edges", args.count, stream, [=] __device__(std::int64_t i) {
    const std::int64_t e = args.first + i;
    args.src[e] = args.dst[e] = 0;
    args.by_src[e] = static_cast<int>(e);
    args.vec[3 * e] = args.length;
    args.vec[3 * e + 1] = args.vec[3 * e + 2] = 0;
  });
}

template <class Real>
void kept_rows(const kernels::KeptRowsArgs<Real>& args, kernels::Stream stream) {
  for_items("kept_rows", args.count, stream, [=] __device__(std::int64_t p) {
    args.row[args.by_src[p]] = p < args.n_kept ? static_cast<int>(p) : -1;
  });
}

DPA4_CUDA_INSTANTIATE(cut_nodes, CutNodesArgs);
DPA4_CUDA_INSTANTIATE(pad_edges, PadEdgesArgs);
DPA4_CUDA_INSTANTIATE(kept_rows, KeptRowsArgs);

}  // namespace dpa4::cuda
