// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/radial_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "kernels/cuda/devices.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/radial_function.cuh"
#include "kernels/cuda/weight_cache.h"
#include "src/math/activation.h"

namespace dpa4::cuda {

namespace {

constexpr double kTolerance = 1e-8;  // of interpolation, relative to a column's largest value
constexpr int kMostLayers = 4;
constexpr double kPi = 3.14159265358979323846;

/// The net as a kernel takes it.
struct TableNet {
  kernels::RadialShape shape;
  const float* frequencies;
  kernels::RadialLayer<float> layers[kMostLayers];
  int n_layers;
  double eps;
  int hidden, width, widest;  // widest: of the basis and the layers
  const float* w;

  explicit TableNet(const kernels::EdgeConditionNet<float>& net)
      : shape(net.shape),
        frequencies(net.frequencies),
        n_layers(net.n_layers),
        eps(net.eps),
        hidden(net.hidden()),
        width(net.width),
        widest(net.shape.n_radial),
        w(net.w) {
    for (int k = 0; k < n_layers; ++k) {
      layers[k] = net.layers[k];
      widest = std::max(widest, layers[k].out);
    }
  }
};

/// Where in an interval the net is evaluated: the zeros of the Chebyshev polynomial of degree
/// kTableTerms, through which the interpolation goes, and points between them, to compare.
struct Points {
  double t[2 * kTableTerms];
  double terms[kTableTerms][kTableTerms];  // (term, zero): values at the zeros to coefficients of t

  Points() {
    constexpr int n = kTableTerms;
    // Coefficients of the Chebyshev polynomials T_0 .. T_(n-1).
    double chebyshev[n][n] = {};
    chebyshev[0][0] = chebyshev[1][1] = 1;
    for (int k = 2; k < n; ++k) {
      for (int m = 0; m < n; ++m) {
        chebyshev[k][m] = (m > 0 ? 2 * chebyshev[k - 1][m - 1] : 0) - chebyshev[k - 2][m];
      }
    }
    for (int j = 0; j < n; ++j) {
      const double angle = kPi * (j + 0.5) / n;
      t[j] = std::cos(angle);
      t[n + j] = std::cos(kPi * j / (n - 1));
      for (int m = 0; m < n; ++m) {
        terms[m][j] = 0;
        for (int k = 0; k < n; ++k) {
          terms[m][j] += (k > 0 ? 2.0 : 1.0) / n * std::cos(k * angle) * chebyshev[k][m];
        }
      }
    }
  }
};

constexpr int kPoints = 2 * kTableTerms;

/// One layer for one point by one warp: y = silu(norm(x w)).
__device__ void hidden_layer(const kernels::RadialLayer<float>& layer, double eps, const double* x,
                             double* y) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  double squares = 0;
  for (int c = lane; c < layer.out; c += kWarp) {
    double sum = 0;
    for (int k = 0; k < layer.in; ++k)
      sum += x[k] * static_cast<double>(layer.w[k * layer.out + c]);
    y[c] = sum;
    squares += sum * sum;
  }
  double norm = 1;
  if (layer.scale != nullptr) norm = 1 / math::sqrt_of(warp_sum(squares) / layer.out + eps);
  for (int c = lane; c < layer.out; c += kWarp) {
    const double scale = layer.scale != nullptr ? static_cast<double>(layer.scale[c]) : 1.0;
    y[c] = math::silu(y[c] * norm * scale);
  }
  __syncwarp();
}

/// Raises a maximum of numbers >= 0: as bits, floats are ordered like the numbers.
__device__ void raise(float* maximum, double value) {
  atomicMax(reinterpret_cast<int*>(maximum), __float_as_int(static_cast<float>(value)));
}

/// A block an interval: a warp evaluates the hidden layers at a point, then a thread has a column.
/// Writes for each column the largest value and the largest error between the zeros.
__global__ void __launch_bounds__(kWarp* kPoints)
    radial_table_kernel(TableNet net, Points points, float* table, float* largest, float* error) {
  begin_kernel();
  extern __shared__ __align__(16) unsigned char radial_table_shared[];
  double* const shared = reinterpret_cast<double*>(radial_table_shared);
  const int interval = static_cast<int>(blockIdx.x);
  const int point = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  double* x = shared + 2 * point * net.widest;
  double* y = x + net.widest;
  // At 0 itself some radial functions have a limit, but no value.
  const double length =
      fmax((interval + 0.5 + 0.5 * points.t[point]) * net.shape.rcut / kTableIntervals, 1e-6);
  const BasisCutoff cutoff(net.shape, length);
  for (int n = lane; n < net.shape.n_radial; n += kWarp) {
    x[n] = radial_function(net.shape, length, net.frequencies[n]) * cutoff.value;
  }
  __syncwarp();
  for (int k = 0; k < net.n_layers; ++k) {
    hidden_layer(net.layers[k], net.eps, x, y);
    double* const result = y;
    y = x;
    x = result;
  }
  __syncthreads();
  const double* const hidden = shared + net.n_layers % 2 * net.widest;
  for (int c = static_cast<int>(threadIdx.x); c < net.width; c += static_cast<int>(blockDim.x)) {
    double value[kPoints] = {};
    for (int k = 0; k < net.hidden; ++k) {
      const double weight = net.w[static_cast<std::int64_t>(k) * net.width + c];
#pragma unroll
      for (int p = 0; p < kPoints; ++p) value[p] += hidden[2 * p * net.widest + k] * weight;
    }
    double term[kTableTerms];
    const int part = c / kTableColumns, columns = part_columns(net.width, part);
    float* const out = table + static_cast<std::int64_t>(part) * table_part() +
                       interval * kTableTerms * kTableColumns + c % kTableColumns;
#pragma unroll
    for (int m = 0; m < kTableTerms; ++m) {
      term[m] = 0;
#pragma unroll
      for (int j = 0; j < kTableTerms; ++j) term[m] += points.terms[m][j] * value[j];
      for (int copy = 0; copy < kTableColumns; copy += columns) {
        out[m * kTableColumns + copy] = static_cast<float>(term[m]);
      }
    }
#pragma unroll
    for (int p = kTableTerms; p < kPoints; ++p) {
      double sum = 0;
#pragma unroll
      for (int m = kTableTerms - 1; m >= 0; --m) sum = sum * points.t[p] + term[m];
      raise(largest + c, fabs(value[p]));
      raise(error + c, fabs(sum - value[p]));
    }
  }
}

struct Table : DerivedWeights {
  RadialTable table;
};

/// Leaves no table where the net does not fit the kernels or is not met closely enough.
void make_table(const kernels::EdgeConditionNet<float>& net, Table& made) {
  made.made_from(net.frequencies, net.shape.n_radial);
  made.made_from(net.w, static_cast<std::int64_t>(net.hidden()) * net.width);
  for (int k = 0; k < net.n_layers; ++k) {
    const kernels::RadialLayer<float>& layer = net.layers[k];
    made.made_from(layer.w, static_cast<std::int64_t>(layer.in) * layer.out);
    made.made_from(layer.scale, layer.out);
  }
  if (net.n_layers > kMostLayers) return;
  const TableNet table_net(net);
  const std::size_t shared =
      sizeof(double) * static_cast<std::size_t>(2 * kPoints * table_net.widest);
  if (std::max(shared, kTableShared) > most_shared_bytes()) return;

  const int parts = static_cast<int>(divide_up(net.width, kTableColumns));
  const std::size_t numbers = static_cast<std::size_t>(parts) * table_part();
  const std::size_t width = static_cast<std::size_t>(net.width);
  const std::size_t bytes = (numbers + 2 * width) * sizeof(float);
  auto* const table = static_cast<float*>(made.allocate(static_cast<std::int64_t>(bytes)));
  DPA4_CUDA_TRY(cudaMemset(table, 0, bytes));
  DPA4_CUDA_TRY(cudaDeviceSynchronize());  // the weights may still be on their way
  float* const largest = table + numbers;
  launch("radial_table", radial_table_kernel, kTableIntervals, kWarp * kPoints, shared, nullptr,
         table_net, Points(), table, largest, largest + width);
  std::vector<float> measured(2 * width);
  DPA4_CUDA_TRY(
      cudaMemcpy(measured.data(), largest, 2 * width * sizeof(float), cudaMemcpyDeviceToHost));
  for (std::size_t c = 0; c < width; ++c) {
    if (!(measured[width + c] <= kTolerance * measured[c])) return made.release();
  }
  made.table = {table, parts};
}

/// The tables made so far, by the weights and the shape of their nets.
using TableKey = std::tuple<const float*, const float*, int, int>;

WeightCache<TableKey, Table>& tables() {
  static auto* const all = new WeightCache<TableKey, Table>;  // the driver may be gone at the end
  return *all;
}

}  // namespace

RadialTable radial_table(const kernels::EdgeConditionNet<float>& net) {
  const float* const first = net.n_layers > 0 ? net.layers[0].w : nullptr;
  return tables()
      .find({net.w, first, net.width, net.hidden()}, [&](Table& made) { make_table(net, made); })
      .table;
}
void forget_radial_tables(const float* begin, const float* end) { tables().forget(begin, end); }
std::int64_t radial_table_bytes() { return tables().bytes(); }

}  // namespace dpa4::cuda
