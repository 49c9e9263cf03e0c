// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/with_degree.h"
#include "src/math/wigner.h"

namespace dpa4::cuda {

/// A thread computes an edge's numbers in shared memory (in registers they would not fit for the
/// larger degrees), then the block writes those of its edges in their order. Rows of shared memory
/// have an odd length, so that the threads of a warp fall into different banks.
template <int kLmax>
inline constexpr int kWignerRow = math::wigner_size(kLmax) | 1;
inline constexpr int kWignerEdges = 32;  // edges of a block

template <int kLmax, class Real>
__global__ void __launch_bounds__(kWignerEdges)
    wigner_rows_kernel(kernels::WignerRowsArgs<Real> args) {
  begin_kernel();
  constexpr int kSize = math::wigner_size(kLmax);
  __shared__ Real rows[kWignerEdges * kWignerRow<kLmax>];
  const int first = static_cast<int>(blockIdx.x) * kWignerEdges;
  const int count = min(kWignerEdges, args.count - first);
  const int edge = static_cast<int>(threadIdx.x);
  if (edge < count) {
    const Real* unit = args.unit + 3 * static_cast<std::int64_t>(first + edge);
    math::wigner_rows<kLmax>(unit[0], unit[1], unit[2], rows + edge * kWignerRow<kLmax>);
  }
  __syncthreads();
  Real* out = args.wigner + static_cast<std::int64_t>(first) * kSize;
  for (int k = edge; k < count * kSize; k += kWignerEdges) {
    out[k] = rows[k / kSize * kWignerRow<kLmax> + k % kSize];
  }
}

template <class Real>
void wigner_rows(const kernels::WignerRowsArgs<Real>& args, kernels::Stream stream) {
  with_degree(args.lmax, [&](auto degree) {
    launch("wigner_rows", wigner_rows_kernel<decltype(degree)::value, Real>,
           divide_up(args.count, kWignerEdges), kWignerEdges, 0, stream, args);
  });
}

DPA4_CUDA_INSTANTIATE(wigner_rows, WignerRowsArgs);

}  // namespace dpa4::cuda
