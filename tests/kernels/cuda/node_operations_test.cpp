// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/kernels/cuda/backend_case.h"

namespace dpa4::test {
namespace {

class NodeCounts : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { DPA4_NEEDS_DEVICE(); }
  int count() const { return GetParam(); }
  std::int64_t of(int width) const { return static_cast<std::int64_t>(count()) * width; }
};

TEST_P(NodeCounts, RadialHiddenLayer) {
  Random random(1);
  for (const int width : {24, 64, 130}) {
    const auto x = random.normal(of(width)), grad_y = random.normal(of(width));
    const auto scale = random.normal(width, 0.2, 1);
    for (const bool normed : {false, true}) {
      expect_same_as_cpu([&](auto& run) {
        const auto* scales = normed ? run.in(scale) : nullptr;
        run.table().rms_norm_silu(
            {count(), width, run.in(x), scales, 1e-7, run.out("y", of(width))}, run.stream());
        auto* grad = run.inout("grad_x", grad_y);
        run.table().rms_norm_silu_backward({count(), width, run.in(x), scales, 1e-7, grad, grad},
                                           run.stream());
      });
    }
  }
}

TEST_P(NodeCounts, DegreeBackward) {
  Random random(2);
  constexpr int kWidthA = 90, kWidthB = 33, kLd = 100;
  const auto a = random.normal(of(kLd)), grad_a = random.normal(of(kLd));
  const auto b = random.normal(of(kWidthB)), grad_b = random.normal(of(kWidthB));
  const auto kappa = random.uniform(count(), 0.2, 2), extra = random.normal(count());
  expect_same_as_cpu([&](auto& run) {
    using Real = typename std::decay_t<decltype(run)>::Real;
    kernels::NodeDegreeBackwardArgs<Real> args;
    args.node_count = count();
    args.kappa = run.in(kappa);
    args.width_a = kWidthA;
    args.ld_a = kLd;
    args.value_a = run.in(a);
    args.grad_a = run.in(grad_a);
    args.grad_degree = run.out("one", count());
    run.table().node_degree_backward(args, run.stream());
    args.width_b = args.ld_b = kWidthB;
    args.value_b = run.in(b);
    args.grad_b = run.in(grad_b);
    args.extra = run.in(extra);
    args.grad_degree = run.out("both", count());
    run.table().node_degree_backward(args, run.stream());
  });
}

TEST_P(NodeCounts, Film) {
  Random random(3);
  constexpr int kWidth = 48, kAxes = 4, kChannels = 40, kTypes = 3, kLd = 9 * kChannels;
  const auto sum = random.normal(of(4 * kWidth)), grad_gram = random.normal(of(kWidth * kAxes));
  const auto film = random.normal(of(2 * kChannels)), table = random.normal(kTypes * kChannels);
  const auto scale = random.normal(kChannels, 0.2, 1), shift = random.normal(kChannels, 0.2, 1);
  const auto rows = random.normal(of(kLd));
  const auto type = random.integers(count(), kTypes);
  for (const bool normed : {false, true}) {
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      run.table().film_gram(
          {count(), kWidth, kAxes, run.in(sum), run.out("gram", of(kWidth * kAxes))}, run.stream());
      run.table().film_gram_backward({count(), kWidth, kAxes, run.in(sum), run.in(grad_gram),
                                      run.out("grad_sum", of(4 * kWidth))},
                                     run.stream());
      kernels::FilmApplyArgs<Real> args;
      args.n_nodes = count();
      args.channels = kChannels;
      args.type = run.in(type);
      args.type_table = run.in(table);
      args.film = run.in(film);
      args.scale_norm = normed ? run.in(scale) : nullptr;
      args.shift_norm = normed ? run.in(shift) : nullptr;
      args.eps = 1e-7;
      args.scale_strength = 0.3;
      args.shift_strength = 0.7;
      args.x = run.inout("x", rows);
      args.ldx = kLd;
      run.table().film_apply(args, run.stream());
      kernels::FilmApplyBackwardArgs<Real> back;
      back.n_nodes = count();
      back.channels = kChannels;
      back.type = args.type;
      back.type_table = args.type_table;
      back.scale_norm = args.scale_norm;
      back.shift_norm = args.shift_norm;
      back.eps = args.eps;
      back.scale_strength = args.scale_strength;
      back.shift_strength = args.shift_strength;
      back.grad_x = run.in(rows);
      back.ldx = kLd;
      back.grad_film = run.inout("grad_film", film);  // in place
      back.film = back.grad_film;
      run.table().film_apply_backward(back, run.stream());
    });
  }
}

TEST_P(NodeCounts, Norms) {
  Random random(4);
  for (int lmax = 1; lmax <= 6; ++lmax) {
    const int channels = 8 + 24 * (lmax % 3), size = (lmax + 1) * (lmax + 1) * channels;
    const std::int64_t ld = size + channels;
    const auto x = random.normal(count() * ld), grad_y = random.normal(of(size));
    const auto scale = random.normal((lmax + 1) * channels, 0.2, 1), bias = random.normal(channels);
    const auto balance = random.uniform(lmax + 1, 0.5 / size, 2.0 / size);
    for (const bool accumulate : {false, true}) {
      expect_same_as_cpu([&](auto& run) {
        using Real = typename std::decay_t<decltype(run)>::Real;
        run.table().so3_norm({count(), lmax, channels, 1e-5, run.in(x), ld, run.in(balance),
                              run.in(scale), run.in(bias), run.out("y", of(size))},
                             run.stream());
        kernels::So3NormBackwardArgs<Real> back;
        back.n_nodes = count();
        back.lmax = lmax;
        back.channels = channels;
        back.eps = 1e-5;
        back.x = run.in(x);
        back.ldx = ld;
        back.balance = run.in(balance);
        back.scale = run.in(scale);
        back.grad_y = run.in(grad_y);
        back.grad_x = run.inout("grad_x", x);
        back.ld_grad = ld;
        back.accumulate = accumulate;
        run.table().so3_norm_backward(back, run.stream());
      });
    }
  }
}

TEST_P(NodeCounts, ScalarNorm) {
  Random random(5);
  for (const int n_focus : {1, 2, 3}) {
    constexpr int kWidth = 40;
    const std::int64_t ld = 9 * n_focus * kWidth;
    const auto x = random.normal(count() * ld), grad_y = random.normal(of(n_focus * kWidth));
    const auto scale = random.normal(n_focus * kWidth, 0.2, 1);
    expect_same_as_cpu([&](auto& run) {
      run.table().scalar_norm({count(), n_focus, kWidth, 1e-7, run.in(x), ld, run.in(scale),
                               run.out("y", of(n_focus * kWidth))},
                              run.stream());
      run.table().scalar_norm_backward({count(), n_focus, kWidth, 1e-7, run.in(x), ld,
                                        run.in(scale), run.in(grad_y), run.inout("grad_x", x), ld},
                                       run.stream());
    });
  }
}

TEST_P(NodeCounts, HeadGate) {
  Random random(6);
  for (const int heads : {0, 1, 2}) {
    kernels::MessageShape shape;
    shape.lmax = 2 + heads;
    shape.n_focus = 3 - heads;
    shape.width = 24;
    shape.n_heads = heads;
    const int size = shape.full_rows() * shape.hidden(), weights = shape.weights();
    const auto sum = random.normal(of(size)), grad = random.normal(of(size));
    const auto logit = random.normal(of(weights)), kappa = random.uniform(count(), 0.2, 2);
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      kernels::HeadGateArgs<Real> args;
      args.n_nodes = count();
      args.shape = shape;
      args.sum = run.in(sum);
      args.logit = run.in(logit);  // the one that is not used is ignored
      args.kappa = run.in(kappa);
      args.out = run.out("out", of(size));
      run.table().head_gate(args, run.stream());
      kernels::HeadGateBackwardArgs<Real> back;
      back.n_nodes = count();
      back.shape = shape;
      back.sum = args.sum;
      back.logit = args.logit;
      back.kappa = args.kappa;
      back.grad_sum = run.inout("grad_sum", grad);  // in place
      back.grad_out = back.grad_sum;
      if (heads > 0) {
        back.row_sum = run.out("row_sum", of(weights));
        back.grad_logit = run.out("grad_logit", of(weights));
      } else {
        back.kappa_times_grad = run.inout("kappa_times_grad", kappa);
      }
      run.table().head_gate_backward(back, run.stream());
    });
  }
}

TEST_P(NodeCounts, GridGateAndLinearUnit) {
  Random random(7);
  constexpr int kCoefficients = 10, kWidth = 24, kSize = kCoefficients * kWidth;
  const auto coefficient = random.normal(of(kSize)), grad = random.normal(of(kSize));
  const auto logit = random.normal(of(kWidth)), scalars = random.normal(of(2 * kWidth));
  const auto bias = random.normal(2 * kWidth), grad_y = random.normal(of(kWidth));
  expect_same_as_cpu([&](auto& run) {
    using Real = typename std::decay_t<decltype(run)>::Real;
    auto* in_place = run.inout("y", coefficient);
    run.table().grid_gate(
        {count(), kCoefficients, kWidth, in_place, run.in(logit), run.in(scalars), in_place},
        run.stream());
    kernels::GridGateBackwardArgs<Real> back;
    back.count = count();
    back.n_coefficients = kCoefficients;
    back.width = kWidth;
    back.coefficient = run.in(coefficient);
    back.logit = run.in(logit);
    back.scalars = run.in(scalars);
    back.grad_coefficient = run.inout("grad_coefficient", grad);  // in place
    back.grad_y = back.grad_coefficient;
    back.grad_logit = run.out("grad_logit", of(kWidth));
    back.grad_scalars = run.out("grad_scalars", of(2 * kWidth));
    run.table().grid_gate_backward(back, run.stream());

    run.table().glu(
        {count(), kWidth, false, run.in(scalars), run.in(bias), run.out("glu", of(kWidth))},
        run.stream());
    run.table().glu({count(), kWidth, true, run.in(logit), nullptr, run.out("silu", of(kWidth))},
                    run.stream());
    auto* glu_grad = run.inout("glu_grad", scalars);
    run.table().glu_backward(
        {count(), kWidth, false, glu_grad, run.in(bias), run.in(grad_y), glu_grad}, run.stream());
    run.table().glu_backward({count(), kWidth, true, run.in(logit), nullptr, run.in(grad_y),
                              run.out("silu_grad", of(kWidth))},
                             run.stream());
  });
}

TEST_P(NodeCounts, RowsAndEnergy) {
  Random random(8);
  constexpr int kWidth = 72, kTypes = 3;
  const std::int64_t ldx = 100, ldy = 80;
  const auto x = random.normal(count() * ldx), y = random.normal(count() * ldy);
  const auto table = random.normal(kTypes * kWidth), output = random.normal(kWidth);
  const auto features = random.normal(of(kWidth)), energy = random.normal(count());
  const auto type = random.integers(count(), kTypes);
  expect_same_as_cpu([&](auto& run) {
    run.table().rows({count(), kWidth, run.in(x), ldx, run.inout("copied", y), ldy, false},
                     run.stream());
    run.table().rows({count(), kWidth, run.in(x), ldx, run.inout("added", y), ldy, true},
                     run.stream());
    run.table().rows({count(), kWidth, run.in(x), ldx, run.inout("sum", y), ldy, false,
                      run.in(features), kWidth},
                     run.stream());
    run.table().type_rows(
        {count(), kWidth, run.in(type), run.in(table), run.inout("typed", y), ldy}, run.stream());
    run.table().energy_head({count(), kWidth, run.in(type), run.in(features), run.in(output),
                             run.in_double({1, 0, 1}), run.in_double({-120.5, 3, 0.25}),
                             run.inout_double("energy", energy), run.out("grad_x", of(kWidth))},
                            run.stream());
  });
}

struct GridCase {
  int points, coefficients, width, branches;
};

void check_grid_product(int count, const GridCase& c) {
  Random random(9);
  kernels::GridShape shape{c.points, c.coefficients, c.width, c.branches};
  const int wide = c.branches * c.width;
  const auto of = [&](int size) { return static_cast<std::int64_t>(count) * size; };
  const auto to = random.normal(static_cast<std::int64_t>(c.points) * c.coefficients, 0.2);
  const auto from = random.normal(static_cast<std::int64_t>(c.points) * c.coefficients, 0.2);
  const auto left = random.normal(of(c.coefficients * wide));
  const auto right = random.normal(of(c.coefficients * wide));
  const auto grad_out = random.normal(of(c.coefficients * c.width));
  const auto logit = random.normal(of(c.branches)), weight = random.normal(c.coefficients);
  const auto grad_mean = random.normal(of(wide));
  expect_same_as_cpu([&](auto& run) {
    using Real = typename std::decay_t<decltype(run)>::Real;
    const bool routed = c.branches > 1;
    Real* router = nullptr;
    if (routed) {
      router = run.out("router", of(c.branches));
      run.table().grid_router({count, c.branches, run.in(logit), router}, run.stream());
    }
    kernels::GridProductArgs<Real> args;
    args.count = count;
    args.shape = shape;
    args.grid = {run.in(to), run.in(transpose(to, 1, c.points, c.coefficients)), run.in(from),
                 run.in(transpose(from, 1, c.coefficients, c.points))};
    args.left = run.in(left);
    args.right = run.in(right);
    args.router = router;
    args.out = run.out("out", of(c.coefficients * c.width));
    args.work = run.work(count * run.table().grid_product_work(shape));
    run.table().grid_product(args, run.stream());

    kernels::GridProductBackwardArgs<Real> back;
    back.count = count;
    back.shape = shape;
    back.grid = args.grid;
    back.router = router;
    back.grad_out = run.in(grad_out);
    back.grad_left = run.inout("grad_left", left);  // in place
    back.grad_right = run.inout("grad_right", right);
    back.left = back.grad_left;
    back.right = back.grad_right;
    back.grad_router = routed ? run.out("grad_router", of(c.branches)) : nullptr;
    back.work = args.work;
    run.table().grid_product_backward(back, run.stream());
    if (routed) {
      run.table().grid_router_backward(
          {count, c.branches, router, back.grad_router, run.out("grad_logit", of(c.branches))},
          run.stream());
    }
    run.table().grid_mean({count, c.coefficients, wide, run.in(weight), args.left, args.right,
                           run.out("mean", of(wide))},
                          run.stream());
    run.table().grid_mean_backward(
        {count, c.coefficients, wide, run.in(weight), args.left, args.right, run.in(grad_mean),
         run.out("mean_grad_left", of(c.coefficients * wide)),
         run.out("mean_grad_right", of(c.coefficients * wide))},
        run.stream());
  });
}

TEST_P(NodeCounts, GridProduct) {
  if (count() > 1000) return check_grid_product(count() / 16 + 1, {24, 12, 32, 1});
  for (const GridCase& c :
       {GridCase{24, 12, 32, 1}, GridCase{152, 48, 96, 1}, GridCase{6, 4, 24, 1},
        GridCase{344, 108, 12, 1}, GridCase{40, 120, 8, 1}, GridCase{26, 9, 20, 2},
        GridCase{14, 27, 6, 3}}) {
    SCOPED_TRACE(std::to_string(c.points) + " points, " + std::to_string(c.branches) + " branches");
    check_grid_product(count(), c);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, NodeCounts, testing::ValuesIn(awkward_counts()),
                         [](const auto& info) { return std::to_string(info.param) + "_nodes"; });

}  // namespace
}  // namespace dpa4::test
