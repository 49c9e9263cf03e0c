// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "kernels/api/edge_condition_steps.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matrix.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/radial_function.cuh"
#include "src/math/activation.h"

namespace dpa4::cuda {

// One hidden layer: a thread goes from the vector of an edge to its row of y with the hidden layer
// in registers, and all the way back. The weights are in shared memory, where the threads of a warp
// read the same four of them at a time. Other nets are composed of single operations.

inline constexpr int kConditionThreads = 128;
inline constexpr int kConditionColumns = 8;  // of y at a time
inline constexpr std::size_t kConditionShared = 200 * 1024;

/// What a kernel needs of a net, with its hidden layer padded by zeros to kHidden.
struct ConditionWeights {
  kernels::RadialShape shape;
  const float* frequencies;
  const float* first;   // (n_radial, hidden)
  const float* scale;   // (hidden) or null
  const float* second;  // (hidden, width)
  const float* src_table;
  const float* dst_table;
  int hidden, width;
  float eps;
  bool enveloped;

  explicit ConditionWeights(const kernels::EdgeConditionNet<float>& net)
      : shape(net.shape),
        frequencies(net.frequencies),
        first(net.layers[0].w),
        scale(net.layers[0].scale),
        second(net.w),
        src_table(net.src_table),
        dst_table(net.dst_table),
        hidden(net.hidden()),
        width(net.width),
        eps(static_cast<float>(net.eps)),
        enveloped(net.enveloped) {}
};

template <int kHidden>
struct ConditionShared {
  float* first;   // (n_radial, kHidden)
  float* scale;   // (kHidden): ones without a norm
  float* second;  // (kHidden, width)
  float* end;

  static std::size_t bytes(const kernels::EdgeConditionNet<float>& net) {
    return sizeof(float) * kHidden * static_cast<std::size_t>(net.shape.n_radial + 1 + net.width);
  }

  __device__ ConditionShared(float* memory, const ConditionWeights& w)
      : first(memory),
        scale(first + w.shape.n_radial * kHidden),
        second(scale + kHidden),
        end(second + kHidden * w.width) {
    for (int at = static_cast<int>(threadIdx.x); at < w.shape.n_radial * kHidden;
         at += kConditionThreads) {
      const int n = at / kHidden, j = at % kHidden;
      first[at] = j < w.hidden ? w.first[n * w.hidden + j] : 0.0f;
    }
    for (int j = static_cast<int>(threadIdx.x); j < kHidden; j += kConditionThreads) {
      scale[j] = j >= w.hidden ? 0.0f : w.scale != nullptr ? w.scale[j] : 1.0f;
    }
    for (int at = static_cast<int>(threadIdx.x); at < kHidden * w.width; at += kConditionThreads) {
      second[at] = at < w.hidden * w.width ? w.second[at] : 0.0f;
    }
    __syncthreads();
  }
};

/// (mean(x^2) + eps)^(-1/2), or 1 without a norm.
template <int kHidden>
__device__ __forceinline__ float hidden_norm(const ConditionWeights& w, const float (&x)[kHidden]) {
  if (w.scale == nullptr) return 1.0f;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kHidden; ++j) sum += x[j] * x[j];
  return 1.0f / math::sqrt_of(sum / static_cast<float>(w.hidden) + w.eps);
}

/// The hidden layer before its norm and activation.
template <int kHidden>
__device__ __forceinline__ void first_layer(const ConditionWeights& w,
                                            const ConditionShared<kHidden>& shared,
                                            const RadialFunctions& radial, float (&x)[kHidden]) {
#pragma unroll
  for (int j = 0; j < kHidden; ++j) x[j] = 0;
#pragma unroll 2
  for (int n = 0; n < w.shape.n_radial; ++n) {
    const float basis = radial.value(w.frequencies[n]);
#pragma unroll
    for (int j = 0; j < kHidden; j += 4) {
      float v[4];
      load_numbers<4>(shared.first + n * kHidden + j, v);
#pragma unroll
      for (int t = 0; t < 4; ++t) x[j + t] += basis * v[t];
    }
  }
}

template <int kHidden>
__global__ void __launch_bounds__(kConditionThreads, kHidden <= 64 ? 4 : 2)
    edge_condition_kernel(kernels::EdgeConditionArgs<float> args, ConditionWeights w) {
  extern __shared__ __align__(16) unsigned char edge_condition_shared[];
  const ConditionShared<kHidden> shared(reinterpret_cast<float*>(edge_condition_shared), w);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kConditionThreads + threadIdx.x;
       i < args.edges.count; i += static_cast<std::int64_t>(gridDim.x) * kConditionThreads) {
    const int number = edge_at(args.edges, static_cast<int>(i));
    const float* src_row = nullptr;
    const float* dst_row = nullptr;
    if (w.src_table != nullptr) {
      src_row = w.src_table + args.type[args.edges.src[number]] * w.width;
      dst_row = w.dst_table + args.type[args.edges.dst[number]] * w.width;
    }
    float hidden[kHidden];
    float factor = 1;
    {
      const EdgeLength edge(w.shape, args.vec, number);
      const auto envelope = static_cast<float>(
          math::envelope(edge.length, w.shape.envelope_rcut, w.shape.envelope_exponent));
      if (w.enveloped) factor = envelope;
      const double inverse = 1 / edge.norm;
      float* unit = args.unit + 3 * i;
      unit[0] = static_cast<float>(edge.x * inverse);
      unit[1] = static_cast<float>(edge.y * inverse);
      unit[2] = static_cast<float>(edge.z * inverse);
      args.envelope[i] = envelope;
      if (args.length != nullptr) args.length[i] = static_cast<float>(edge.length);
      first_layer(w, shared, RadialFunctions(w.shape, edge.length), hidden);
    }
    const float norm = hidden_norm(w, hidden);
#pragma unroll
    for (int j = 0; j < kHidden; ++j) hidden[j] = math::silu(hidden[j] * norm * shared.scale[j]);
    float* y = args.y + i * w.width;
    for (int c = 0; c < w.width; c += kConditionColumns) {
      float sum[kConditionColumns];
#pragma unroll
      for (int t = 0; t < kConditionColumns; ++t) sum[t] = 0;
#pragma unroll
      for (int j = 0; j < kHidden; ++j) {
#pragma unroll
        for (int t = 0; t < kConditionColumns; t += 4) {
          float v[4];
          load_numbers<4>(shared.second + j * w.width + c + t, v);
#pragma unroll
          for (int k = 0; k < 4; ++k) sum[t + k] += hidden[j] * v[k];
        }
      }
#pragma unroll
      for (int t = 0; t < kConditionColumns; t += 4) {
        float bias[4] = {0, 0, 0, 0};
        if (src_row != nullptr) {
          float other[4];
          load_numbers<4>(src_row + c + t, bias);
          load_numbers<4>(dst_row + c + t, other);
#pragma unroll
          for (int k = 0; k < 4; ++k) bias[k] += other[k];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) bias[k] += factor * sum[t + k];
        store_numbers<4>(y + c + t, bias);
      }
    }
  }
}

/// dE/dlength of an edge through its radial functions.
template <int kHidden>
__device__ __forceinline__ double radial_gradient(const ConditionWeights& w,
                                                  const ConditionShared<kHidden>& shared,
                                                  const RadialFunctions& radial,
                                                  const float (&grad)[kHidden]) {
  double result = 0;
  for (int n = 0; n < w.shape.n_radial; ++n) {
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < kHidden; j += 4) {
      float v[4];
      load_numbers<4>(shared.first + n * kHidden + j, v);
#pragma unroll
      for (int t = 0; t < 4; ++t) sum[t] += v[t] * grad[j + t];
    }
    result += (sum[0] + sum[1] + (sum[2] + sum[3])) * radial.derivative(w.frequencies[n]);
  }
  return result;
}

/// The hidden layer before its activation is in registers for the narrow nets, in shared memory for
/// the others.
template <int kHidden, bool kInRegisters>
__global__ void __launch_bounds__(kConditionThreads, kHidden <= 32 ? 4 : 2)
    edge_condition_backward_kernel(kernels::EdgeConditionBackwardArgs<float> args,
                                   ConditionWeights w) {
  extern __shared__ __align__(16) unsigned char edge_condition_shared[];
  const ConditionShared<kHidden> shared(reinterpret_cast<float*>(edge_condition_shared), w);
  float* const place = shared.end + threadIdx.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kConditionThreads + threadIdx.x;
       i < args.edges.count; i += static_cast<std::int64_t>(gridDim.x) * kConditionThreads) {
    const int number = edge_at(args.edges, static_cast<int>(i));
    const RadialFunctions functions(w.shape, EdgeLength(w.shape, args.vec, number).length);
    float x[kHidden];
    first_layer(w, shared, functions, x);
    const float norm = hidden_norm(w, x);
    if constexpr (!kInRegisters) {
#pragma unroll
      for (int j = 0; j < kHidden; ++j) place[j * kConditionThreads] = x[j];
    }
    const auto before = [&](int j) {
      if constexpr (kInRegisters) {
        return x[j];
      } else {
        return place[j * kConditionThreads];
      }
    };

    float grad[kHidden];  // of the hidden layer
#pragma unroll
    for (int j = 0; j < kHidden; ++j) grad[j] = 0;
    const float* grad_y = args.grad_y + i * w.width;
    for (int c = 0; c < w.width; c += 4) {
      float g[4];
      load_numbers<4>(grad_y + c, g);
#pragma unroll
      for (int j = 0; j < kHidden; ++j) {
        float v[4];
        load_numbers<4>(shared.second + j * w.width + c, v);
#pragma unroll
        for (int t = 0; t < 4; ++t) grad[j] += g[t] * v[t];
      }
    }
    const float factor = w.enveloped ? args.envelope[i] : 1.0f;
    float grad_factor = 0, along = 0;
#pragma unroll
    for (int j = 0; j < kHidden; ++j) {
      const float value = before(j) * norm * shared.scale[j];
      const float s = math::sigmoid(value);
      grad_factor += value * s * grad[j];
      grad[j] = factor * grad[j] * math::silu_derivative(value, s) * shared.scale[j];
      along += grad[j] * before(j);
    }
    if (w.scale != nullptr) {
      const float pull = norm * norm * norm * along / static_cast<float>(w.hidden);
#pragma unroll
      for (int j = 0; j < kHidden; ++j) grad[j] = norm * grad[j] - pull * before(j);
    }
    float grad_envelope = args.grad_envelope != nullptr ? args.grad_envelope[i] : 0.0f;
    if (w.enveloped) grad_envelope += grad_factor;
    const EdgeLength edge(w.shape, args.vec, number);
    double radial = radial_gradient(w, shared, functions, grad) +
                    grad_envelope * math::envelope_dr(edge.length, w.shape.envelope_rcut,
                                                      w.shape.envelope_exponent);
    if (args.grad_length != nullptr) radial += args.grad_length[i];
    double unit[3] = {0, 0, 0}, torque[3] = {0, 0, 0};
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      if (args.grad_unit != nullptr) unit[a] = args.grad_unit[3 * i + a];
      if (args.torque != nullptr) torque[a] = args.torque[3 * i + a];
    }
    add_edge_gradient(w.shape, edge, radial, unit, torque,
                      args.grad_vec + 3 * static_cast<std::int64_t>(number));
  }
}

/// Body for the padded width of the hidden layer.
template <class Body>
void with_hidden(int hidden, Body&& body) {
  if (hidden <= 32) return body(std::integral_constant<int, 32>{});
  if (hidden <= 64) return body(std::integral_constant<int, 64>{});
  if (hidden <= 96) return body(std::integral_constant<int, 96>{});
  DPA4_EXPECTS(hidden <= 128);
  return body(std::integral_constant<int, 128>{});
}

template <int kHidden>
inline constexpr bool kHiddenInRegisters = kHidden <= 64;

template <int kHidden>
std::size_t backward_shared_bytes(const kernels::EdgeConditionNet<float>& net) {
  return ConditionShared<kHidden>::bytes(net) +
         (kHiddenInRegisters<kHidden> ? 0 : sizeof(float) * kHidden * kConditionThreads);
}

/// True for nets that the kernels above know.
template <class Real>
bool is_fused(const kernels::EdgeConditionNet<Real>& net) {
  if constexpr (sizeof(Real) == 4) {
    if (net.n_layers != 1 || net.hidden() > 128 || net.width % kConditionColumns != 0) return false;
    bool fits = false;
    with_hidden(net.hidden(), [&](auto hidden) {
      fits = backward_shared_bytes<decltype(hidden)::value>(net) <= kConditionShared;
    });
    return fits;
  } else {
    static_cast<void>(net);
    return false;
  }
}

/// Blocks that go through `tiles` tiles: as many as the device holds at once.
std::int64_t condition_blocks(std::int64_t tiles, std::size_t shared_bytes) {
  constexpr std::size_t kMultiprocessorShared = 224 * 1024;
  const auto resident = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(kMultiprocessorShared / (shared_bytes + 1024)), 1, 4);
  return std::min(tiles, resident * multiprocessors());
}

template <Arithmetic kArithmetic, class Real>
std::int64_t edge_condition_work(const kernels::EdgeConditionNet<Real>& net, int count,
                                 bool backward) {
  return is_fused(net) ? 0 : kernels::EdgeConditionArrays<Real>::size(net, count, backward);
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
  if constexpr (sizeof(Real) == 4) {
    if (is_fused(args.net)) {
      return with_hidden(args.net.hidden(), [&](auto hidden) {
        constexpr int kHidden = decltype(hidden)::value;
        const std::size_t bytes = ConditionShared<kHidden>::bytes(args.net);
        launch("edge_condition", edge_condition_kernel<kHidden>,
               condition_blocks(divide_up(args.edges.count, kConditionThreads), bytes),
               kConditionThreads, bytes, stream, args, ConditionWeights(args.net));
      });
    }
  }
  kernels::edge_condition_steps(edge_condition_operations<kArithmetic, Real>(), args, stream);
}

template <Arithmetic kArithmetic, class Real>
void edge_condition_backward(const kernels::EdgeConditionBackwardArgs<Real>& args,
                             kernels::Stream stream) {
  if constexpr (sizeof(Real) == 4) {
    if (is_fused(args.net)) {
      return with_hidden(args.net.hidden(), [&](auto hidden) {
        constexpr int kHidden = decltype(hidden)::value;
        const std::size_t bytes = backward_shared_bytes<kHidden>(args.net);
        launch("edge_condition_backward",
               edge_condition_backward_kernel<kHidden, kHiddenInRegisters<kHidden>>,
               condition_blocks(divide_up(args.edges.count, kConditionThreads), bytes),
               kConditionThreads, bytes, stream, args, ConditionWeights(args.net));
      });
    }
  }
  kernels::edge_condition_backward_steps(edge_condition_operations<kArithmetic, Real>(), args,
                                         stream);
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
