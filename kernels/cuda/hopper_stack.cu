// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/hopper_stack.h"

#include <tuple>
#include <vector>

#include "kernels/cuda/devices.h"
#include "kernels/cuda/hopper_stack_kernels.h"
#include "kernels/cuda/hopper_stack_weights.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/split_gemm.cuh"
#include "kernels/cuda/split_weights.h"
#include "kernels/cuda/weight_cache.h"

namespace dpa4::cuda {

namespace {

/// Sizes of a part of the rows.
struct PartSize {
  int columns, width, gates;

  PartSize(const kernels::MessageShape& shape, StackPart part)
      : columns(part == StackPart::kScalar ? (shape.lmax + 1) * shape.width
                                           : 2 * shape.lmax * shape.width),
        width(shape.width),
        gates(shape.lmax * shape.width) {}
};

/// The kernel for the part, or null.
const StackKernel* find_kernel(const kernels::MessageShape& shape, StackPart part, bool backward) {
  const PartSize size(shape, part);
  for (const StackKernel& kernel : hopper_stack_kernels(part, backward)) {
    if (kernel.plan.scalars == size.width && kernel.plan.width == size.columns) return &kernel;
  }
  return nullptr;
}

// ---- weights

/// Where row or column `slot` of a chunk comes from in a matrix; negative: nowhere, zero.
struct SlotMap {
  int own = 0;     // slots of a warpgroup; 0: slots are in the order of the matrix
  int shift = 0;   // subtracted
  int limit = 0;   // of the source
  int halves = 1;  // 2: a warpgroup has the same places in two halves of the matrix, `limit` each

  __device__ int source(int natural) const {
    const int slot = stack_column(natural);
    if (halves == 1) {
      const int at = slot - shift;
      return at >= 0 && at < limit ? at : -1;
    }
    const int half_own = own / 2, group = slot / own, in_group = slot % own;
    const int half = in_group / half_own, at = group * half_own + in_group % half_own;
    return at < limit ? half * limit + at : -1;
  }
};

/// A matrix as chunks of 32 rows and `tile` columns: for each slice of rows, tile and warpgroup, or
/// tile by tile.
struct PackedMatrix {
  WeightMatrix<float> matrix;
  int k = 0, n = 0;  // of the matrix
  SlotMap row, column;
  int first_slice = 0, slices = 0;
  int tile = 0, tiles = 0;  // of a warpgroup
  int groups = 1, own = 0;  // warpgroups, columns of each
  bool by_tile = false;
  std::int64_t offset = 0;  // bytes to the first chunk
  int scale = 0;            // place of its scale

  __host__ __device__ int chunks() const { return slices * tiles * groups; }
  std::int64_t bytes() const { return std::int64_t{chunks()} * stack_chunk_bytes(tile); }
};

__global__ void pack_kernel(PackedMatrix packed, const unsigned* largest, std::int64_t stride,
                            unsigned char* out, float* inverse_scale) {
  begin_kernel();
  const int number = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  const int plane = 32 * packed.tile;
  if (number >= packed.chunks() * plane) return;
  float scale, inverse;
  split_scale(__uint_as_float(largest[packed.scale]), &scale, &inverse);
  if (number == 0 && blockIdx.y == 0) inverse_scale[packed.scale] = inverse;
  const int chunk = number / plane, at = number % plane;
  const int group = chunk % packed.groups, rest = chunk / packed.groups;
  const int tile = packed.by_tile ? rest / packed.slices : rest % packed.tiles;
  const int slice = packed.by_tile ? rest % packed.slices : rest / packed.tiles;
  // at = (16 rows, 8 columns, half of the rows, column, row)
  const int step = at / (16 * packed.tile), eight = at % (16 * packed.tile) / 128;
  const int row =
      packed.row.source(32 * (packed.first_slice + slice) + 16 * step + 8 * (at / 64 % 2) + at % 8);
  const int column =
      packed.column.source(group * packed.own + tile * packed.tile + 8 * eight + at / 8 % 8);
  float value = 0;
  if (row >= 0 && column >= 0) {
    value = scale * packed.matrix.data[blockIdx.y * packed.matrix.stride +
                                       static_cast<std::int64_t>(row) * packed.matrix.ld + column];
  }
  __half2 hi, lo;
  split_pair(value, 0, &hi, &lo);
  auto* to =
      reinterpret_cast<__half*>(out + blockIdx.y * stride + packed.offset +
                                static_cast<std::int64_t>(chunk) * stack_chunk_bytes(packed.tile)) +
      at;
  to[0] = __low2half(hi);
  to[plane] = __low2half(lo);
}

/// The weights of one part and direction.
struct PackedStack : DerivedWeights {
  std::int64_t stride = 0;  // of a focus stream
  const unsigned char* chunks = nullptr;
  const float* inverse_scale = nullptr;
};

/// The matrices in the order of their use, see StackFetch.
std::vector<PackedMatrix> matrices_in_order(const kernels::MessageShape& shape, int n_layers,
                                            const kernels::So2Layer<float>* layers, StackPart part,
                                            bool backward, const StackPlan& plan) {
  const bool vectors = part == StackPart::kVector;
  const PartSize size(shape, part);
  const auto weights = [](const float* data, int k, int n) {
    return WeightMatrix<float>{data, n, static_cast<std::int64_t>(k) * n};
  };
  const SlotMap slots =
      vectors ? SlotMap{plan.own(), 0, size.gates, 2} : SlotMap{0, 0, size.columns, 1};
  std::vector<PackedMatrix> list;
  for (int i = 0; i < n_layers; ++i) {
    const int j = backward ? n_layers - 1 - i : i;
    const kernels::So2Layer<float>& layer = layers[j];
    PackedMatrix rows;
    const float* data = vectors ? (backward ? layer.m1_transposed : layer.m1)
                                : (backward ? layer.m0_transposed : layer.m0);
    rows.matrix = weights(data, size.columns, size.columns);
    rows.k = rows.n = size.columns;
    rows.row = rows.column = slots;
    rows.slices = plan.width / 32;
    rows.tile = plan.tile;
    rows.tiles = plan.own() / plan.tile;
    rows.groups = plan.column_groups;
    rows.own = plan.own();
    rows.scale = 2 * j;

    PackedMatrix gates;
    gates.scale = 2 * j + 1;
    bool has_gates = j + 1 < n_layers;
    if (vectors == backward) {  // scalars times the gates' matrix
      gates.matrix = weights(layer.gate, size.width, size.gates);
      gates.k = size.width;
      gates.n = size.gates;
      gates.row = {0, 0, size.width, 1};
      gates.column = {0, vectors ? 0 : size.width, size.gates, 1};
      gates.slices = plan.scalars / 32;
      gates.own = vectors ? plan.own() / 2 : plan.own();
      gates.tile = plan.gate_tile;
      gates.tiles = gates.own / plan.gate_tile;
      gates.groups = plan.column_groups;
      gates.by_tile = true;
    } else if (!vectors) {  // gradients of the gates' logits times the transpose
      gates.matrix = weights(layer.gate_transposed, size.gates, size.width);
      gates.k = size.gates;
      gates.n = size.width;
      gates.row = {0, size.width, size.gates, 1};
      gates.column = {0, 0, size.width, 1};
      gates.first_slice = plan.scalars / 32;
      gates.slices = (plan.width - plan.scalars) / 32;
      gates.own = gates.tile = plan.scalars;
      gates.tiles = 1;
    } else {
      has_gates = false;
    }
    if (backward && has_gates) list.push_back(gates);
    list.push_back(rows);
    if (!backward && has_gates) list.push_back(gates);
  }
  return list;
}

void pack(const kernels::MessageShape& shape, int n_layers, const kernels::So2Layer<float>* layers,
          StackPart part, bool backward, const StackPlan& plan, kernels::Stream stream,
          PackedStack& packed) {
  std::vector<PackedMatrix> list = matrices_in_order(shape, n_layers, layers, part, backward, plan);
  for (PackedMatrix& matrix : list) {
    matrix.offset = packed.stride;
    packed.stride += matrix.bytes();
  }
  // In front of the chunks: bits of the largest number of each matrix, 1 / s.
  constexpr std::size_t kHeader = 1024;
  constexpr int kScales = 2 * kHopperMostLayers;
  static_assert(2 * kScales * sizeof(float) <= kHeader);
  void* const memory =
      packed.allocate(static_cast<std::int64_t>(kHeader) + shape.n_focus * packed.stride);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  DPA4_CUDA_TRY(cudaMemsetAsync(memory, 0, kHeader, cuda_stream));
  auto* largest = static_cast<unsigned*>(memory);
  auto* inverse = reinterpret_cast<float*>(largest + kScales);
  unsigned char* chunks = static_cast<unsigned char*>(memory) + kHeader;
  packed.chunks = chunks;
  packed.inverse_scale = inverse;
  const auto blocks = [&](std::int64_t n) {
    return dim3(static_cast<unsigned>(divide_up(n, kBlock)), static_cast<unsigned>(shape.n_focus));
  };
  for (const PackedMatrix& matrix : list) {
    packed.made_from(matrix.matrix.data, shape.n_focus * matrix.matrix.stride);
    find_largest_weight(matrix.matrix, matrix.k, matrix.n, shape.n_focus, largest + matrix.scale,
                        stream);
    pack_kernel<<<blocks(std::int64_t{matrix.chunks()} * 32 * matrix.tile), kBlock, 0,
                  cuda_stream>>>(matrix, largest, packed.stride, chunks, inverse);
    DPA4_CUDA_TRY(cudaGetLastError());
  }
}

/// By the address of the first layer's matrix, layers, focus streams, columns, part and direction.
using StackKey = std::tuple<const float*, int, int, int, int, bool>;

/// What was packed.
WeightCache<StackKey, PackedStack>& packed_stacks() {
  static auto* const all =
      new WeightCache<StackKey, PackedStack>;  // the driver may be gone at the end
  return *all;
}

// ---- calls

/// What both directions have in common.
StackCall make_call(const kernels::MessageShape& shape, int count, int n_layers, float* u,
                    float* work) {
  StackCall call;
  call.count = count;
  call.n_focus = shape.n_focus;
  call.n_layers = n_layers;
  call.row = shape.row_size();
  call.u = u;
  const std::int64_t gates =
      std::int64_t{n_layers - 1} * shape.n_focus * count * shape.lmax * shape.width;
  call.open = work;
  call.along = work + gates;
  return call;
}

void run_part(const kernels::MessageShape& shape, const kernels::So2Layer<float>* layers,
              StackPart part, bool backward, StackCall& call, kernels::Stream stream) {
  const StackKernel* kernel = find_kernel(shape, part, backward);
  DPA4_EXPECTS(kernel != nullptr);
  const float* const first = part == StackPart::kScalar ? layers[0].m0 : layers[0].m1;
  const PackedStack& packed = packed_stacks().find(
      {first, call.n_layers, shape.n_focus, kernel->plan.width, static_cast<int>(part), backward},
      [&](PackedStack& made) {
        pack(shape, call.n_layers, layers, part, backward, kernel->plan, stream, made);
      });
  call.first = part == StackPart::kScalar ? 0 : (shape.lmax + 1) * shape.width;
  call.weights = packed.chunks;
  call.weight_stride = packed.stride;
  call.inverse_scale = packed.inverse_scale;
  kernel->run(call, stream);
}

}  // namespace

bool hopper_stack_covers(const kernels::MessageShape& shape, int n_layers) {
  if (!has_hopper_products() || n_layers > kHopperMostLayers) return false;
  for (const StackPart part : {StackPart::kScalar, StackPart::kVector}) {
    for (const bool backward : {false, true}) {
      if (find_kernel(shape, part, backward) == nullptr) return false;
    }
  }
  return true;
}

void hopper_so2_stack(const kernels::So2StackArgs<float>& args, kernels::Stream stream) {
  StackCall call = make_call(args.shape, args.count, args.n_layers, args.u, args.work);
  call.kept = args.kept;
  call.kept_rows = args.kept_rows;
  call.kept_row = args.kept_row;
  call.keep_result = args.keep_result;
  run_part(args.shape, args.layers, StackPart::kScalar, false, call, stream);
  run_part(args.shape, args.layers, StackPart::kVector, false, call, stream);
}

void hopper_so2_stack_backward(const kernels::So2StackBackwardArgs<float>& args,
                               kernels::Stream stream) {
  StackCall call = make_call(args.shape, args.count, args.n_layers, args.grad_u, args.work);
  call.kept = const_cast<float*>(args.kept);  // only read
  call.kept_rows = args.kept_rows;
  run_part(args.shape, args.layers, StackPart::kVector, true, call, stream);
  run_part(args.shape, args.layers, StackPart::kScalar, true, call, stream);
}

void forget_stack_weights(const float* begin, const float* end) {
  packed_stacks().forget(begin, end);
}

std::int64_t stack_weight_bytes() { return packed_stacks().bytes(); }

}  // namespace dpa4::cuda
