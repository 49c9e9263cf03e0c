// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "kernels/api/edge_condition_steps.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/radial_function.cuh"
#include "kernels/cuda/radial_table.h"
#include "kernels/cuda/vectors.cuh"

namespace dpa4::cuda {

// In float32 the net is read from a table (radial_table.h): a block has the table of 32 columns in
// shared memory, a warp has up to 32 edges, first a thread each, then several at once, as a lane
// reads four columns. What bounds it is reading the table: 16 bytes a lane, eight neighboring lanes
// always in different banks. In double, and where the table would not be accurate enough, the net
// is a composition of single operations.

inline constexpr int kConditionThreads = kTableEdges;  // more would not have registers enough
inline constexpr int kConditionWarps = kConditionThreads / kWarp;
inline constexpr int kConditionRound = 16;  // edges whose sums a warp makes at once
inline constexpr int kLaneColumns = 4;
inline constexpr int kNarrowColumns = kTableColumns / 2;
static_assert(kTableColumns == kWarp);

/// How the kernels share the work: blocks of a part of the table, as many as the device holds at
/// once, fewer for a narrow part; a warp has few edges at a time where there are not many.
struct ConditionGrid {
  int wide;                   // parts of all columns
  int blocks, narrow_blocks;  // of such a part, and of the narrow part
  int each = kConditionRound;

  ConditionGrid(int count, int width, int parts)
      : wide(part_columns(width, parts - 1) == kTableColumns ? parts : parts - 1) {
    const bool narrow = wide < parts;
    const int device = multiprocessors();
    // A narrow part is half the work.
    blocks = std::max(2 * device / (2 * wide + (narrow ? 1 : 0)), 1);
    narrow_blocks = narrow ? std::max(device - blocks * wide, 1) : 0;
    if (std::int64_t{blocks} * kConditionWarps * each < count) each = kWarp;
    const auto pieces = static_cast<int>(divide_up(count, each));
    blocks = std::max(std::min(blocks, pieces), 1);
    narrow_blocks = std::min(narrow_blocks, pieces);
  }
  std::int64_t all() const { return std::int64_t{blocks} * wide + narrow_blocks; }
};

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
  const float* table;  // at the columns of this lane
  TableEdge* edges;    // of this thread's warp
  int lane, part;
  bool wide;        // not the narrow part
  int first, step;  // of the warp's edges, `each` at a time
  int each;

  __device__ ConditionBlock(unsigned char* shared, const RadialTable& all,
                            const ConditionGrid& grid)
      : edges(reinterpret_cast<TableEdge*>(shared + sizeof(float) * table_part()) +
              threadIdx.x / kWarp * kWarp),
        lane(static_cast<int>(threadIdx.x) % kWarp),
        part(min(static_cast<int>(blockIdx.x) / grid.blocks, grid.wide)),
        wide(part < grid.wide),
        each(grid.each) {
    float4* const to = reinterpret_cast<float4*>(shared);
    table = reinterpret_cast<float*>(shared) + lane % (kTableColumns / kLaneColumns) * kLaneColumns;
    // Where there are few edges, they are spread over the blocks first.
    const int blocks = wide ? grid.blocks : grid.narrow_blocks;
    const int block = static_cast<int>(blockIdx.x) - part * grid.blocks;
    first = (static_cast<int>(threadIdx.x) / kWarp * blocks + block) * each;
    step = blocks * kConditionWarps * each;
    const auto* from =
        reinterpret_cast<const float4*>(all.data + static_cast<std::int64_t>(part) * table_part());
    for (int k = static_cast<int>(threadIdx.x); k < table_part() / 4; k += kConditionThreads) {
      to[k] = from[k];
    }
    __syncthreads();
  }
};

/// Four columns of a lane in rows of `width` numbers. kAligned: rows begin at multiples of 16
/// bytes.
template <bool kAligned>
struct LaneColumns {
  int first, width;

  __device__ bool any() const { return first < width; }
  __device__ __forceinline__ void load(const float* row, float (&values)[kLaneColumns]) const {
    if constexpr (kAligned) {
      const float4 v = *reinterpret_cast<const float4*>(row + first);
      values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
    } else {
#pragma unroll
      for (int v = 0; v < kLaneColumns; ++v) {
        values[v] = first + v < width ? row[first + v] : 0.0f;
      }
    }
  }
  __device__ __forceinline__ void store(float* row, const float (&values)[kLaneColumns]) const {
    if constexpr (kAligned) {
      store_numbers<kLaneColumns>(row + first, values);
    } else {
#pragma unroll
      for (int v = 0; v < kLaneColumns; ++v) {
        if (first + v < width) row[first + v] = values[v];
      }
    }
  }
};

/// The forward work of a block with a part of kColumns columns.
template <int kColumns, bool kAligned>
__device__ __forceinline__ void condition_edges(const kernels::EdgeConditionArgs<float>& args,
                                                const ConditionBlock& block,
                                                const TablePlace& place) {
  constexpr int kLanes = kColumns / kLaneColumns;  // of an edge
  constexpr int kTogether = kWarp / kLanes;        // edges
  const kernels::RadialShape& shape = args.net.shape;
  const std::int64_t width = args.net.width;
  const bool typed = args.net.src_table != nullptr;
  const LaneColumns<kAligned> columns{
      block.part * kTableColumns + block.lane % kLanes * kLaneColumns, args.net.width};
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
    for (int e = columns.any() ? block.lane / kLanes : count; e < count; e += kTogether) {
      const TableEdge edge = block.edges[e];
      const float* const terms = block.table + edge.terms;
      float offset[kLaneColumns] = {};
      if (typed) {
        float of_dst[kLaneColumns];
        columns.load(args.net.src_table + (edge.types >> 16) * width, offset);
        columns.load(args.net.dst_table + (edge.types & 0xffff) * width, of_dst);
#pragma unroll
        for (int v = 0; v < kLaneColumns; ++v) offset[v] += of_dst[v];
      }
      float value[kLaneColumns];
      load_numbers<kLaneColumns>(terms + (kTableTerms - 1) * kTableColumns, value);
#pragma unroll
      for (int m = kTableTerms - 2; m >= 0; --m) {
        float term[kLaneColumns];
        load_numbers<kLaneColumns>(terms + m * kTableColumns, term);
#pragma unroll
        for (int v = 0; v < kLaneColumns; ++v) value[v] = fmaf(value[v], edge.t, term[v]);
      }
#pragma unroll
      for (int v = 0; v < kLaneColumns; ++v) value[v] = fmaf(value[v], edge.factor, offset[v]);
      columns.store(args.y + (first + e) * width, value);
    }
    __syncwarp();
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kConditionThreads, 1)
    edge_condition_kernel(kernels::EdgeConditionArgs<float> args, RadialTable all, TablePlace place,
                          ConditionGrid grid) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char edge_condition_shared[];
  const ConditionBlock block(edge_condition_shared, all, grid);
  if (block.wide) {
    condition_edges<kTableColumns, kAligned>(args, block, place);
  } else {
    condition_edges<kNarrowColumns, kAligned>(args, block, place);
  }
}

/// The backward work of a block with a part of kColumns columns: for each edge the sums over the
/// columns of grad_y times the net's value, and times its derivative by t. partial (parts, count,
/// 2). A warp takes the edges in rounds: at the end of one a lane has one sum of one edge.
template <int kColumns, bool kAligned>
__device__ __forceinline__ void condition_sums(
    const kernels::EdgeConditionBackwardArgs<float>& args, const ConditionBlock& block,
    const TablePlace& place, float* partial) {
  constexpr int kLanes = kColumns / kLaneColumns;  // of an edge
  constexpr int kTogether = kWarp / kLanes;        // edges
  constexpr int kSteps = kLanes / 2;
  static_assert(kTogether * kSteps == kConditionRound);
  const int width = args.net.width;
  const LaneColumns<kAligned> columns{
      block.part * kTableColumns + block.lane % kLanes * kLaneColumns, width};
  for (int first = block.first; first < args.edges.count; first += block.step) {
    const int count = min(block.each, args.edges.count - first);
    const int last = first + min(block.lane, count - 1);
    {
      const EdgeLength edge(args.net.shape, args.vec, edge_at(args.edges, last));
      TableEdge& shared = block.edges[block.lane];
      shared.terms = place.find(edge.length, &shared.t) * kTableTerms * kTableColumns;
    }
    __syncwarp();
    const float* const grad_y = args.grad_y + static_cast<std::int64_t>(first) * width;
    for (int begin = 0; begin < count; begin += kConditionRound) {
      float sums[2 * kSteps];
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int e = min(begin + s * kTogether + block.lane / kLanes, count - 1);
        float grad[kLaneColumns] = {};
        if (columns.any()) columns.load(grad_y + e * width, grad);
        const TableEdge edge = block.edges[e];
        const float* const terms = block.table + edge.terms;
        float value[kLaneColumns], slope[kLaneColumns] = {};
        load_numbers<kLaneColumns>(terms + (kTableTerms - 1) * kTableColumns, value);
#pragma unroll
        for (int m = kTableTerms - 2; m >= 0; --m) {
          float term[kLaneColumns];
          load_numbers<kLaneColumns>(terms + m * kTableColumns, term);
#pragma unroll
          for (int v = 0; v < kLaneColumns; ++v) {
            slope[v] = fmaf(slope[v], edge.t, value[v]);
            value[v] = fmaf(value[v], edge.t, term[v]);
          }
        }
        sums[2 * s] = sums[2 * s + 1] = 0;
#pragma unroll
        for (int v = 0; v < kLaneColumns; ++v) {
          sums[2 * s] = fmaf(grad[v], value[v], sums[2 * s]);
          sums[2 * s + 1] = fmaf(grad[v], slope[v], sums[2 * s + 1]);
        }
      }
      fold_over_lanes<kSteps, 1>(sums);
      const int k = block.lane % kLanes;  // of the sums, which this lane has
      const int e = begin + k / 2 * kTogether + block.lane / kLanes;
      if (e < count) {
        const std::int64_t at =
            static_cast<std::int64_t>(block.part) * args.edges.count + first + e;
        partial[2 * at + k % 2] = sums[0];
      }
    }
    __syncwarp();
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kConditionThreads, 1)
    edge_condition_backward_kernel(kernels::EdgeConditionBackwardArgs<float> args, RadialTable all,
                                   TablePlace place, ConditionGrid grid, float* partial) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char edge_condition_shared[];
  const ConditionBlock block(edge_condition_shared, all, grid);
  if (block.wide) {
    condition_sums<kTableColumns, kAligned>(args, block, place, partial);
  } else {
    condition_sums<kNarrowColumns, kAligned>(args, block, place, partial);
  }
}

/// Adds up the parts and goes on to dE/dvec.
__global__ void __launch_bounds__(kBlock)
    edge_condition_gradient_kernel(kernels::EdgeConditionBackwardArgs<float> args, int parts,
                                   TablePlace place, const float* partial) {
  begin_kernel();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= args.edges.count) return;
  const kernels::RadialShape& shape = args.net.shape;
  // All that is read is asked for before the arithmetic, which waits for it once.
  const int number = edge_at(args.edges, static_cast<int>(i));
  const float factor = args.net.enveloped ? args.envelope[i] : 1.0f;
  float grad_envelope = args.grad_envelope != nullptr ? args.grad_envelope[i] : 0.0f;
  const float grad_length = args.grad_length != nullptr ? args.grad_length[i] : 0.0f;
  float unit[3], torque[3], grad_vec[3];
  float* const sum = args.grad_vec + 3 * static_cast<std::int64_t>(number);
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    unit[a] = args.grad_unit != nullptr ? args.grad_unit[3 * i + a] : 0.0f;
    torque[a] = args.torque != nullptr ? args.torque[3 * i + a] : 0.0f;
    grad_vec[a] = sum[a];
  }
  constexpr int kPartsAhead = 4;
  const auto sums_of = [&](int part) {
    return partial + 2 * (static_cast<std::int64_t>(part) * args.edges.count + i);
  };
  float value[kPartsAhead], slope[kPartsAhead];
#pragma unroll
  for (int part = 0; part < kPartsAhead; ++part) {
    value[part] = part < parts ? sums_of(part)[0] : 0.0f;
    slope[part] = part < parts ? sums_of(part)[1] : 0.0f;
  }
  const EdgeLength edge(shape, args.vec, number);
  float along_value = 0, along_slope = 0;
#pragma unroll
  for (int part = 0; part < kPartsAhead; ++part) {
    along_value += value[part];
    along_slope += slope[part];
  }
  for (int part = kPartsAhead; part < parts; ++part) {
    along_value += sums_of(part)[0];
    along_slope += sums_of(part)[1];
  }
  if (args.net.enveloped) grad_envelope += along_value;
  const double radial =
      2.0 * factor * along_slope * place.per_length +
      grad_envelope * math::envelope_dr(edge.length, shape.envelope_rcut, shape.envelope_exponent) +
      grad_length;
  const double unit_gradient[3] = {unit[0], unit[1], unit[2]};
  const double edge_torque[3] = {torque[0], torque[1], torque[2]};
  add_edge_gradient(shape, edge, radial, unit_gradient, edge_torque, grad_vec);
#pragma unroll
  for (int a = 0; a < 3; ++a) sum[a] = grad_vec[a];
}

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
    if (args.edges.count == 0) return;
    const ConditionGrid grid(args.edges.count, args.net.width, table.parts);
    const bool aligned = args.net.width % kLaneColumns == 0 && is_aligned<kLaneColumns>(args.y) &&
                         is_aligned<kLaneColumns>(args.net.src_table) &&
                         is_aligned<kLaneColumns>(args.net.dst_table);
    launch("edge_condition", aligned ? edge_condition_kernel<true> : edge_condition_kernel<false>,
           grid.all(), kConditionThreads, kTableShared, stream, args, table,
           TablePlace(args.net.shape), grid);
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
    if (args.edges.count == 0) return;
    const TablePlace place(args.net.shape);
    const ConditionGrid grid(args.edges.count, args.net.width, table.parts);
    const bool aligned =
        args.net.width % kLaneColumns == 0 && is_aligned<kLaneColumns>(args.grad_y);
    launch("edge_condition_backward",
           aligned ? edge_condition_backward_kernel<true> : edge_condition_backward_kernel<false>,
           grid.all(), kConditionThreads, kTableShared, stream, args, table, place, grid,
           args.work);
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
