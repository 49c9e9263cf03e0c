// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/staging.h"
#include "kernels/cuda/weight_memory.h"
#include "src/base/error.h"

namespace dpa4::cuda {

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string unavailable_reason() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return count > 0 ? "" : "no CUDA device";
}

namespace {

class CudaMachine final : public kernels::Machine {
 public:
  CudaMachine(int device, kernels::Stream stream)
      : device_(device),
        stream_(static_cast<cudaStream_t>(stream)),
        owns_stream_(stream == nullptr) {
    if (device < 0 || device >= device_count()) {
      const std::string reason = unavailable_reason();
      throw InputError("CUDA device " + std::to_string(device) + " is not available" +
                       (reason.empty() ? "" : ": " + reason));
    }
    DPA4_CUDA_TRY(cudaSetDevice(device));
    if (owns_stream_) DPA4_CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaMachine() override {
    // The driver may be gone already when a program ends.
    if (recording_ != nullptr) static_cast<void>(cudaGraphExecDestroy(recording_));
    for (cudaEvent_t mark : marks_) static_cast<void>(cudaEventDestroy(mark));
    if (owns_stream_) static_cast<void>(cudaStreamDestroy(stream_));
  }
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  std::string name() const override {
    cudaDeviceProp properties;
    DPA4_CUDA_TRY(cudaGetDeviceProperties(&properties, device_));
    return properties.name;
  }
  std::string driver() const override {
    int driver = 0, runtime = 0;
    DPA4_CUDA_TRY(cudaDriverGetVersion(&driver));
    DPA4_CUDA_TRY(cudaRuntimeGetVersion(&runtime));
    return "CUDA " + std::to_string(driver) + "/" + std::to_string(runtime);
  }
  bool host_memory() const override { return false; }

  std::int64_t free_bytes() const override {
    std::size_t free = 0, total = 0;
    DPA4_CUDA_TRY(cudaMemGetInfo(&free, &total));
    return static_cast<std::int64_t>(free);
  }
  std::int64_t extra_bytes() const override { return derived_weight_bytes(); }

  void enter() override { DPA4_CUDA_TRY(cudaSetDevice(device_)); }

  void* allocate(std::size_t bytes) override {
    void* const memory = allocate_bytes(bytes, "the model");
    sizes_[memory] = bytes;
    return memory;
  }
  void release(void* memory) override {
    const auto found = sizes_.find(memory);
    if (found != sizes_.end()) {
      forget_weights(memory, found->second);
      sizes_.erase(found);
    }
    static_cast<void>(cudaFree(memory));
  }

  kernels::Stream stream() override { return stream_; }

  // The addresses tell which memory is meant, so callers may hand over device memory as well.
  void upload(void* to, const void* from, std::size_t bytes) override {
    forget_weights(to, bytes);
    if (bytes == 0 || staging_.upload(to, from, bytes, stream_)) return;
    DPA4_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) DPA4_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
    synchronize();
  }
  void zero(void* memory, std::size_t bytes) override {
    if (bytes > 0) DPA4_CUDA_TRY(cudaMemsetAsync(memory, 0, bytes, stream_));
  }
  void synchronize() override { DPA4_CUDA_TRY(cudaStreamSynchronize(stream_)); }

  void mark(int i) override {
    while (marks_.size() <= static_cast<std::size_t>(i)) {
      DPA4_CUDA_TRY(cudaEventCreate(&marks_.emplace_back()));
    }
    DPA4_CUDA_TRY(cudaEventRecord(marks_[static_cast<std::size_t>(i)], stream_));
  }
  double mark_time(int i) override {
    const cudaEvent_t event = marks_.at(static_cast<std::size_t>(i));
    DPA4_CUDA_TRY(cudaEventSynchronize(event));
    float milliseconds = 0;
    DPA4_CUDA_TRY(cudaEventElapsedTime(&milliseconds, marks_.front(), event));
    return 1e-3 * milliseconds;
  }

  bool records() const override { return true; }
  void begin_recording() override {
    // What other threads do with the device is no part of a recording and does not spoil it.
    DPA4_CUDA_TRY(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }
  bool end_recording() override {
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess || graph == nullptr) {
      static_cast<void>(cudaGetLastError());  // handled: later calls must not see it
      return false;
    }
    const bool usable = instantiate(graph);
    static_cast<void>(cudaGraphDestroy(graph));
    return usable;
  }
  void replay() override { DPA4_CUDA_TRY(cudaGraphLaunch(recording_, stream_)); }

  int lanes() const override { return 1; }
  int preferred_count(std::int64_t bytes, int limit) const override {
    // Enough items to fill the device and to hide the launches, in a small part of its memory.
    constexpr std::int64_t kPart = 32, kFewest = 256;
    std::size_t free = 0, total = 0;
    DPA4_CUDA_TRY(cudaMemGetInfo(&free, &total));
    const std::int64_t buffers = static_cast<std::int64_t>(total) / kPart;
    const std::int64_t count = std::max(buffers / std::max<std::int64_t>(bytes, 1), kFewest);
    return static_cast<int>(std::min<std::int64_t>(count, limit));
  }

  void for_each(int n, Task task, void* context) override {
    for (int i = 0; i < n; ++i) task(context, 0, i);
  }

 private:
  /// Makes `recording_` from a graph: by new parameters where the work is of the same kind.
  bool instantiate(cudaGraph_t graph) {
    if (recording_ != nullptr) {
      cudaGraphExecUpdateResultInfo info;
      if (cudaGraphExecUpdate(recording_, graph, &info) == cudaSuccess) return true;
      static_cast<void>(cudaGetLastError());
      static_cast<void>(cudaGraphExecDestroy(recording_));
      recording_ = nullptr;
    }
    if (cudaGraphInstantiate(&recording_, graph, 0) == cudaSuccess) return true;
    static_cast<void>(cudaGetLastError());
    recording_ = nullptr;
    return false;
  }

  int device_;
  cudaStream_t stream_ = nullptr;
  bool owns_stream_;
  Staging staging_;
  std::vector<cudaEvent_t> marks_;
  cudaGraphExec_t recording_ = nullptr;
  std::unordered_map<void*, std::size_t> sizes_;  // of what `allocate` returned
};

template <Arithmetic kArithmetic, class Real>
kernels::KernelTable<Real> make_table() {
  kernels::KernelTable<Real> table;
  table.so2_stack_work = so2_stack_work;
  table.grid_product_work = grid_product_work<kArithmetic>;
  table.edge_condition_work = edge_condition_work<kArithmetic, Real>;
  table.cut_nodes = cut_nodes<Real>;
  table.pad_edges = pad_edges<Real>;
  table.kept_rows = kept_rows<Real>;
  table.gemm = gemm<kArithmetic, Real>;
  table.edge_geometry = edge_geometry<Real>;
  table.edge_geometry_backward = edge_geometry_backward<Real>;
  table.wigner_rows = wigner_rows<Real>;
  table.rms_norm_silu = rms_norm_silu<Real>;
  table.rms_norm_silu_backward = rms_norm_silu_backward<Real>;
  table.pair_bias = pair_bias<Real>;
  table.pair_bias_backward = pair_bias_backward<Real>;
  table.edge_condition = edge_condition<kArithmetic, Real>;
  table.edge_condition_backward = edge_condition_backward<kArithmetic, Real>;
  table.node_degree = node_degree<Real>;
  table.node_degree_backward = node_degree_backward<Real>;
  table.edge_degree_backward = edge_degree_backward<Real>;
  table.source_gate_partial = source_gate_partial<Real>;
  table.source_gate = source_gate<Real>;
  table.source_gate_sum = source_gate_sum<Real>;
  table.source_gate_backward = source_gate_backward<Real>;
  table.env_seed_sum = env_seed_sum<Real>;
  table.env_seed_sum_backward = env_seed_sum_backward<Real>;
  table.zonal_sum = zonal_sum<Real>;
  table.zonal_sum_backward = zonal_sum_backward<Real>;
  table.film_gram = film_gram<Real>;
  table.film_gram_backward = film_gram_backward<Real>;
  table.film_apply = film_apply<Real>;
  table.film_apply_backward = film_apply_backward<Real>;
  table.so3_norm = so3_norm<Real>;
  table.so3_norm_backward = so3_norm_backward<Real>;
  table.scalar_norm = scalar_norm<Real>;
  table.scalar_norm_backward = scalar_norm_backward<Real>;
  table.attention_logits = attention_logits<Real>;
  table.attention_lse = attention_lse<Real>;
  table.message_weight = message_weight<Real>;
  table.message_weight_backward = message_weight_backward<Real>;
  table.query_gradient = query_gradient<Real>;
  table.rotate_mix = rotate_mix<Real>;
  table.rotate_mix_backward = rotate_mix_backward<Real>;
  table.focus_weights = focus_weights<Real>;
  table.focus_weights_backward = focus_weights_backward<Real>;
  table.so2_stack = so2_stack<kArithmetic, Real>;
  table.so2_stack_backward = so2_stack_backward<kArithmetic, Real>;
  table.rotate_back_sum = rotate_back_sum<Real>;
  table.rotate_back_sum_backward = rotate_back_sum_backward<Real>;
  table.head_gate = head_gate<Real>;
  table.head_gate_backward = head_gate_backward<Real>;
  table.grid_product = grid_product<kArithmetic, Real>;
  table.grid_product_backward = grid_product_backward<kArithmetic, Real>;
  table.grid_router = grid_router<Real>;
  table.grid_router_backward = grid_router_backward<Real>;
  table.grid_mean = grid_mean<Real>;
  table.grid_mean_backward = grid_mean_backward<Real>;
  table.grid_gate = grid_gate<Real>;
  table.grid_gate_backward = grid_gate_backward<Real>;
  table.glu = glu<Real>;
  table.glu_backward = glu_backward<Real>;
  table.rows = rows<Real>;
  table.type_rows = type_rows<Real>;
  table.energy_head = energy_head<Real>;
  table.zbl_pair = zbl_pair<Real>;
  table.edge_force = edge_force<Real>;
  return table;
}

}  // namespace

template <>
const kernels::KernelTable<float>& table<float>(Arithmetic arithmetic) {
  static const kernels::KernelTable<float> plain = make_table<Arithmetic::kPlain, float>();
  static const kernels::KernelTable<float> split = make_table<Arithmetic::kSplit, float>();
  return arithmetic == Arithmetic::kPlain ? plain : split;
}

template <>
const kernels::KernelTable<double>& table<double>(Arithmetic) {
  static const kernels::KernelTable<double> operations = make_table<Arithmetic::kPlain, double>();
  return operations;
}

std::unique_ptr<kernels::Machine> make_machine(int device, kernels::Stream stream) {
  return std::make_unique<CudaMachine>(device, stream);
}

}  // namespace dpa4::cuda
