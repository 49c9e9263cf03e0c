// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/kernels/cuda/backend_case.h"

namespace dpa4::test {
namespace {

using kernels::MessageShape;

// ---- gemm
// ----------------------------------------------------------------------------------------

struct GemmCase {
  int m, n, k, batch;
  int pad;  // of the leading dimensions: 0 mod 4 allows 16-byte accesses
};

class Gemm : public testing::TestWithParam<GemmCase> {
 protected:
  void SetUp() override { DPA4_NEEDS_DEVICE(); }
};

TEST_P(Gemm, AgreesWithTheProcessor) {
  const auto [m, n, k, batch, pad] = GetParam();
  const int lda = k + pad, ldb = n + pad, ldc = n + pad;
  const std::int64_t rows = m, stride_a = rows * lda, stride_b = std::int64_t{k} * ldb,
                     stride_c = rows * ldc;
  Random random(1);
  const auto a = random.normal(batch * stride_a), b = random.normal(batch * stride_b);
  const auto c = random.normal(batch * stride_c);
  for (const bool accumulate : {false, true}) {
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      kernels::GemmArgs<Real> args;
      args.m = GetParam().m, args.n = GetParam().n, args.k = GetParam().k;
      args.a = run.in(a), args.b = run.in(b), args.c = run.inout("c", c);
      args.lda = lda, args.ldb = ldb, args.ldc = ldc;
      args.batch = GetParam().batch;
      args.stride_a = stride_a, args.stride_b = stride_b, args.stride_c = stride_c;
      args.accumulate = accumulate;
      run.table().gemm(args, run.stream());
    });
  }
}

std::vector<GemmCase> gemm_cases() {
  std::vector<GemmCase> cases;
  for (int m : awkward_counts()) {
    cases.push_back({m, 128, 128, 1, 0});
    cases.push_back({m, 192, 64, 2, 4});
    cases.push_back({m, 25, 36, 1, 3});
    cases.push_back({m, 26, 7, 3, 0});
  }
  cases.push_back({1, 1, 1, 1, 0});
  cases.push_back({40000, 96, 96, 1, 0});  // large tiles
  cases.push_back({20000, 64, 100, 2, 0});
  cases.push_back({300, 640, 640, 1, 0});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cuda, Gemm, testing::ValuesIn(gemm_cases()), [](const auto& info) {
  const GemmCase& c = info.param;
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + "_batch" +
         std::to_string(c.batch) + "_pad" + std::to_string(c.pad);
});

TEST_P(Gemm, OfDegreesAgreesWithTheProcessor) {
  const auto [m, n, k, degrees, pad] = GetParam();
  const int batch = degrees * degrees, ld = std::max(n, k) + pad;
  const std::int64_t rows = m, weights = std::int64_t{k} * n;
  Random random(3);
  const auto a = random.normal(rows * batch * ld), b = random.normal(degrees * weights);
  expect_same_as_cpu([&](auto& run) {
    using Real = typename std::decay_t<decltype(run)>::Real;
    kernels::GemmArgs<Real> args;  // packed rows of nodes
    args.m = GetParam().m, args.n = GetParam().n, args.k = GetParam().k;
    args.a = run.in(a), args.b = run.in(b), args.c = run.inout("c", a);
    args.lda = args.ldc = batch * ld, args.ldb = args.n;
    args.batch = batch, args.by_degree = true;
    args.stride_a = args.stride_c = ld, args.stride_b = weights;
    run.table().gemm(args, run.stream());
  });
}

/// The bits of a row depend neither on the number of rows nor on the row's place: what is
/// recomputed in the backward is what the forward had.
template <class Real>
void check_row_bits() {
  constexpr int kRows = 40000, kSize = 128;
  Random random(2);
  const auto a = random.normal(kRows * kSize), b = random.normal(kSize * kSize);
  const auto product = [&](int first, int count) {
    Run<Real> run(*device(), cuda::table<Real>());
    kernels::GemmArgs<Real> args;
    args.m = count, args.n = args.k = args.lda = args.ldb = args.ldc = kSize;
    args.a = run.in(a) + static_cast<std::int64_t>(first) * kSize;
    args.b = run.in(b);
    args.c = run.out("c", static_cast<std::int64_t>(count) * kSize);
    run.table().gemm(args, run.stream());
    return run.results().at("c");
  };
  const auto all = product(0, kRows);
  for (const int count : {1, 33, 1000, 20000}) {
    const int first = 777;
    const auto part = product(first, count);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first * kSize)) << count;
  }
}

TEST(GemmRows, HaveTheSameBitsInAnyCallFloat) {
  DPA4_NEEDS_DEVICE();
  check_row_bits<float>();
}
TEST(GemmRows, HaveTheSameBitsInAnyCallDouble) {
  DPA4_NEEDS_DEVICE();
  check_row_bits<double>();
}

// ---- the mixing stack
// ----------------------------------------------------------------------------

struct StackCase {
  int lmax, n_focus, width, n_layers, count;
};

/// Weights of the layers in host memory; So2Layer structs are made for each run.
struct StackWeights {
  std::vector<std::vector<double>> m0, m1, gate, m0_transposed, m1_transposed, gate_transposed;

  StackWeights(const StackCase& c, Random& random) {
    const int size0 = (c.lmax + 1) * c.width, half = c.lmax * c.width, size1 = 2 * half;
    for (int j = 0; j < c.n_layers; ++j) {
      m0.push_back(random.normal(static_cast<std::int64_t>(c.n_focus) * size0 * size0,
                                 0.7 / std::sqrt(size0)));
      const auto pair = random.normal(static_cast<std::int64_t>(c.n_focus) * half * size1,
                                      0.7 / std::sqrt(size1));
      m1.emplace_back(static_cast<std::size_t>(c.n_focus) * static_cast<std::size_t>(size1) *
                      static_cast<std::size_t>(size1));
      for (std::int64_t f = 0; f < c.n_focus; ++f) {  // [[U, V], [-V, U]]
        for (std::int64_t i = 0; i < half; ++i) {
          for (std::int64_t o = 0; o < half; ++o) {
            const double u = pair[static_cast<std::size_t>((f * half + i) * size1 + o)];
            const double v = pair[static_cast<std::size_t>((f * half + i) * size1 + half + o)];
            const auto at = [&](std::int64_t row, std::int64_t column) -> double& {
              return m1.back()[static_cast<std::size_t>((f * size1 + row) * size1 + column)];
            };
            at(i, o) = u, at(i, half + o) = v, at(half + i, o) = -v, at(half + i, half + o) = u;
          }
        }
      }
      gate.push_back(random.normal(static_cast<std::int64_t>(c.n_focus) * c.width * half,
                                   1 / std::sqrt(c.width)));
      m0_transposed.push_back(transpose(m0.back(), c.n_focus, size0, size0));
      m1_transposed.push_back(transpose(m1.back(), c.n_focus, size1, size1));
      gate_transposed.push_back(transpose(gate.back(), c.n_focus, c.width, half));
    }
  }

  template <class R>
  auto layers(R& run) const {
    std::vector<kernels::So2Layer<typename R::Real>> list;
    for (std::size_t j = 0; j < m0.size(); ++j) {
      const bool last = j + 1 == m0.size();
      list.push_back({run.in(m0[j]), run.in(m1[j]), last ? nullptr : run.in(gate[j]),
                      run.in(m0_transposed[j]), run.in(m1_transposed[j]),
                      last ? nullptr : run.in(gate_transposed[j])});
    }
    return list;
  }
};

enum class Keep { kNothing, kInOrder, kScattered };

class So2Stack : public testing::TestWithParam<StackCase> {
 protected:
  void SetUp() override { DPA4_NEEDS_DEVICE(); }
  MessageShape shape() const {
    MessageShape s;
    s.lmax = GetParam().lmax;
    s.n_focus = GetParam().n_focus;
    s.width = GetParam().width;
    return s;
  }
};

/// Forward with `keep`, and back from what was kept in order. Results are named after `keep`.
template <class R>
void run_stack(R& run, const StackCase& c, const MessageShape& shape,
               const std::vector<kernels::So2Layer<typename R::Real>>& layers,
               const std::vector<double>& u, const std::vector<double>& grad, Keep keep) {
  using Real = typename R::Real;
  const std::string name = std::to_string(static_cast<int>(keep));
  std::vector<int> rows;  // every third edge is not kept
  for (int i = 0; i < c.count; ++i) rows.push_back(i % 3 == 1 ? -1 : c.count - 1 - i);
  kernels::So2StackArgs<Real> args;
  args.count = c.count;
  args.shape = shape;
  args.n_layers = c.n_layers;
  args.layers = layers.data();
  args.u = run.inout("u" + name, u);
  args.work = run.work(c.count * run.table().so2_stack_work(shape));
  if (keep != Keep::kNothing) {
    const std::size_t size = static_cast<std::size_t>(c.n_layers) * u.size();
    args.kept = run.inout("kept" + name, std::vector<double>(size, 7));
    args.kept_rows = c.count;
    args.kept_row = keep == Keep::kScattered ? run.in(rows) : nullptr;
    args.keep_result = c.count % 2 == 1;
  }
  run.table().so2_stack(args, run.stream());
  if (keep != Keep::kInOrder) return;
  kernels::So2StackBackwardArgs<Real> back;
  back.count = c.count;
  back.shape = shape;
  back.n_layers = c.n_layers;
  back.layers = layers.data();
  back.kept = args.kept;
  back.kept_rows = c.count;
  back.grad_u = run.inout("grad_u", grad);
  back.work = args.work;
  run.table().so2_stack_backward(back, run.stream());
}

TEST_P(So2Stack, AgreesWithTheProcessor) {
  const StackCase c = GetParam();
  const MessageShape shape = this->shape();
  Random random(3);
  const StackWeights weights(c, random);
  const std::int64_t size = std::int64_t{c.n_focus} * c.count * shape.row_size();
  const auto u = random.normal(size), grad = random.normal(size);
  expect_same_as_cpu([&](auto& run) {
    const auto layers = weights.layers(run);
    for (const Keep keep : {Keep::kNothing, Keep::kInOrder, Keep::kScattered}) {
      run_stack(run, c, shape, layers, u, grad, keep);
    }
  });
}

std::vector<StackCase> stack_cases() {
  std::vector<StackCase> cases;
  constexpr int kWidths[] = {32, 64, 24, 16, 128, 96};
  constexpr int kMostColumns = 384;  // of a degree's rows: the weights grow with its square
  for (int lmax = 1; lmax <= 6; ++lmax) {
    for (int n_focus = 1; n_focus <= 3; ++n_focus) {
      const int layers = 1 + (lmax + n_focus) % 4;
      for (int count : {0, 1, 31, 32, 33}) {
        const int width = kWidths[(lmax + n_focus + count) % 6];
        cases.push_back({lmax, n_focus, lmax * width <= kMostColumns ? width : 48, layers, count});
      }
    }
  }
  cases.push_back({1, 1, 32, 3, 4097});  // nano
  cases.push_back({2, 1, 32, 3, 4097});  // mini
  cases.push_back({3, 2, 32, 3, 4097});  // neo
  cases.push_back({3, 1, 64, 4, 4097});  // air
  cases.push_back({4, 1, 64, 4, 1025});  // plus
  cases.push_back({5, 2, 64, 4, 513});   // pro
  cases.push_back({3, 1, 32, 2, 257});   // these two again in many rows, below
  cases.push_back({5, 1, 64, 2, 257});
  return cases;
}

std::string name_of(const testing::TestParamInfo<StackCase>& info) {
  const StackCase& c = info.param;
  return "lmax" + std::to_string(c.lmax) + "_focus" + std::to_string(c.n_focus) + "_width" +
         std::to_string(c.width) + "_layers" + std::to_string(c.n_layers) + "_" +
         std::to_string(c.count) + "_edges";
}

INSTANTIATE_TEST_SUITE_P(Cuda, So2Stack, testing::ValuesIn(stack_cases()), name_of);

/// Rows of `few` edges (planes, few, size) over and over for `count` edges.
std::vector<double> repeated(const std::vector<double>& rows, std::size_t few, std::size_t count,
                             std::size_t size) {
  std::vector<double> all;
  all.reserve(rows.size() / few * count);
  for (std::size_t plane = 0; plane * few * size < rows.size(); ++plane) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto from = rows.begin() + static_cast<std::ptrdiff_t>((plane * few + i % few) * size);
      all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(size));
    }
  }
  return all;
}

class So2StackRows : public So2Stack {
 protected:
  /// The bits of a row depend neither on the number of rows nor on the row's place: many rows are
  /// compared with a few of the same, which is quicker than with the processor.
  template <class Real>
  void check() const {
    constexpr int kFew = 257;
    const MessageShape shape = this->shape();
    StackCase few = GetParam();
    few.count = kFew;
    Random random(4);
    const StackWeights weights(few, random);
    const std::int64_t size = std::int64_t{few.n_focus} * kFew * shape.row_size();
    const auto u = random.normal(size), grad = random.normal(size);
    const auto row = static_cast<std::size_t>(shape.row_size());
    const auto results = [&](const StackCase& c) {
      const auto count = static_cast<std::size_t>(c.count);
      return solve<Real>(*device(), cuda::table<Real>(), [&](auto& run) {
        const auto layers = weights.layers(run);
        run_stack(run, c, shape, layers, repeated(u, kFew, count, row),
                  repeated(grad, kFew, count, row), Keep::kInOrder);
      });
    };
    const Results some = results(few), all = results(GetParam());
    ASSERT_EQ(all.size(), 3u);  // of the stack, what it kept, and the gradient
    for (const auto& [name, values] : all) {
      const auto expected =
          repeated(some.at(name), kFew, static_cast<std::size_t>(GetParam().count), row);
      ASSERT_EQ(values.size(), expected.size());
      std::size_t different = 0, first = 0;
      double largest = 0;
      for (std::size_t i = values.size(); i-- > 0;) {
        if (values[i] == expected[i]) continue;
        ++different;
        first = i;
        largest = std::max(largest, std::abs(values[i] - expected[i]));
      }
      EXPECT_EQ(different, 0u) << name << ": the first is column " << first % row << " of row "
                               << first / row << ", the largest difference " << largest;
    }
  }
};

TEST_P(So2StackRows, HaveTheSameBitsInAnyCallFloat) { check<float>(); }
TEST_P(So2StackRows, HaveTheSameBitsInAnyCallDouble) { check<double>(); }

// More edges than a device works on at a time, so that blocks take several tiles.
INSTANTIATE_TEST_SUITE_P(Cuda, So2StackRows,
                         testing::Values(StackCase{1, 1, 32, 3, 40001},
                                         StackCase{3, 1, 32, 2, 26001},
                                         StackCase{5, 1, 64, 2, 9001}),
                         name_of);

}  // namespace
}  // namespace dpa4::test
