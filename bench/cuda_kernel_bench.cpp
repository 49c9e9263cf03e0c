// SPDX-License-Identifier: GPL-2.0-or-later
// Times the CUDA operations that a step consists of, for the released shapes, on the edges of a
// perturbed diamond crystal: microseconds a call, and what that is in floating-point operations and
// bytes a second (each input read once, each output written once).
//
//   cuda_kernel_bench [PRESET...]      default: nano mini neo air plus pro
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "src/graph/periodic.h"

namespace {

using namespace dpa4;
using kernels::MessageShape;

struct Preset {
  const char* name;
  int lmax, n_focus, width, n_layers, rank;  // rank 0: no mixing of degrees
  int channels, grid_points, ffn_width;
};

constexpr Preset kPresets[] = {
    {"nano", 1, 1, 32, 3, 0, 32, 24, 96},   {"mini", 2, 1, 32, 3, 1, 32, 104, 96},
    {"neo", 3, 2, 32, 3, 1, 32, 152, 96},   {"air", 3, 1, 64, 4, 1, 64, 152, 192},
    {"plus", 4, 1, 64, 4, 2, 64, 296, 192}, {"pro", 5, 2, 64, 4, 2, 64, 344, 192},
};

/// Diamond with atoms moved at random, N = 8 cells^3.
struct Crystal {
  std::vector<double> x;
  std::vector<int> type;
  graph::PeriodicGraph builder{6.0, 1};
  graph::EdgeList edges;

  explicit Crystal(int cells) {
    constexpr double kLattice = 3.567, kShift = 0.05;
    constexpr double kBasis[8][3] = {{0, 0, 0},       {0, .5, .5},     {.5, 0, .5},
                                     {.5, .5, 0},     {.25, .25, .25}, {.25, .75, .75},
                                     {.75, .25, .75}, {.75, .75, .25}};
    std::mt19937 engine(1);
    std::normal_distribution<double> shift(0, kShift);
    for (int i = 0; i < cells * cells * cells; ++i) {
      const int cell[3] = {i % cells, i / cells % cells, i / cells / cells};
      for (const auto& site : kBasis) {
        for (int a = 0; a < 3; ++a) x.push_back((cell[a] + site[a]) * kLattice + shift(engine));
      }
    }
    type.assign(x.size() / 3, 0);
    const double size = cells * kLattice;
    const int n = static_cast<int>(type.size());
    edges = builder.build(TensorView<const double, 2>(x.data(), n, 3),
                          TensorView<const int, 1>(type.data(), n),
                          graph::Cell::periodic_3d({{{size, 0, 0}, {0, size, 0}, {0, 0, size}}}));
  }
};

class Device {
 public:
  Device() : machine_(cuda::make_machine(0)) {}
  ~Device() {
    for (void* memory : owned_) machine_->release(memory);
  }
  kernels::Machine& machine() { return *machine_; }
  kernels::Stream stream() { return machine_->stream(); }

  template <class T>
  T* copy(const T* values, std::int64_t size) {
    T* memory = raw<T>(size);
    machine_->upload(memory, values, static_cast<std::size_t>(size) * sizeof(T));
    return memory;
  }
  /// Random numbers; device memory that every call of the bench keeps.
  float* random(std::int64_t size, float scale = 1) {
    std::vector<float> block(std::min<std::int64_t>(size, 1 << 20));
    std::normal_distribution<float> normal(0, scale);
    for (float& v : block) v = normal(engine_);
    float* memory = raw<float>(size);
    for (std::int64_t at = 0; at < size; at += static_cast<std::int64_t>(block.size())) {
      const std::int64_t n =
          std::min<std::int64_t>(size - at, static_cast<std::int64_t>(block.size()));
      machine_->upload(memory + at, block.data(), static_cast<std::size_t>(n) * sizeof(float));
    }
    machine_->synchronize();
    return memory;
  }
  void clear() {
    machine_->synchronize();
    for (void* memory : owned_) machine_->release(memory);
    owned_.clear();
  }

  /// Median time of a call [s].
  double time(const std::function<void()>& call) {
    constexpr int kRepeats = 7;
    call();
    std::array<cudaEvent_t, kRepeats + 1> events;
    for (auto& event : events) cudaEventCreate(&event);
    const auto stream = static_cast<cudaStream_t>(machine_->stream());
    cudaEventRecord(events[0], stream);
    for (int i = 0; i < kRepeats; ++i) {
      call();
      cudaEventRecord(events[static_cast<std::size_t>(i) + 1], stream);
    }
    machine_->synchronize();
    std::array<float, kRepeats> ms;
    for (std::size_t i = 0; i < kRepeats; ++i) {
      cudaEventElapsedTime(&ms[i], events[i], events[i + 1]);
    }
    for (auto& event : events) cudaEventDestroy(event);
    std::sort(ms.begin(), ms.end());
    return ms[kRepeats / 2] * 1e-3;
  }

 private:
  template <class T>
  T* raw(std::int64_t size) {
    void* memory = machine_->allocate(static_cast<std::size_t>(size) * sizeof(T));
    owned_.push_back(memory);
    return static_cast<T*>(memory);
  }
  std::unique_ptr<kernels::Machine> machine_;
  std::vector<void*> owned_;
  std::mt19937 engine_{2};
};

void report(const std::string& name, double seconds, double flop, double bytes) {
  std::printf("  %-28s %10.1f us %8.2f TFLOP/s %8.2f TB/s\n", name.c_str(), seconds * 1e6,
              flop / seconds * 1e-12, bytes / seconds * 1e-12);
}

void run_preset(Device& device, const Preset& preset, const Crystal& crystal, int count) {
  const auto& table = cuda::table<float>();
  const auto stream = device.stream();
  MessageShape shape;
  shape.lmax = preset.lmax;
  shape.n_focus = preset.n_focus;
  shape.width = preset.width;
  shape.mixing = preset.rank > 0 ? kernels::RadialMixing::kMix : kernels::RadialMixing::kScale;
  shape.rank = std::max(preset.rank, 1);
  const int n = crystal.edges.n_nodes, hidden = shape.hidden(), full = shape.full_rows();
  const double edges = count, row = shape.row_size() * preset.n_focus;
  count = std::min(count, crystal.edges.n_edges());
  std::printf("%s: %d atoms, %d of %d edges\n", preset.name, n, count, crystal.edges.n_edges());

  kernels::EdgeSlice by_dst;
  by_dst.count = count;
  by_dst.src = device.copy(crystal.edges.src.data(), crystal.edges.n_edges());
  by_dst.dst = device.copy(crystal.edges.dst.data(), crystal.edges.n_edges());
  by_dst.begin = device.copy(crystal.edges.dst_begin.data(), n + 1);
  by_dst.node_count = crystal.edges.dst(count - 1) + 1;
  kernels::EdgeSlice by_src = by_dst;
  by_src.order = device.copy(crystal.edges.by_src.data(), crystal.edges.n_edges());
  by_src.begin = device.copy(crystal.edges.src_begin.data(), n + 1);
  by_src.node_count = crystal.edges.src(crystal.edges.by_src(count - 1)) + 1;

  float* x = device.random(static_cast<std::int64_t>(n) * full * hidden);
  float* wigner =
      device.random(static_cast<std::int64_t>(count) * kernels::wigner_size(shape.lmax));
  float* radial = device.random(static_cast<std::int64_t>(count) * shape.radial_size());
  float* basis = device.random(static_cast<std::int64_t>(shape.rank) * hidden);
  float* u = device.random(static_cast<std::int64_t>(count) * static_cast<std::int64_t>(row));
  float* alpha = device.random(static_cast<std::int64_t>(count) * shape.weights());
  float* focus = device.random(static_cast<std::int64_t>(count) * shape.n_focus);
  float* torque = device.random(3 * static_cast<std::int64_t>(count));
  float* sum = device.random(static_cast<std::int64_t>(n) * full * hidden);
  float* grad = device.random(static_cast<std::int64_t>(count) * static_cast<std::int64_t>(row));
  float* grad_radial = device.random(static_cast<std::int64_t>(count) * shape.radial_size());

  const double rotation = 2.0 * kernels::wigner_size(shape.lmax) * hidden;
  const double mixing =
      preset.rank > 0
          ? 2.0 * shape.rank *
                ((shape.lmax + 1.0) * (shape.lmax + 1) + 2.0 * shape.lmax * shape.lmax) * hidden
          : row;
  const double radial_bytes = 4.0 * shape.radial_size(),
               wigner_bytes = 4.0 * kernels::wigner_size(shape.lmax);

  kernels::RotateMixArgs<float> mix{by_dst, shape, x, wigner, radial, shape.radial_size(),
                                    basis,  u};
  report("rotate_mix", device.time([&] { table.rotate_mix(mix, stream); }),
         edges * (rotation + mixing), edges * (4 * row + radial_bytes + wigner_bytes));
  kernels::RotateMixBackwardArgs<float> mix_back{
      by_src, shape, x, wigner, radial, shape.radial_size(), basis, grad, grad_radial, torque, sum};
  report("rotate_mix_backward", device.time([&] { table.rotate_mix_backward(mix_back, stream); }),
         edges * 2 * (rotation + mixing), edges * (4 * row + 2 * radial_bytes + wigner_bytes));

  kernels::RotateBackSumArgs<float> back_sum{by_dst,
                                             shape,
                                             wigner,
                                             u,
                                             static_cast<std::int64_t>(count) * shape.row_size(),
                                             shape.n_focus > 1 ? focus : nullptr,
                                             alpha,
                                             sum};
  report("rotate_back_sum", device.time([&] { table.rotate_back_sum(back_sum, stream); }),
         edges * rotation, edges * (4 * row + wigner_bytes));
  kernels::RotateBackSumBackwardArgs<float> back;
  back.edges = by_src, back.shape = shape, back.wigner = wigner, back.u = u;
  back.focus_stride = static_cast<std::int64_t>(count) * shape.row_size();
  back.focus = shape.n_focus > 1 ? focus : nullptr;
  back.alpha = alpha, back.grad_sum = x, back.grad_u = grad;
  back.grad_alpha = device.random(static_cast<std::int64_t>(count) * shape.weights());
  back.grad_focus =
      shape.n_focus > 1 ? device.random(static_cast<std::int64_t>(count) * shape.n_focus) : nullptr;
  back.torque = torque;
  report("rotate_back_sum_backward",
         device.time([&] { table.rotate_back_sum_backward(back, stream); }), edges * 2 * rotation,
         edges * (8 * row + wigner_bytes));

  const double m0 = (shape.lmax + 1) * shape.width, m1 = 2 * shape.lmax * shape.width;
  std::vector<kernels::So2Layer<float>> layers;
  for (int j = 0; j < preset.n_layers; ++j) {
    const auto matrix = [&](double rows, double columns) {
      return device.random(static_cast<std::int64_t>(shape.n_focus * rows * columns),
                           static_cast<float>(0.5 / std::sqrt(rows)));
    };
    const bool last = j + 1 == preset.n_layers;
    layers.push_back({matrix(m0, m0), matrix(m1, m1), last ? nullptr : matrix(shape.width, m1 / 2),
                      matrix(m0, m0), matrix(m1, m1),
                      last ? nullptr : matrix(m1 / 2, shape.width)});
  }
  const double products = shape.n_focus * (preset.n_layers * 2.0 * (m0 * m0 + m1 * m1) +
                                           (preset.n_layers - 1) * 2.0 * shape.width * m1 / 2);
  kernels::So2StackArgs<float> stack;
  stack.count = count, stack.shape = shape, stack.n_layers = preset.n_layers;
  stack.layers = layers.data(), stack.u = u;
  stack.work = device.random(count * table.so2_stack_work(shape));
  report("so2_stack", device.time([&] { table.so2_stack(stack, stream); }), edges * products,
         edges * 8 * row);
  stack.kept = device.random(static_cast<std::int64_t>(count) * preset.n_layers *
                             static_cast<std::int64_t>(row));
  stack.kept_rows = count;
  stack.keep_result = true;
  report("so2_stack, all kept", device.time([&] { table.so2_stack(stack, stream); }),
         edges * products, edges * (8 + 4 * preset.n_layers) * row);
  kernels::So2StackBackwardArgs<float> stack_back;
  stack_back.count = count, stack_back.shape = shape, stack_back.n_layers = preset.n_layers;
  stack_back.layers = layers.data(), stack_back.kept = stack.kept, stack_back.kept_rows = count;
  stack_back.grad_u = grad, stack_back.work = stack.work;
  report("so2_stack_backward", device.time([&] { table.so2_stack_backward(stack_back, stream); }),
         edges * products * (1 + 0.0), edges * (8 + 4 * (preset.n_layers - 1)) * row);

  const kernels::GridShape grid{preset.grid_points, full * 3, preset.ffn_width, 1};
  const int items = std::min(n, 2048);
  const std::int64_t grid_size =
      static_cast<std::int64_t>(items) * grid.n_coefficients * grid.width;
  kernels::GridProductArgs<float> product;
  product.count = items, product.shape = grid;
  const float* const matrix = device.random(grid.n_points * grid.n_coefficients, 0.1f);
  product.grid = {matrix, matrix, matrix, matrix};
  product.left = device.random(grid_size), product.right = device.random(grid_size);
  product.out = device.random(grid_size);
  product.work = device.random(items * table.grid_product_work(grid));
  report("grid_product, 2048 items", device.time([&] { table.grid_product(product, stream); }),
         6.0 * items * grid.n_points * grid.n_coefficients * grid.width,
         12.0 * static_cast<double>(grid_size));
  device.clear();
}

void run_gemms(Device& device) {
  std::printf("gemm, 65536 rows\n");
  for (const int size : {32, 64, 96, 128, 192, 256, 384, 640}) {
    constexpr int kRows = 65536;
    kernels::GemmArgs<float> args;
    args.m = kRows, args.n = args.k = args.lda = args.ldb = args.ldc = size;
    args.a = device.random(static_cast<std::int64_t>(kRows) * size);
    args.b = device.random(static_cast<std::int64_t>(size) * size);
    args.c = device.random(static_cast<std::int64_t>(kRows) * size);
    const double flop = 2.0 * kRows * size * size;
    report("n = k = " + std::to_string(size),
           device.time([&] { cuda::table<float>().gemm(args, device.stream()); }), flop,
           8.0 * kRows * size);
    device.clear();
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> names(argv + 1, argv + argc);
  Device device;
  std::printf("%s, float32, median of 7 calls\n", device.machine().name().c_str());
  if (names.empty()) run_gemms(device);
  const Crystal crystal(8);  // 4096 atoms
  for (const Preset& preset : kPresets) {
    const bool wanted =
        names.empty() || std::find(names.begin(), names.end(), preset.name) != names.end();
    if (wanted) run_preset(device, preset, crystal, 131072);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
