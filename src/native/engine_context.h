// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/kernel_table.h"
#include "src/native/weight_store.h"

namespace dpa4::native {

/// What every stage works with: the operations, the machine, the model's options.
template <class Real>
struct EngineContext {
  const kernels::KernelTable<Real>* table = nullptr;
  kernels::Machine* machine = nullptr;

  kernels::Stream stream() const { return machine->stream(); }

  /// C (m, n) = A (m, k) B, or += ; ld of A and C as given.
  void multiply(int m, const Real* a, std::int64_t lda, const Linear<Real>& map, Real* c,
                std::int64_t ldc, bool accumulate = false) const {
    table->gemm(gemm_args(m, map.out, map.in, a, lda, map.w, c, ldc, accumulate), stream());
  }
  /// C (m, k) = A (m, n) B^T, or +=.
  void multiply_transposed(int m, const Real* a, std::int64_t lda, const Linear<Real>& map, Real* c,
                           std::int64_t ldc, bool accumulate = false) const {
    table->gemm(gemm_args(m, map.in, map.out, a, lda, map.wt, c, ldc, accumulate), stream());
  }

  static kernels::GemmArgs<Real> gemm_args(int m, int n, int k, const Real* a, std::int64_t lda,
                                           const Real* b, Real* c, std::int64_t ldc,
                                           bool accumulate) {
    kernels::GemmArgs<Real> args;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = a;
    args.lda = static_cast<int>(lda);
    args.b = b;
    args.ldb = n;
    args.c = c;
    args.ldc = static_cast<int>(ldc);
    args.accumulate = accumulate;
    return args;
  }

  /// A linear map by degrees over the packed rows of `m` nodes. Row d of node n is at
  /// a + n * lda + d * step_a, its image at c + n * ldc + d * step_c.
  void multiply_degrees(int m, const Real* a, std::int64_t lda, std::int64_t step_a,
                        const DegreeLinear<Real>& map, Real* c, std::int64_t ldc,
                        std::int64_t step_c, bool accumulate = false) const {
    degrees(m, map.lmax, map.out, map.in, a, lda, step_a, map.w, c, ldc, step_c, accumulate);
  }
  void multiply_degrees_transposed(int m, const Real* a, std::int64_t lda, std::int64_t step_a,
                                   const DegreeLinear<Real>& map, Real* c, std::int64_t ldc,
                                   std::int64_t step_c, bool accumulate = false) const {
    degrees(m, map.lmax, map.in, map.out, a, lda, step_a, map.wt, c, ldc, step_c, accumulate);
  }

  void rows(int count, int width, const Real* x, std::int64_t ldx, Real* y, std::int64_t ldy,
            bool accumulate) const {
    kernels::RowsArgs<Real> args;
    args.rows = count;
    args.width = width;
    args.x = x;
    args.ldx = ldx;
    args.y = y;
    args.ldy = ldy;
    args.accumulate = accumulate;
    table->rows(args, stream());
  }
  /// y = x + add, rows (count, width) of distance ld; y may be x.
  void add_rows(int count, int width, const Real* x, const Real* add, Real* y,
                std::int64_t ld) const {
    kernels::RowsArgs<Real> args;
    args.rows = count;
    args.width = width;
    args.x = x;
    args.add = add;
    args.y = y;
    args.ldx = args.ld_add = args.ldy = ld;
    table->rows(args, stream());
  }

 private:
  void degrees(int m, int lmax, int n, int k, const Real* a, std::int64_t lda, std::int64_t step_a,
               const Real* b, Real* c, std::int64_t ldc, std::int64_t step_c,
               bool accumulate) const {
    kernels::GemmArgs<Real> args = gemm_args(m, n, k, a, lda, b, c, ldc, accumulate);
    args.by_degree = true;
    args.batch = (lmax + 1) * (lmax + 1);
    args.stride_a = step_a;
    args.stride_b = static_cast<std::int64_t>(n) * k;
    args.stride_c = step_c;
    table->gemm(args, stream());
  }
};

}  // namespace dpa4::native
