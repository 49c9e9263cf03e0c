// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/radial_function.cuh"

namespace dpa4::cuda {

/// Edges of a block. A thread computes an edge, then the block writes the basis in its order. Rows
/// of shared memory have an odd length, so that the threads of a warp fall into different banks.
inline constexpr int kGeometryEdges = 128;
inline constexpr int kMostRadial = 64;

template <class Real>
__global__ void __launch_bounds__(kGeometryEdges)
    edge_geometry_kernel(kernels::EdgeGeometryArgs<Real> args) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char edge_geometry_shared[];
  Real* basis = reinterpret_cast<Real*>(edge_geometry_shared);
  const kernels::RadialShape& shape = args.shape;
  const int row = shape.n_radial | 1;
  const int first = static_cast<int>(blockIdx.x) * kGeometryEdges;
  const int count = min(kGeometryEdges, args.edges.count - first);
  if (static_cast<int>(threadIdx.x) < count) {
    const int i = first + static_cast<int>(threadIdx.x);
    const EdgeLength edge(shape, args.vec, edge_at(args.edges, i));
    const BasisCutoff cutoff(shape, edge.length);
    for (int n = 0; n < shape.n_radial; ++n) {
      basis[static_cast<int>(threadIdx.x) * row + n] = static_cast<Real>(
          radial_function(shape, edge.length, args.frequencies[n]) * cutoff.value);
    }
    const double inverse = 1 / edge.norm;
    args.length[i] = static_cast<Real>(edge.length);
    args.envelope[i] = static_cast<Real>(
        math::envelope(edge.length, shape.envelope_rcut, shape.envelope_exponent));
    Real* unit = args.unit + 3 * static_cast<std::int64_t>(i);
    unit[0] = static_cast<Real>(edge.x * inverse);
    unit[1] = static_cast<Real>(edge.y * inverse);
    unit[2] = static_cast<Real>(edge.z * inverse);
  }
  __syncthreads();
  Real* out = args.basis + static_cast<std::int64_t>(first) * shape.n_radial;
  for (int k = static_cast<int>(threadIdx.x); k < count * shape.n_radial; k += kGeometryEdges) {
    out[k] = basis[k / shape.n_radial * row + k % shape.n_radial];
  }
}

template <class Real>
void edge_geometry(const kernels::EdgeGeometryArgs<Real>& args, kernels::Stream stream) {
  const int n_radial = args.shape.n_radial;
  DPA4_EXPECTS(n_radial >= 1 && n_radial <= kMostRadial);
  launch("edge_geometry", edge_geometry_kernel<Real>, divide_up(args.edges.count, kGeometryEdges),
         kGeometryEdges, sizeof(Real) * static_cast<std::size_t>(kGeometryEdges * (n_radial | 1)),
         stream, args);
}

/// dE/dlength of an edge without the clamp.
template <class Real>
__device__ double length_gradient(const kernels::EdgeGeometryBackwardArgs<Real>& args, int i,
                                  double length) {
  const kernels::RadialShape& shape = args.shape;
  double radial = args.grad_length != nullptr ? args.grad_length[i] : 0.0;
  if (args.grad_envelope != nullptr) {
    radial += args.grad_envelope[i] *
              math::envelope_dr(length, shape.envelope_rcut, shape.envelope_exponent);
  }
  if (args.grad_basis == nullptr) return radial;
  const BasisCutoff cutoff(shape, length);
  const Real* grad_basis = args.grad_basis + static_cast<std::int64_t>(i) * shape.n_radial;
  for (int n = 0; n < shape.n_radial; ++n) {
    const double value = radial_function(shape, length, args.frequencies[n]);
    const double value_dr = radial_function_dr(shape, length, args.frequencies[n], value);
    radial += grad_basis[n] * (value_dr * cutoff.value + value * cutoff.derivative);
  }
  return radial;
}

template <class Real>
__device__ void edge_gradient(const kernels::EdgeGeometryBackwardArgs<Real>& args, int i) {
  const kernels::RadialShape& shape = args.shape;
  const int number = edge_at(args.edges, i);
  const EdgeLength edge(shape, args.vec, number);
  double unit[3] = {0, 0, 0}, torque[3] = {0, 0, 0};
  for (int a = 0; a < 3; ++a) {
    if (args.grad_unit != nullptr) unit[a] = args.grad_unit[3 * static_cast<std::int64_t>(i) + a];
    if (args.torque != nullptr) torque[a] = args.torque[3 * static_cast<std::int64_t>(i) + a];
  }
  add_edge_gradient(shape, edge, length_gradient(args, i, edge.length), unit, torque,
                    args.grad_vec + 3 * static_cast<std::int64_t>(number));
}

template <class Real>
void edge_geometry_backward(const kernels::EdgeGeometryBackwardArgs<Real>& args,
                            kernels::Stream stream) {
  for_items("edge_geometry_backward", args.edges.count, stream,
            [=] __device__(std::int64_t i) { edge_gradient(args, static_cast<int>(i)); });
}

DPA4_CUDA_INSTANTIATE(edge_geometry, EdgeGeometryArgs);
DPA4_CUDA_INSTANTIATE(edge_geometry_backward, EdgeGeometryBackwardArgs);

}  // namespace dpa4::cuda
