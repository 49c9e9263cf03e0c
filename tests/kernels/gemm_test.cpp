// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/kernels/kernel_case.h"

namespace dpa4::testing {
namespace {

template <class Real>
kernels::GemmArgs<Real> problem(int m, int n, int k, const std::vector<Real>& a,
                                const std::vector<Real>& b, std::vector<Real>& c) {
  kernels::GemmArgs<Real> args;
  args.m = m;
  args.n = n;
  args.k = k;
  args.a = a.data();
  args.lda = k + 3;
  args.b = b.data();
  args.ldb = n;
  args.c = c.data();
  args.ldc = n + 2;
  return args;
}

template <class Real>
void check_product(int m, int n, int k, bool accumulate) {
  const auto a64 = random_values(static_cast<std::size_t>(m * (k + 3)), 1);
  const auto b64 = random_values(static_cast<std::size_t>(k * n), 2);
  const auto c64 = random_values(static_cast<std::size_t>(m * (n + 2)), 3);
  const std::vector<Real> a(a64.begin(), a64.end()), b(b64.begin(), b64.end());
  for (const std::string& isa : cpu::instruction_sets()) {
    std::vector<Real> c = poisoned<Real>(c64.size());
    if (accumulate) c.assign(c64.begin(), c64.end());
    kernels::GemmArgs<Real> args = problem(m, n, k, a, b, c);
    args.accumulate = accumulate;
    cpu::table<Real>(isa).gemm(args, nullptr);
    const double tolerance = sizeof(Real) == 8 ? 1e-13 : 3e-6;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = accumulate ? c64[static_cast<std::size_t>(i * (n + 2) + j)] : 0, scale = 1;
        for (int p = 0; p < k; ++p) {
          const double term = a64[static_cast<std::size_t>(i * (k + 3) + p)] *
                              b64[static_cast<std::size_t>(p * n + j)];
          sum += term;
          scale += std::abs(term);
        }
        ASSERT_NEAR(c[static_cast<std::size_t>(i * (n + 2) + j)], sum, tolerance * scale)
            << isa << " " << m << " " << n << " " << k << " at " << i << " " << j;
      }
      // What lies between the rows stays as it was.
      for (int j = n; j < n + 2; ++j) {
        const Real between = c[static_cast<std::size_t>(i * (n + 2) + j)];
        if (accumulate) {
          EXPECT_EQ(between, static_cast<Real>(c64[static_cast<std::size_t>(i * (n + 2) + j)]));
        } else {
          EXPECT_TRUE(std::isnan(between));
        }
      }
    }
  }
}

TEST(Gemm, MultipliesMatricesOfEveryShape) {
  for (int m : {0, 1, 3, 4, 5, 31, 32, 33}) {
    for (int n : {1, 5, 16, 27, 33, 48, 64, 80, 96, 112, 130}) {
      for (int k : {1, 16, 45}) {
        for (bool accumulate : {false, true}) {
          check_product<double>(m, n, k, accumulate);
          check_product<float>(m, n, k, accumulate);
        }
      }
    }
  }
}

TEST(Gemm, BatchesAreTakenByTheirStrides) {
  // Batch b multiplies columns 2b, 2b+1 of A with matrix b into columns 3b.. of C.
  const std::vector<double> a = random_values(4 * 6, 1), b = random_values(3 * 2 * 3, 2);
  std::vector<double> c = poisoned<double>(4 * 9);
  kernels::GemmArgs<double> args;
  args.m = 4;
  args.n = 3;
  args.k = 2;
  args.a = a.data();
  args.lda = 6;
  args.b = b.data();
  args.ldb = 3;
  args.c = c.data();
  args.ldc = 9;
  args.batch = 3;
  args.stride_a = 2;
  args.stride_b = 6;
  args.stride_c = 3;
  cpu::table<double>().gemm(args, nullptr);
  for (int batch = 0; batch < 3; ++batch) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 3; ++j) {
        double sum = 0;
        for (int p = 0; p < 2; ++p) sum += a[i * 6 + batch * 2 + p] * b[batch * 6 + p * 3 + j];
        EXPECT_NEAR(c[i * 9 + batch * 3 + j], sum, 1e-14);
      }
    }
  }
}

TEST(Gemm, BitsOfARowDependNeitherOnTheOthersNorOnItsPlace) {
  constexpr int kRows = 41, kSize = 37;
  const auto a64 = random_values(kRows * (kSize + 3), 1), b64 = random_values(kSize * 96, 2);
  const std::vector<float> a(a64.begin(), a64.end()), b(b64.begin(), b64.end());
  for (const std::string& isa : cpu::instruction_sets()) {
    for (int n : {16, 27, 64, 96}) {
      std::vector<float> all(kRows * (n + 2)), one(n + 2);
      cpu::table<float>(isa).gemm(problem(kRows, n, kSize, a, b, all), nullptr);
      for (int i = 0; i < kRows; ++i) {
        kernels::GemmArgs<float> args = problem(1, n, kSize, a, b, one);
        args.a += i * args.lda;
        cpu::table<float>(isa).gemm(args, nullptr);
        for (int j = 0; j < n; ++j) EXPECT_EQ(one[j], all[i * (n + 2) + j]) << isa << " row " << i;
      }
    }
  }
}

}  // namespace
}  // namespace dpa4::testing
