// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/operations.h"
#include "kernels/cuda/simt_gemm.cuh"
#include "src/math/elementary.h"

namespace dpa4::cuda {

/// Fields of every item on the grid: both factors, and their product.
std::int64_t grid_product_work(const kernels::GridShape& shape) {
  return static_cast<std::int64_t>(shape.n_points) * shape.width * (2 * shape.n_branches + 1);
}

namespace {

/// out = matrix (rows, depth) times each item of in (count, depth, width).
template <bool kAccumulate, class Real>
void transform(const char* name, const Real* matrix, int rows, int depth, const Real* in, Real* out,
               int width, int count, kernels::Stream stream) {
  const GemmShape shape{rows, width, depth, count};
  const WeightMatrix<Real> right{in, width, static_cast<std::int64_t>(depth) * width};
  const LoadMatrix<Real> left{matrix, depth, 0};
  const StoreMatrix<Real, kAccumulate> store{out, width, static_cast<std::int64_t>(rows) * width};
  if (width % 4 == 0 && depth % 4 == 0) {
    simt_gemm<true>(name, shape, right, left, store, stream);
  } else {
    simt_gemm<false>(name, shape, right, left, store, stream);
  }
}

/// Pieces of the workspace of `count` items.
template <class Real>
struct GridFields {
  Real* left;
  Real* right;
  Real* product;

  GridFields(const kernels::GridShape& shape, int count, Real* work) {
    const std::int64_t size =
        static_cast<std::int64_t>(count) * shape.n_points * shape.n_branches * shape.width;
    left = work;
    right = work + size;
    product = work + 2 * size;
  }
};

}  // namespace

template <class Real>
void multiply_fields(const kernels::GridProductArgs<Real>& args, const GridFields<Real>& fields,
                     kernels::Stream stream) {
  const int branches = args.shape.n_branches, width = args.shape.width;
  const int points = args.shape.n_points;
  for_rows(
      "grid_product_multiply", args.count, points * width, stream, [=] __device__(int n, int k) {
        const int g = k / width, c = k % width;
        const std::int64_t at = (static_cast<std::int64_t>(n) * points + g) * branches * width + c;
        Real sum = 0;
        for (int b = 0; b < branches; ++b) {
          const Real value = fields.left[at + b * width] * fields.right[at + b * width];
          sum += args.router != nullptr
                     ? args.router[static_cast<std::int64_t>(n) * branches + b] * value
                     : value;
        }
        fields.product[static_cast<std::int64_t>(n) * points * width + k] = sum;
      });
}

template <class Real>
void grid_product(const kernels::GridProductArgs<Real>& args, kernels::Stream stream) {
  const int points = args.shape.n_points, size = args.shape.n_coefficients;
  const int wide = args.shape.n_branches * args.shape.width;
  if (args.count <= 0) return;
  const GridFields<Real> fields(args.shape, args.count, args.work);
  transform<false>("grid_product_to", args.to, points, size, args.left, fields.left, wide,
                   args.count, stream);
  transform<false>("grid_product_to", args.to, points, size, args.right, fields.right, wide,
                   args.count, stream);
  multiply_fields(args, fields, stream);
  transform<false>("grid_product_from", args.from, size, points, fields.product, args.out,
                   args.shape.width, args.count, stream);
}

/// Gradients of the fields in place of the fields.
template <class Real>
void differentiate_fields(const kernels::GridProductBackwardArgs<Real>& args,
                          const GridFields<Real>& fields, kernels::Stream stream) {
  const int branches = args.shape.n_branches, width = args.shape.width;
  const int points = args.shape.n_points;
  for_rows("grid_product_differentiate", args.count, points * branches * width, stream,
           [=] __device__(int n, int k) {
             const int wide = branches * width;
             const int g = k / wide, b = k % wide / width, c = k % width;
             const std::int64_t at = static_cast<std::int64_t>(n) * points * wide + k;
             Real grad = fields.product[(static_cast<std::int64_t>(n) * points + g) * width + c];
             if (args.router != nullptr) {
               grad *= args.router[static_cast<std::int64_t>(n) * branches + b];
             }
             const Real left = fields.left[at], right = fields.right[at];
             fields.left[at] = grad * right;
             fields.right[at] = grad * left;
           });
}

/// grad_router[n, b] = sum over the grid and the channels of (gradient of the product) left right.
template <class Real>
void router_gradient(const kernels::GridProductBackwardArgs<Real>& args,
                     const GridFields<Real>& fields, kernels::Stream stream) {
  const int branches = args.shape.n_branches, width = args.shape.width;
  const int points = args.shape.n_points;
  for_warps("grid_product_router", static_cast<std::int64_t>(args.count) * branches, stream,
            [=] __device__(int row, int lane) {
              const std::int64_t n = row / branches;
              const int b = row % branches;
              Real sum = 0;
              for (int k = lane; k < points * width; k += kWarp) {
                const int g = k / width, c = k % width;
                const std::int64_t at = (n * points + g) * branches * width + b * width + c;
                sum += fields.product[n * points * width + k] * fields.left[at] * fields.right[at];
              }
              sum = warp_sum(sum);
              if (lane == 0) args.grad_router[row] = sum;
            });
}

template <class Real>
void grid_product_backward(const kernels::GridProductBackwardArgs<Real>& args,
                           kernels::Stream stream) {
  const int points = args.shape.n_points, size = args.shape.n_coefficients;
  const int wide = args.shape.n_branches * args.shape.width;
  if (args.count <= 0) return;
  const GridFields<Real> fields(args.shape, args.count, args.work);
  transform<false>("grid_product_to", args.to, points, size, args.left, fields.left, wide,
                   args.count, stream);
  transform<false>("grid_product_to", args.to, points, size, args.right, fields.right, wide,
                   args.count, stream);
  transform<false>("grid_product_from_backward", args.from_transposed, points, size, args.grad_out,
                   fields.product, args.shape.width, args.count, stream);
  if (args.grad_router != nullptr) router_gradient(args, fields, stream);
  differentiate_fields(args, fields, stream);
  transform<false>("grid_product_to_backward", args.to_transposed, size, points, fields.left,
                   args.grad_left, wide, args.count, stream);
  transform<false>("grid_product_to_backward", args.to_transposed, size, points, fields.right,
                   args.grad_right, wide, args.count, stream);
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

DPA4_CUDA_INSTANTIATE(grid_product, GridProductArgs);
DPA4_CUDA_INSTANTIATE(grid_product_backward, GridProductBackwardArgs);
DPA4_CUDA_INSTANTIATE(grid_router, GridRouterArgs);
DPA4_CUDA_INSTANTIATE(grid_router_backward, GridRouterBackwardArgs);
DPA4_CUDA_INSTANTIATE(grid_mean, GridMeanArgs);
DPA4_CUDA_INSTANTIATE(grid_mean_backward, GridMeanBackwardArgs);

}  // namespace dpa4::cuda
