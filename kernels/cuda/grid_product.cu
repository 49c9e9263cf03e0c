// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/devices.h"
#include "kernels/cuda/grid_chain.h"
#include "kernels/cuda/grid_product.cuh"
#include "kernels/cuda/operations.h"
#include "src/math/elementary.h"

namespace dpa4::cuda {

/// Points of a field in the workspace, with padding for 16-byte accesses.
int padded_points(const kernels::GridShape& shape) { return round_up(shape.n_points, 4); }

/// True where a product needs no fields in memory, see grid_chain.cuh.
template <Arithmetic kArithmetic>
bool is_chain(const kernels::GridShape& shape) {
  return kArithmetic == Arithmetic::kSplit && shape.n_branches == 1 &&
         shape.n_coefficients <= 16 * kGridChainSteps;
}

/// Fields of every item on the grid: both factors and their product.
template <Arithmetic kArithmetic>
std::int64_t grid_product_work(const kernels::GridShape& shape) {
  if (is_chain<kArithmetic>(shape)) return 0;
  return static_cast<std::int64_t>(padded_points(shape)) * shape.width * (2 * shape.n_branches + 1);
}

/// The steps of grid_product and its backward for `count` items.
template <Arithmetic kArithmetic, class Real>
class GridSteps {
 public:
  GridSteps(const kernels::GridShape& shape, int count, Real* work, kernels::Stream stream)
      : shape_(shape), count_(count), stream_(stream) {
    const int ld = padded_points(shape);
    const std::int64_t size =
        static_cast<std::int64_t>(count) * ld * shape.n_branches * shape.width;
    left_ = {work, shape.n_points, ld};
    right_ = {work + size, shape.n_points, ld};
    product_ = {work + 2 * size, shape.n_points, ld};
  }

  const Fields<Real>& left() const { return left_; }
  const Fields<Real>& right() const { return right_; }
  const Fields<Real>& product() const { return product_; }

  /// A field from coefficients of `width` channels; `to` is (K, G).
  void to_grid(const char* name, const Real* to, const Real* coefficients, int width,
               const Fields<Real>& field) const {
    const int size = shape_.n_coefficients, points = shape_.n_points;
    multiply(name, width, size, points, to, LoadCoefficients<Real>{coefficients, width, size},
             field);
  }

  /// Coefficients of `width` channels from the fields that `load` reads; `from` is (G, K).
  template <class Load>
  void from_grid(const char* name, const Real* from, const Load& load, int width,
                 Real* coefficients) const {
    const int size = shape_.n_coefficients;
    multiply(name, width, shape_.n_points, size, from, load,
             StoreCoefficients<Real>{coefficients, width, size});
  }

 private:
  template <class Load, class Store>
  void multiply(const char* name, int width, int k, int n, const Real* matrix, const Load& load,
                const Store& store) const {
    const WeightMatrix<Real> weights{matrix, n};
    const std::int64_t rows = static_cast<std::int64_t>(count_) * width;
    DPA4_EXPECTS(rows < 2147483647);
    const GemmShape shape{static_cast<int>(rows), n, k, 1};
    if constexpr (kArithmetic == Arithmetic::kSplit) {
      if (has_hopper_products()) {
        return field_product<kArithmetic, true>(name, shape, weights, load, store, stream_);
      }
    }
    field_product<kArithmetic, false>(name, shape, weights, load, store, stream_);
  }

  kernels::GridShape shape_;
  int count_;
  kernels::Stream stream_;
  Fields<Real> left_, right_, product_;
};

/// Sizes of a chain and its matrices: `to` of the first factor and of the second are (K, G), `back`
/// is (G, K).
template <int kPasses>
GridChainArgs<kPasses> chain_of(const kernels::GridShape& shape, int count, const float* first_to,
                                const float* second_to, const float* back, kernels::Stream stream) {
  const int points = shape.n_points, size = shape.n_coefficients;
  GridChainArgs<kPasses> chain;
  chain.rows = static_cast<std::int64_t>(count) * shape.width;
  chain.size = size;
  chain.width = shape.width;
  chain.points = points;
  chain.first_to = split_weights({first_to, points}, size, points, 1, stream);
  chain.second_to = split_weights({second_to, points}, size, points, 1, stream);
  chain.back = split_weights({back, size}, points, size, 1, stream);
  return chain;
}

template <Arithmetic kArithmetic, class Real>
void grid_product(const kernels::GridProductArgs<Real>& args, kernels::Stream stream) {
  if (args.count <= 0) return;
  if constexpr (kArithmetic == Arithmetic::kSplit) {
    if (is_chain<kArithmetic>(args.shape)) {
      DPA4_EXPECTS(args.router == nullptr);
      GridChainArgs<1> chain =
          chain_of<1>(args.shape, args.count, args.grid.to_transposed, args.grid.to_transposed,
                      args.grid.from_transposed, stream);
      chain.first = args.left;
      chain.second[0] = args.right;
      chain.out[0] = args.out;
      return grid_chain("grid_product", chain, stream);
    }
  }
  const int width = args.shape.width, branches = args.shape.n_branches;
  const GridSteps<kArithmetic, Real> steps(args.shape, args.count, args.work, stream);
  steps.to_grid("grid_product_to", args.grid.to_transposed, args.left, branches * width,
                steps.left());
  steps.to_grid("grid_product_to", args.grid.to_transposed, args.right, branches * width,
                steps.right());
  steps.from_grid("grid_product_from", args.grid.from_transposed,
                  LoadFieldProduct<Real>{steps.left(), steps.right(), args.router, width, branches},
                  width, args.out);
}

/// grad_router[n, b] = sum over the grid and the channels of (gradient of the product) left right.
template <class Real>
void router_gradient(const kernels::GridProductBackwardArgs<Real>& args, const Fields<Real>& left,
                     const Fields<Real>& right, const Fields<Real>& grad, kernels::Stream stream) {
  const int branches = args.shape.n_branches, width = args.shape.width;
  for_warps(
      "grid_product_router", static_cast<std::int64_t>(args.count) * branches, stream,
      [=] __device__(int number, int lane) {
        const std::int64_t item = number / branches;
        Real sum = 0;
        for (int c = 0; c < width; ++c) {
          const Real* l = left.data + (static_cast<std::int64_t>(number) * width + c) * left.ld;
          const Real* r = right.data + (static_cast<std::int64_t>(number) * width + c) * left.ld;
          const Real* g = grad.data + (item * width + c) * left.ld;
          for (int k = lane; k < left.points; k += kWarp) sum += g[k] * l[k] * r[k];
        }
        sum = warp_sum(sum);
        if (lane == 0) args.grad_router[number] = sum;
      });
}

template <Arithmetic kArithmetic, class Real>
void grid_product_backward(const kernels::GridProductBackwardArgs<Real>& args,
                           kernels::Stream stream) {
  if (args.count <= 0) return;
  if constexpr (kArithmetic == Arithmetic::kSplit) {
    if (is_chain<kArithmetic>(args.shape)) {
      DPA4_EXPECTS(args.router == nullptr);
      GridChainArgs<2> chain = chain_of<2>(args.shape, args.count, args.grid.from,
                                           args.grid.to_transposed, args.grid.to, stream);
      chain.first = args.grad_out;
      chain.second[0] = args.right;
      chain.second[1] = args.left;
      chain.out[0] = args.grad_left;
      chain.out[1] = args.grad_right;
      return grid_chain("grid_product_backward", chain, stream);
    }
  }
  const int width = args.shape.width, branches = args.shape.n_branches;
  const GridSteps<kArithmetic, Real> steps(args.shape, args.count, args.work, stream);
  const Fields<Real> left = steps.left(), right = steps.right(), grad = steps.product();
  steps.to_grid("grid_product_to", args.grid.to_transposed, args.left, branches * width, left);
  steps.to_grid("grid_product_to", args.grid.to_transposed, args.right, branches * width, right);
  steps.to_grid("grid_product_from_backward", args.grid.from, args.grad_out, width, grad);
  if (args.grad_router != nullptr) router_gradient(args, left, right, grad, stream);
  steps.from_grid("grid_product_to_backward", args.grid.to,
                  LoadFieldGradient<Real>{grad, right, args.router, width, branches},
                  branches * width, args.grad_left);
  steps.from_grid("grid_product_to_backward", args.grid.to,
                  LoadFieldGradient<Real>{grad, left, args.router, width, branches},
                  branches * width, args.grad_right);
}

template <class Real>
void grid_router(const kernels::GridRouterArgs<Real>& args, kernels::Stream stream) {
  const int branches = args.n_branches;
  for_items("grid_router", args.count, stream, [=] __device__(std::int64_t n) {
    const Real* logit = args.logit + n * branches;
    Real* router = args.router + n * branches;
    Real highest = logit[0];
    for (int b = 1; b < branches; ++b) highest = logit[b] > highest ? logit[b] : highest;
    Real sum = 0;
    for (int b = 0; b < branches; ++b) sum += math::exp_of(logit[b] - highest);
    for (int b = 0; b < branches; ++b) router[b] = math::exp_of(logit[b] - highest) / sum;
  });
}

template <class Real>
void grid_router_backward(const kernels::GridRouterBackwardArgs<Real>& args,
                          kernels::Stream stream) {
  const int branches = args.n_branches;
  for_items("grid_router_backward", args.count, stream, [=] __device__(std::int64_t n) {
    const Real* router = args.router + n * branches;
    const Real* grad = args.grad_router + n * branches;
    Real mean = 0;
    for (int b = 0; b < branches; ++b) mean += router[b] * grad[b];
    for (int b = 0; b < branches; ++b) {
      args.grad_logit[n * branches + b] = router[b] * (grad[b] - mean);
    }
  });
}

template <class Real>
void grid_mean(const kernels::GridMeanArgs<Real>& args, kernels::Stream stream) {
  const int size = args.n_coefficients, width = args.width;
  for_rows("grid_mean", args.count, width, stream, [=] __device__(int n, int c) {
    const std::int64_t at = static_cast<std::int64_t>(n) * size * width + c;
    Real sum = 0;
#pragma unroll 8
    for (int i = 0; i < size; ++i) {
      const std::int64_t place = at + static_cast<std::int64_t>(i) * width;
      sum += args.weight[i] * args.left[place] * args.right[place];
    }
    args.out[static_cast<std::int64_t>(n) * width + c] = sum;
  });
}

template <class Real>
void grid_mean_backward(const kernels::GridMeanBackwardArgs<Real>& args, kernels::Stream stream) {
  const int size = args.n_coefficients, width = args.width;
  for_rows("grid_mean_backward", args.count, size * width, stream, [=] __device__(int n, int k) {
    const std::int64_t at = static_cast<std::int64_t>(n) * size * width + k;
    const Real grad =
        args.weight[k / width] * args.grad_out[static_cast<std::int64_t>(n) * width + k % width];
    args.grad_left[at] = grad * args.right[at];
    args.grad_right[at] = grad * args.left[at];
  });
}

#define DPA4_INSTANTIATE(arithmetic, Real)                                                        \
  template void grid_product<arithmetic>(const kernels::GridProductArgs<Real>&, kernels::Stream); \
  template void grid_product_backward<arithmetic>(const kernels::GridProductBackwardArgs<Real>&,  \
                                                  kernels::Stream)
DPA4_INSTANTIATE(Arithmetic::kPlain, float);
DPA4_INSTANTIATE(Arithmetic::kPlain, double);
DPA4_INSTANTIATE(Arithmetic::kSplit, float);
#undef DPA4_INSTANTIATE
template std::int64_t grid_product_work<Arithmetic::kPlain>(const kernels::GridShape&);
template std::int64_t grid_product_work<Arithmetic::kSplit>(const kernels::GridShape&);
DPA4_CUDA_INSTANTIATE(grid_router, GridRouterArgs);
DPA4_CUDA_INSTANTIATE(grid_router_backward, GridRouterBackwardArgs);
DPA4_CUDA_INSTANTIATE(grid_mean, GridMeanArgs);
DPA4_CUDA_INSTANTIATE(grid_mean_backward, GridMeanBackwardArgs);

}  // namespace dpa4::cuda
