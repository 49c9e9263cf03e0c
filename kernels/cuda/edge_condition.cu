// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "kernels/api/edge_condition_steps.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/radial_function.cuh"
#include "kernels/cuda/radial_table.h"

namespace dpa4::cuda {

// In float32 the net is read from a table (radial_table.h): a block has the table of 32 columns in
// shared memory, a warp has up to 32 edges, first a thread each, then one after another with a
// thread a column. In double, and where the table would not be accurate enough, the net is a
// composition of single operations.

inline constexpr int kConditionThreads = kTableEdges;
inline constexpr int kConditionWarps = kConditionThreads / kWarp;
inline constexpr int kEdgesAtOnce = 4;
static_assert(kTableColumns == kWarp);

/// Where the lengths of edges are in the table.
struct TablePlace {
  double per_length;  // intervals

  explicit TablePlace(const kernels::RadialShape& shape)
      : per_length(kTableIntervals / shape.rcut) {}

  /// The interval and t = -1..1 in it.
  __device__ int find(double length, float* t) const {
    const double x = length * per_length;
    const int interval = min(static_cast<int>(x), kTableIntervals - 1);
    *t = static_cast<float>(2 * (x - interval) - 1);
    return interval;
  }
};

/// Shared memory of a block, and the edges that come to it.
struct ConditionBlock {
  float* table;
  TableEdge* edges;  // of this thread's warp
  int lane, part, column;
  int each;         // edges at a time
  int first, step;  // of the warp's edges

  __device__ ConditionBlock(unsigned char* shared, const RadialTable& all, int edges_each)
      : table(reinterpret_cast<float*>(shared)),
        edges(reinterpret_cast<TableEdge*>(table + table_part()) + threadIdx.x / kWarp * kWarp),
        lane(static_cast<int>(threadIdx.x) % kWarp),
        part(static_cast<int>(blockIdx.x) % all.parts),
        column(part * kTableColumns + lane),
        each(edges_each) {
    const int blocks = static_cast<int>(gridDim.x) / all.parts;
    const int block = static_cast<int>(blockIdx.x) / all.parts;
    first = (block * kConditionWarps + static_cast<int>(threadIdx.x) / kWarp) * each;
    step = blocks * kConditionWarps * each;
    const auto* from =
        reinterpret_cast<const float4*>(all.data + static_cast<std::int64_t>(part) * table_part());
    for (int k = static_cast<int>(threadIdx.x); k < table_part() / 4; k += kConditionThreads) {
      reinterpret_cast<float4*>(table)[k] = from[k];
    }
    __syncthreads();
  }
};

__global__ void __launch_bounds__(kConditionThreads, 1)
    edge_condition_kernel(kernels::EdgeConditionArgs<float> args, RadialTable all, TablePlace place,
                          int edges_each) {
  extern __shared__ __align__(16) unsigned char edge_condition_shared[];
  const ConditionBlock block(edge_condition_shared, all, edges_each);
  const kernels::RadialShape& shape = args.net.shape;
  const int width = args.net.width;
  const bool typed = args.net.src_table != nullptr;
  const bool active = block.column < width;
  const int column = active ? block.column : 0;
  for (int first = block.first; first < args.edges.count; first += block.step) {
    const int count = min(block.each, args.edges.count - first);
    if (block.lane < count) {
      const std::int64_t i = first + block.lane;
      const int number = edge_at(args.edges, static_cast<int>(i));
      const EdgeLength edge(shape, args.vec, number);
      const auto envelope = static_cast<float>(
          math::envelope(edge.length, shape.envelope_rcut, shape.envelope_exponent));
      TableEdge& shared = block.edges[block.lane];
      shared.terms = place.find(edge.length, &shared.t) * kTableTerms * kTableColumns;
      shared.factor = args.net.enveloped ? envelope : 1.0f;
      shared.types =
          typed ? args.type[args.edges.src[number]] << 16 | args.type[args.edges.dst[number]] : 0;
      if (block.part == 0) {
        const double inverse = 1 / edge.norm;
        float* unit = args.unit + 3 * i;
        unit[0] = static_cast<float>(edge.x * inverse);
        unit[1] = static_cast<float>(edge.y * inverse);
        unit[2] = static_cast<float>(edge.z * inverse);
        args.envelope[i] = envelope;
        if (args.length != nullptr) args.length[i] = static_cast<float>(edge.length);
      }
    }
    __syncwarp();
    float* y = args.y + static_cast<std::int64_t>(first) * width + column;
#pragma unroll kEdgesAtOnce
    for (int e = 0; e < count; ++e) {
      const TableEdge edge = block.edges[e];
      const float* terms = block.table + edge.terms + block.lane;
      float value = terms[(kTableTerms - 1) * kTableColumns];
#pragma unroll
      for (int m = kTableTerms - 2; m >= 0; --m) {
        value = value * edge.t + terms[m * kTableColumns];
      }
      value *= edge.factor;
      if (typed) {
        value += __ldg(args.net.src_table + (edge.types >> 16) * width + column) +
                 __ldg(args.net.dst_table + (edge.types & 0xffff) * width + column);
      }
      if (active) y[static_cast<std::int64_t>(e) * width] = value;
    }
    __syncwarp();
  }
}

/// For each edge the sums over the columns of a part: of grad_y times the net's value, and times
/// its derivative by t. partial (parts, count, 2).
__global__ void __launch_bounds__(kConditionThreads, 1)
    edge_condition_backward_kernel(kernels::EdgeConditionBackwardArgs<float> args, RadialTable all,
                                   TablePlace place, int edges_each, float* partial) {
  extern __shared__ __align__(16) unsigned char edge_condition_shared[];
  const ConditionBlock block(edge_condition_shared, all, edges_each);
  const int width = args.net.width;
  const bool active = block.column < width;
  const int column = active ? block.column : 0;
  constexpr int kSums = 2 * kEdgesAtOnce;
  for (int first = block.first; first < args.edges.count; first += block.step) {
    const int count = min(block.each, args.edges.count - first);
    const int last = first + min(block.lane, count - 1);
    {
      const EdgeLength edge(args.net.shape, args.vec, edge_at(args.edges, last));
      TableEdge& shared = block.edges[block.lane];
      shared.terms = place.find(edge.length, &shared.t) * kTableTerms * kTableColumns;
    }
    __syncwarp();
    const float* grad_y = args.grad_y + static_cast<std::int64_t>(first) * width + column;
    float* out = partial + 2 * (static_cast<std::int64_t>(block.part) * args.edges.count + first);
    for (int begin = 0; begin < count; begin += kEdgesAtOnce) {
      float sums[kSums];
#pragma unroll
      for (int e = 0; e < kEdgesAtOnce; ++e) {
        const int at = min(begin + e, count - 1);
        const float grad = active ? grad_y[static_cast<std::int64_t>(at) * width] : 0.0f;
        const TableEdge edge = block.edges[at];
        const float* terms = block.table + edge.terms + block.lane;
        float value = terms[(kTableTerms - 1) * kTableColumns], slope = 0;
#pragma unroll
        for (int m = kTableTerms - 2; m >= 0; --m) {
          slope = slope * edge.t + value;
          value = value * edge.t + terms[m * kTableColumns];
        }
        sums[2 * e] = grad * value;
        sums[2 * e + 1] = grad * slope;
      }
      const float sum = warp_sum_each(sums);
      const int k = block.lane / (kWarp / kSums);
      if (block.lane % (kWarp / kSums) == 0 && begin + k / 2 < count) out[2 * begin + k] = sum;
    }
    __syncwarp();
  }
}

/// Adds up the parts and goes on to dE/dvec.
__global__ void __launch_bounds__(kBlock)
    edge_condition_gradient_kernel(kernels::EdgeConditionBackwardArgs<float> args, int parts,
                                   TablePlace place, const float* partial) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= args.edges.count) return;
  const kernels::RadialShape& shape = args.net.shape;
  float along_value = 0, along_slope = 0;
  for (int part = 0; part < parts; ++part) {
    const float* sums = partial + 2 * (static_cast<std::int64_t>(part) * args.edges.count + i);
    along_value += sums[0];
    along_slope += sums[1];
  }
  const int number = edge_at(args.edges, static_cast<int>(i));
  const EdgeLength edge(shape, args.vec, number);
  const double factor = args.net.enveloped ? args.envelope[i] : 1.0f;
  double radial = factor * along_slope * 2 * place.per_length;
  float grad_envelope = args.grad_envelope != nullptr ? args.grad_envelope[i] : 0.0f;
  if (args.net.enveloped) grad_envelope += along_value;
  radial +=
      grad_envelope * math::envelope_dr(edge.length, shape.envelope_rcut, shape.envelope_exponent);
  if (args.grad_length != nullptr) radial += args.grad_length[i];
  double unit[3] = {0, 0, 0}, torque[3] = {0, 0, 0};
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    if (args.grad_unit != nullptr) unit[a] = args.grad_unit[3 * i + a];
    if (args.torque != nullptr) torque[a] = args.torque[3 * i + a];
  }
  add_edge_gradient(shape, edge, radial, unit, torque,
                    args.grad_vec + 3 * static_cast<std::int64_t>(number));
}

/// How the kernels above share the work: blocks in whole sets of parts, as many as the device holds
/// at once, and warps with few edges at a time where there are not many.
struct ConditionGrid {
  int each = kEdgesAtOnce;
  std::int64_t blocks;

  ConditionGrid(int count, int parts) {
    const std::int64_t sets = std::max(multiprocessors() / parts, 1);
    while (each < kWarp && sets * kConditionWarps * each < count) each *= 2;
    blocks = std::min(divide_up(count, kConditionWarps * each), sets) * parts;
  }
};

/// The table of a net, if it is to be used.
template <class Real>
RadialTable table_of(const kernels::EdgeConditionNet<Real>& net) {
  if constexpr (sizeof(Real) == 4) {
    return radial_table(net);
  } else {
    static_cast<void>(net);
    return {};
  }
}

template <Arithmetic kArithmetic, class Real>
std::int64_t edge_condition_work(const kernels::EdgeConditionNet<Real>& net, int count,
                                 bool backward) {
  const RadialTable table = table_of(net);
  if (table.data == nullptr) return kernels::EdgeConditionArrays<Real>::size(net, count, backward);
  return backward ? std::int64_t{2} * table.parts * count : 0;
}

/// The operations of the composition.
template <Arithmetic kArithmetic, class Real>
const kernels::KernelTable<Real>& edge_condition_operations() {
  static const kernels::KernelTable<Real> operations = [] {
    kernels::KernelTable<Real> table;
    table.gemm = gemm<kArithmetic, Real>;
    table.edge_geometry = edge_geometry<Real>;
    table.edge_geometry_backward = edge_geometry_backward<Real>;
    table.rms_norm_silu = rms_norm_silu<Real>;
    table.rms_norm_silu_backward = rms_norm_silu_backward<Real>;
    table.pair_bias = pair_bias<Real>;
    table.pair_bias_backward = pair_bias_backward<Real>;
    return table;
  }();
  return operations;
}

template <Arithmetic kArithmetic, class Real>
void edge_condition(const kernels::EdgeConditionArgs<Real>& args, kernels::Stream stream) {
  const RadialTable table = table_of(args.net);
  if (table.data == nullptr) {
    kernels::edge_condition_steps(edge_condition_operations<kArithmetic, Real>(), args, stream);
  } else if constexpr (sizeof(Real) == 4) {
    const ConditionGrid grid(args.edges.count, table.parts);
    launch("edge_condition", edge_condition_kernel, grid.blocks, kConditionThreads, kTableShared,
           stream, args, table, TablePlace(args.net.shape), grid.each);
  }
}

template <Arithmetic kArithmetic, class Real>
void edge_condition_backward(const kernels::EdgeConditionBackwardArgs<Real>& args,
                             kernels::Stream stream) {
  const RadialTable table = table_of(args.net);
  if (table.data == nullptr) {
    kernels::edge_condition_backward_steps(edge_condition_operations<kArithmetic, Real>(), args,
                                           stream);
  } else if constexpr (sizeof(Real) == 4) {
    const TablePlace place(args.net.shape);
    const ConditionGrid grid(args.edges.count, table.parts);
    launch("edge_condition_backward", edge_condition_backward_kernel, grid.blocks,
           kConditionThreads, kTableShared, stream, args, table, place, grid.each, args.work);
    launch("edge_condition_backward", edge_condition_gradient_kernel,
           divide_up(args.edges.count, kBlock), kBlock, 0, stream, args, table.parts, place,
           static_cast<const float*>(args.work));
  }
}

#define DPA4_INSTANTIATE(arithmetic, Real)                                                      \
  template std::int64_t edge_condition_work<arithmetic>(const kernels::EdgeConditionNet<Real>&, \
                                                        int, bool);                             \
  template void edge_condition<arithmetic>(const kernels::EdgeConditionArgs<Real>&,             \
                                           kernels::Stream);                                    \
  template void edge_condition_backward<arithmetic>(                                            \
      const kernels::EdgeConditionBackwardArgs<Real>&, kernels::Stream)
DPA4_INSTANTIATE(Arithmetic::kPlain, float);
DPA4_INSTANTIATE(Arithmetic::kPlain, double);
DPA4_INSTANTIATE(Arithmetic::kSplit, float);
#undef DPA4_INSTANTIATE

}  // namespace dpa4::cuda
