// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/grid_product.h"
#include "kernels/cpu/gemm.h"

namespace dpa4::cpu::DPA4_CPU_ISA {

/// The three fields of one item: items take turns in the same memory.
inline std::int64_t grid_product_work(const kernels::GridShape& shape) {
  return std::int64_t{3} * shape.n_points * shape.n_branches * shape.width;
}

/// product[g, c] = sum_b router[b] left[g, b, c] right[g, b, c]; product may be left if nb = 1.
template <class Real>
DPA4_CPU_INLINE void multiply_fields(const kernels::GridShape& shape, const Real* left,
                                     const Real* right, const Real* router, Real* product) {
  for (int g = 0; g < shape.n_points; ++g) {
    const std::int64_t at = static_cast<std::int64_t>(g) * shape.n_branches * shape.width;
    for_lanes<Real>(
        shape.width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          S sum(0);
          for (int b = 0; b < shape.n_branches; ++b) {
            S value = S::load(left + at + b * shape.width + c) *
                      S::load(right + at + b * shape.width + c);
            if (router != nullptr) value *= S(router[b]);
            sum += value;
          }
          sum.store(product + static_cast<std::int64_t>(g) * shape.width + c);
        });
  }
}

template <class Real>
void grid_product(const kernels::GridProductArgs<Real>& args, kernels::Stream) {
  const kernels::GridShape& shape = args.shape;
  const int points = shape.n_points, size = shape.n_coefficients;
  const int fields = shape.n_branches * shape.width;
  Real* left = args.work;
  Real* right = left + static_cast<std::int64_t>(points) * fields;
  Real* product = right + static_cast<std::int64_t>(points) * fields;
  for (int n = 0; n < args.count; ++n) {
    const std::int64_t at = static_cast<std::int64_t>(n) * size;
    gemm_matrix(points, fields, size, args.grid.to, size, args.left + at * fields, fields, left,
                fields, false);
    gemm_matrix(points, fields, size, args.grid.to, size, args.right + at * fields, fields, right,
                fields, false);
    multiply_fields(shape, left, right,
                    args.router != nullptr ? args.router + n * shape.n_branches : nullptr, product);
    gemm_matrix(size, shape.width, points, args.grid.from, points, product, shape.width,
                args.out + at * shape.width, shape.width, false);
  }
}

template <class Real>
void grid_product_backward(const kernels::GridProductBackwardArgs<Real>& args, kernels::Stream) {
  const kernels::GridShape& shape = args.shape;
  const int points = shape.n_points, size = shape.n_coefficients, width = shape.width;
  const int fields = shape.n_branches * width;
  Real* left = args.work;
  Real* right = left + static_cast<std::int64_t>(points) * fields;
  Real* grad = right + static_cast<std::int64_t>(points) * fields;
  for (int n = 0; n < args.count; ++n) {
    const std::int64_t at = static_cast<std::int64_t>(n) * size;
    gemm_matrix(points, fields, size, args.grid.to, size, args.left + at * fields, fields, left,
                fields, false);
    gemm_matrix(points, fields, size, args.grid.to, size, args.right + at * fields, fields, right,
                fields, false);
    gemm_matrix(points, width, size, args.grid.from_transposed, size, args.grad_out + at * width,
                width, grad, width, false);
    for (int b = 0; b < shape.n_branches; ++b) {
      const Real weight = args.router != nullptr ? args.router[n * shape.n_branches + b] : Real(1);
      Real along = 0;  // <grad, value of the branch>
      for (int g = 0; g < points; ++g) {
        Real* l = left + static_cast<std::int64_t>(g) * fields + b * width;
        Real* r = right + static_cast<std::int64_t>(g) * fields + b * width;
        const Real* v = grad + static_cast<std::int64_t>(g) * width;
        along += sum_lanes<Real>(
            width, [&](auto tag, int c) __attribute__((always_inline)) {
              using S = decltype(tag);
              const S left_value = S::load(l + c), right_value = S::load(r + c);
              const S grad_value = S::load(v + c);
              (S(weight) * grad_value * right_value).store(l + c);
              (S(weight) * grad_value * left_value).store(r + c);
              return grad_value * left_value * right_value;
            });
      }
      if (args.grad_router != nullptr) args.grad_router[n * shape.n_branches + b] = along;
    }
    gemm_matrix(size, fields, points, args.grid.to_transposed, points, left, fields,
                args.grad_left + at * fields, fields, false);
    gemm_matrix(size, fields, points, args.grid.to_transposed, points, right, fields,
                args.grad_right + at * fields, fields, false);
  }
}

template <class Real>
void grid_router(const kernels::GridRouterArgs<Real>& args, kernels::Stream) {
  const int branches = args.n_branches;
  for (int n = 0; n < args.count; ++n) {
    const Real* logit = args.logit + static_cast<std::int64_t>(n) * branches;
    Real* router = args.router + static_cast<std::int64_t>(n) * branches;
    Real highest = logit[0];
    for (int b = 1; b < branches; ++b) highest = logit[b] > highest ? logit[b] : highest;
    Real sum = 0;
    for (int b = 0; b < branches; ++b) {
      router[b] = scalar_exp(logit[b] - highest);
      sum += router[b];
    }
    for (int b = 0; b < branches; ++b) router[b] /= sum;
  }
}

template <class Real>
void grid_router_backward(const kernels::GridRouterBackwardArgs<Real>& args, kernels::Stream) {
  const int branches = args.n_branches;
  for (int n = 0; n < args.count; ++n) {
    const std::int64_t at = static_cast<std::int64_t>(n) * branches;
    Real mean = 0;
    for (int b = 0; b < branches; ++b) mean += args.router[at + b] * args.grad_router[at + b];
    for (int b = 0; b < branches; ++b) {
      args.grad_logit[at + b] = args.router[at + b] * (args.grad_router[at + b] - mean);
    }
  }
}

template <class Real>
void grid_mean(const kernels::GridMeanArgs<Real>& args, kernels::Stream) {
  const int size = args.n_coefficients, width = args.width;
  for (int n = 0; n < args.count; ++n) {
    const Real* left = args.left + static_cast<std::int64_t>(n) * size * width;
    const Real* right = args.right + static_cast<std::int64_t>(n) * size * width;
    for_lanes<Real>(
        width, [&](auto tag, int c) __attribute__((always_inline)) {
          using S = decltype(tag);
          S sum(0);
          for (int i = 0; i < size; ++i) {
            sum +=
                S(args.weight[i]) * S::load(left + i * width + c) * S::load(right + i * width + c);
          }
          sum.store(args.out + static_cast<std::int64_t>(n) * width + c);
        });
  }
}

template <class Real>
void grid_mean_backward(const kernels::GridMeanBackwardArgs<Real>& args, kernels::Stream) {
  const int size = args.n_coefficients, width = args.width;
  for (int n = 0; n < args.count; ++n) {
    for (int i = 0; i < size; ++i) {
      const std::int64_t at = (static_cast<std::int64_t>(n) * size + i) * width;
      const Real weight = args.weight[i];
      for_lanes<Real>(
          width, [&](auto tag, int c) __attribute__((always_inline)) {
            using S = decltype(tag);
            const S grad =
                S(weight) * S::load(args.grad_out + static_cast<std::int64_t>(n) * width + c);
            (grad * S::load(args.right + at + c)).store(args.grad_left + at + c);
            (grad * S::load(args.left + at + c)).store(args.grad_right + at + c);
          });
    }
  }
}

}  // namespace dpa4::cpu::DPA4_CPU_ISA
