// SPDX-License-Identifier: GPL-2.0-or-later
// Operations that work on rows of nodes or edges one by one.
#include "src/math/activation.h"
#include "tests/kernels/kernel_case.h"

namespace dpa4::testing {
namespace {

using kernels::KernelTable;

template <class T>
T inverse_rms(const T* x, int width, double eps) {
  T sum(0);
  for (int c = 0; c < width; ++c) sum = sum + x[c] * x[c];
  using math::sqrt_of;
  return T(1) / sqrt_of(sum / T(width) + T(eps));
}

struct RmsNormSilu {
  int rows, width;
  bool normed;

  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> y;
    for (int n = 0; n < rows; ++n) {
      const T* x = in[0].data() + n * width;
      const T factor = normed ? inverse_rms(x, width, 1e-3) : T(1);
      for (int c = 0; c < width; ++c) {
        y.push_back(math::silu(x[c] * factor * (normed ? in[1][c] : T(1))));
      }
    }
    return y;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(in[0].size());
    table.rms_norm_silu(
        {rows, width, in[0].data(), normed ? in[1].data() : nullptr, 1e-3, y.data()}, nullptr);
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    auto grad = poisoned<Real>(in[0].size());
    table.rms_norm_silu_backward({rows, width, in[0].data(), normed ? in[1].data() : nullptr, 1e-3,
                                  weights.data(), grad.data()},
                                 nullptr);
    return {grad, {}};
  }
};

TEST(RmsNormSilu, FollowsItsFormula) {
  for (bool normed : {false, true}) {
    for (int rows : {0, 1, 33}) {
      for (int width : {1, 16, 37}) {
        check(RmsNormSilu{rows, width, normed},
              {random_values(static_cast<std::size_t>(rows * width), 1),
               random_values(static_cast<std::size_t>(width), 2)},
              "width " + std::to_string(width));
      }
    }
  }
}

struct ScalarNorm {
  int nodes, focus, width;
  std::int64_t ld() const { return focus * width + 5; }

  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> y;
    for (int n = 0; n < nodes; ++n) {
      for (int f = 0; f < focus; ++f) {
        const T* x = in[0].data() + n * ld() + f * width;
        const T factor = inverse_rms(x, width, 1e-7);
        for (int c = 0; c < width; ++c) y.push_back(x[c] * factor * in[1][f * width + c]);
      }
    }
    return y;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(static_cast<std::size_t>(nodes * focus * width));
    table.scalar_norm({nodes, focus, width, 1e-7, in[0].data(), ld(), in[1].data(), y.data()},
                      nullptr);
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> grad(in[0].size(), 0);
    table.scalar_norm_backward({nodes, focus, width, 1e-7, in[0].data(), ld(), in[1].data(),
                                weights.data(), grad.data(), ld()},
                               nullptr);
    return {grad, {}};
  }
};

TEST(ScalarNorm, FollowsItsFormula) {
  for (int nodes : {0, 1, 32}) {
    for (int focus : {1, 2, 3}) {
      for (int width : {3, 16, 40}) {
        const ScalarNorm op{nodes, focus, width};
        check(op,
              {random_values(static_cast<std::size_t>(nodes * op.ld()), 3),
               random_values(static_cast<std::size_t>(focus * width), 4)},
              "width " + std::to_string(width));
      }
    }
  }
}

struct So3Norm {
  int nodes, lmax, channels;
  int rows() const { return (lmax + 1) * (lmax + 1); }
  std::int64_t ld() const { return rows() * channels + 7; }

  // Inputs: x, balance, scale, bias.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    using math::sqrt_of;
    std::vector<T> y;
    for (int n = 0; n < nodes; ++n) {
      const T* x = in[0].data() + n * ld();
      T mean(0), v(1e-2);
      for (int c = 0; c < channels; ++c) mean = mean + x[c] / T(channels);
      const auto z = [&](int d, int c) { return x[d * channels + c] - (d == 0 ? mean : T(0)); };
      const auto degree = [](int d) { return static_cast<int>(std::sqrt(d + 0.5)); };
      for (int d = 0; d < rows(); ++d) {
        for (int c = 0; c < channels; ++c) v = v + in[1][degree(d)] * z(d, c) * z(d, c);
      }
      for (int d = 0; d < rows(); ++d) {
        for (int c = 0; c < channels; ++c) {
          y.push_back(z(d, c) / sqrt_of(v) * in[2][degree(d) * channels + c] +
                      (d == 0 ? in[3][c] : T(0)));
        }
      }
    }
    return y;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(static_cast<std::size_t>(nodes * rows() * channels));
    kernels::So3NormArgs<Real> args;
    args.n_nodes = nodes;
    args.lmax = lmax;
    args.channels = channels;
    args.eps = 1e-2;
    args.x = in[0].data();
    args.ldx = ld();
    args.balance = in[1].data();
    args.scale = in[2].data();
    args.bias = in[3].data();
    args.y = y.data();
    table.so3_norm(args, nullptr);
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    kernels::So3NormBackwardArgs<Real> args;
    args.n_nodes = nodes;
    args.lmax = lmax;
    args.channels = channels;
    args.eps = 1e-2;
    args.x = in[0].data();
    args.ldx = ld();
    args.balance = in[1].data();
    args.scale = in[2].data();
    args.grad_y = weights.data();
    args.ld_grad = ld();
    std::vector<Real> written(in[0].size(), 0), added(in[0].size(), 1);
    args.grad_x = written.data();
    table.so3_norm_backward(args, nullptr);
    args.grad_x = added.data();
    args.accumulate = true;
    table.so3_norm_backward(args, nullptr);
    const int width = rows() * channels;
    for (std::size_t i = 0; i < added.size(); ++i) {
      const bool inside = static_cast<std::int64_t>(i) % ld() < width;
      EXPECT_NEAR(added[i], (inside ? written[i] : Real(0)) + Real(1), 1e-5);
    }
    return {written, {}, {}, {}};
  }
};

TEST(So3Norm, FollowsItsFormula) {
  for (int lmax = 0; lmax <= 6; ++lmax) {
    for (int channels : {8, 21}) {
      const So3Norm op{lmax == 2 ? 33 : 3, lmax, channels};
      std::vector<double> balance;
      for (int l = 0; l <= lmax; ++l)
        balance.push_back(1.0 / ((2 * l + 1) * (lmax + 1) * channels));
      check(op,
            {random_values(static_cast<std::size_t>(op.nodes * op.ld()), 5), balance,
             random_values(static_cast<std::size_t>((lmax + 1) * channels), 6),
             random_values(static_cast<std::size_t>(channels), 7)},
            "degree " + std::to_string(lmax));
    }
  }
}

struct Glu {
  int rows, width;
  bool plain;
  int columns() const { return plain ? width : 2 * width; }

  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> y;
    for (int n = 0; n < rows; ++n) {
      for (int c = 0; c < width; ++c) {
        const T* x = in[0].data() + n * columns();
        const T value = x[c] + in[1][c];
        y.push_back(plain ? math::silu(value)
                          : value * math::silu(x[width + c] + in[1][width + c]));
      }
    }
    return y;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(static_cast<std::size_t>(rows * width));
    table.glu({rows, width, plain, in[0].data(), in[1].data(), y.data()}, nullptr);
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> grad = in[0];  // in place
    table.glu_backward({rows, width, plain, grad.data(), in[1].data(), weights.data(), grad.data()},
                       nullptr);
    return {grad, {}};
  }
};

TEST(Glu, FollowsItsFormula) {
  for (bool plain : {false, true}) {
    for (int rows : {0, 1, 31}) {
      for (int width : {1, 16, 45}) {
        const Glu op{rows, width, plain};
        check(op,
              {random_values(static_cast<std::size_t>(rows * op.columns()), 8),
               random_values(static_cast<std::size_t>(op.columns()), 9)},
              "width " + std::to_string(width));
      }
    }
  }
}

struct GridGate {
  int count, size, width;

  // Inputs: coefficients, logits, scalars.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> y;
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < size; ++i) {
        for (int c = 0; c < width; ++c) {
          T value = in[0][(n * size + i) * width + c] * math::sigmoid(in[1][n * width + c]);
          if (i == 0) {
            value = value + math::silu(in[2][n * 2 * width + c]) * in[2][(n * 2 + 1) * width + c];
          }
          y.push_back(value);
        }
      }
    }
    return y;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(in[0].size());
    table.grid_gate({count, size, width, in[0].data(), in[1].data(), in[2].data(), y.data()},
                    nullptr);
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> grad = weights;  // in place
    auto logit = poisoned<Real>(in[1].size()), scalars = poisoned<Real>(in[2].size());
    table.grid_gate_backward({count, size, width, in[0].data(), in[1].data(), in[2].data(),
                              grad.data(), grad.data(), logit.data(), scalars.data()},
                             nullptr);
    return {grad, logit, scalars};
  }
};

TEST(GridGate, FollowsItsFormula) {
  for (int count : {0, 1, 5}) {
    for (int size : {1, 12}) {
      for (int width : {8, 19}) {
        check(GridGate{count, size, width},
              {random_values(static_cast<std::size_t>(count * size * width), 10),
               random_values(static_cast<std::size_t>(count * width), 11),
               random_values(static_cast<std::size_t>(count * 2 * width), 12)},
              "width " + std::to_string(width));
      }
    }
  }
}

struct GridRouter {
  int count, branches;

  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    using math::exp_of;
    std::vector<T> y;
    for (int n = 0; n < count; ++n) {
      T sum(0);
      for (int b = 0; b < branches; ++b) sum = sum + exp_of(in[0][n * branches + b]);
      for (int b = 0; b < branches; ++b) y.push_back(exp_of(in[0][n * branches + b]) / sum);
    }
    return y;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(in[0].size());
    table.grid_router({count, branches, in[0].data(), y.data()}, nullptr);
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    const std::vector<Real> router = run(table, in);
    auto grad = poisoned<Real>(in[0].size());
    table.grid_router_backward({count, branches, router.data(), weights.data(), grad.data()},
                               nullptr);
    return {grad};
  }
};

TEST(GridRouter, IsASoftmax) {
  for (int branches : {2, 3, 5}) {
    check(GridRouter{7, branches}, {random_values(static_cast<std::size_t>(7 * branches), 13, 3)},
          "branches " + std::to_string(branches));
  }
}

struct GridProduct {
  int count, points, size, width, branches;
  bool routed;
  kernels::GridShape shape() const { return {points, size, width, branches}; }

  // Inputs: to, from, left, right, router.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> out;
    for (int n = 0; n < count; ++n) {
      std::vector<T> value(static_cast<std::size_t>(points * width), T(0));
      for (int g = 0; g < points; ++g) {
        for (int b = 0; b < branches; ++b) {
          for (int c = 0; c < width; ++c) {
            T left(0), right(0);
            for (int i = 0; i < size; ++i) {
              const std::size_t at =
                  static_cast<std::size_t>(((n * size + i) * branches + b) * width + c);
              left = left + in[0][g * size + i] * in[2][at];
              right = right + in[0][g * size + i] * in[3][at];
            }
            const T weight = routed ? in[4][n * branches + b] : T(1);
            value[g * width + c] = value[g * width + c] + weight * left * right;
          }
        }
      }
      for (int i = 0; i < size; ++i) {
        for (int c = 0; c < width; ++c) {
          T sum(0);
          for (int g = 0; g < points; ++g) sum = sum + in[1][i * points + g] * value[g * width + c];
          out.push_back(sum);
        }
      }
    }
    return out;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto out = poisoned<Real>(static_cast<std::size_t>(count * size * width));
    auto work = poisoned<Real>(static_cast<std::size_t>(count * table.grid_product_work(shape())));
    kernels::GridProductArgs<Real> args;
    args.count = count;
    args.shape = shape();
    args.grid.to = in[0].data();
    args.grid.from = in[1].data();
    args.left = in[2].data();
    args.right = in[3].data();
    args.router = routed ? in[4].data() : nullptr;
    args.out = out.data();
    args.work = work.data();
    table.grid_product(args, nullptr);
    return out;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    const auto transposed = [](const std::vector<Real>& m, int rows, int cols) {
      std::vector<Real> t(m.size());
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < cols; ++j) t[j * rows + i] = m[i * cols + j];
      return t;
    };
    const auto to_t = transposed(in[0], points, size), from_t = transposed(in[1], size, points);
    std::vector<Real> left = in[2], right = in[3];  // in place
    auto router = poisoned<Real>(routed ? in[4].size() : 0);
    auto work = poisoned<Real>(static_cast<std::size_t>(count * table.grid_product_work(shape())));
    kernels::GridProductBackwardArgs<Real> args;
    args.count = count;
    args.shape = shape();
    args.grid = {in[0].data(), to_t.data(), in[1].data(), from_t.data()};
    args.left = left.data();
    args.right = right.data();
    args.router = routed ? in[4].data() : nullptr;
    args.grad_out = weights.data();
    args.grad_left = left.data();
    args.grad_right = right.data();
    args.grad_router = routed ? router.data() : nullptr;
    args.work = work.data();
    table.grid_product_backward(args, nullptr);
    return {{}, {}, left, right, router};
  }
};

TEST(GridProduct, FollowsItsFormula) {
  for (const auto& [count, points, size, width, branches, routed] :
       {std::tuple{0, 6, 4, 8, 1, false},
        {1, 6, 4, 8, 1, false},
        {3, 24, 12, 19, 1, false},
        {2, 26, 27, 16, 2, true},
        {2, 10, 4, 5, 3, true}}) {
    check(GridProduct{count, points, size, width, branches, routed},
          {random_values(static_cast<std::size_t>(points * size), 14),
           random_values(static_cast<std::size_t>(points * size), 15, 0.1),
           random_values(static_cast<std::size_t>(count * size * width * branches), 16, 0.3),
           random_values(static_cast<std::size_t>(count * size * width * branches), 17, 0.3),
           random_values(static_cast<std::size_t>(count * branches), 18)},
          "points " + std::to_string(points));
  }
}

struct GridMean {
  int count, size, width;

  // Inputs: weight, left, right.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> out;
    for (int n = 0; n < count; ++n) {
      for (int c = 0; c < width; ++c) {
        T sum(0);
        for (int i = 0; i < size; ++i) {
          sum = sum +
                in[0][i] * in[1][(n * size + i) * width + c] * in[2][(n * size + i) * width + c];
        }
        out.push_back(sum);
      }
    }
    return out;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto out = poisoned<Real>(static_cast<std::size_t>(count * width));
    table.grid_mean({count, size, width, in[0].data(), in[1].data(), in[2].data(), out.data()},
                    nullptr);
    return out;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    auto left = poisoned<Real>(in[1].size()), right = poisoned<Real>(in[2].size());
    table.grid_mean_backward({count, size, width, in[0].data(), in[1].data(), in[2].data(),
                              weights.data(), left.data(), right.data()},
                             nullptr);
    return {{}, left, right};
  }
};

TEST(GridMean, FollowsItsFormula) {
  for (int width : {1, 16, 23}) {
    check(GridMean{3, 12, width},
          {random_values(12, 19), random_values(static_cast<std::size_t>(36 * width), 20),
           random_values(static_cast<std::size_t>(36 * width), 21)},
          "width " + std::to_string(width));
  }
}

struct HeadGate {
  int nodes;
  kernels::MessageShape shape;

  // Inputs: sum, logit (or kappa when there are no heads).
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> out;
    const int hidden = shape.hidden(), weights = shape.weights();
    for (int n = 0; n < nodes; ++n) {
      for (int d = 0; d < shape.full_rows(); ++d) {
        for (int c = 0; c < hidden; ++c) {
          const T gate = shape.n_heads > 0
                             ? math::sigmoid(in[1][n * weights + c / (hidden / weights)])
                             : in[1][n];
          out.push_back(in[0][(n * shape.full_rows() + d) * hidden + c] * gate);
        }
      }
    }
    return out;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto out = poisoned<Real>(in[0].size());
    kernels::HeadGateArgs<Real> args;
    args.n_nodes = nodes;
    args.shape = shape;
    args.sum = in[0].data();
    (shape.n_heads > 0 ? args.logit : args.kappa) = in[1].data();
    args.out = out.data();
    table.head_gate(args, nullptr);
    return out;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    const int heads = shape.weights(), hidden = shape.hidden(), rows = shape.full_rows();
    auto grad_sum = poisoned<Real>(in[0].size());
    auto row_sum = poisoned<Real>(static_cast<std::size_t>(nodes * heads));
    auto grad_logit = poisoned<Real>(static_cast<std::size_t>(nodes * heads));
    std::vector<Real> kappa_times_grad(static_cast<std::size_t>(nodes), 0);
    kernels::HeadGateBackwardArgs<Real> args;
    args.n_nodes = nodes;
    args.shape = shape;
    args.sum = in[0].data();
    (shape.n_heads > 0 ? args.logit : args.kappa) = in[1].data();
    args.grad_out = weights.data();
    args.grad_sum = grad_sum.data();
    args.row_sum = row_sum.data();
    args.grad_logit = grad_logit.data();
    args.kappa_times_grad = kappa_times_grad.data();
    table.head_gate_backward(args, nullptr);
    if (shape.n_heads == 0) {
      for (int n = 0; n < nodes; ++n) kappa_times_grad[n] /= in[1][n];
      return {grad_sum, kappa_times_grad};
    }
    // The row sums are the scalar products of the result with the input, head by head.
    for (int n = 0; n < nodes; ++n) {
      for (int h = 0; h < heads; ++h) {
        double sum = 0, scale = 1;
        for (int d = 0; d < rows; ++d) {
          for (int c = 0; c < hidden / heads; ++c) {
            const std::size_t at =
                static_cast<std::size_t>((n * rows + d) * hidden + h * (hidden / heads) + c);
            sum += static_cast<double>(grad_sum[at]) * in[0][at];
            scale += std::abs(static_cast<double>(grad_sum[at]) * in[0][at]);
          }
        }
        EXPECT_NEAR(row_sum[n * heads + h], sum, (sizeof(Real) == 8 ? 1e-13 : 1e-5) * scale);
      }
    }
    return {grad_sum, grad_logit};
  }
};

TEST(HeadGate, FollowsItsFormula) {
  for (int lmax : {1, 3, 6}) {
    for (int focus : {1, 2, 3}) {
      for (int heads : {0, 1, 4}) {
        kernels::MessageShape shape;
        shape.lmax = lmax;
        shape.n_focus = focus;
        shape.width = 20;
        shape.n_heads = heads;
        const HeadGate op{3, shape};
        std::vector<double> gate = random_values(static_cast<std::size_t>(3 * focus * 4), 23);
        if (heads == 0) gate = {0.7, 1.9, 0.4};
        gate.resize(static_cast<std::size_t>(heads == 0 ? 3 : 3 * shape.weights()));
        check(op,
              {random_values(static_cast<std::size_t>(3 * shape.full_rows() * shape.hidden()), 22),
               gate},
              "heads " + std::to_string(heads));
      }
    }
  }
}

TEST(EnergyHead, AddsNetworkAndTypeEnergies) {
  const std::vector<int> type = {1, 0, 2};
  const std::vector<double> scale = {1, 0, 1}, shift = {-3, -5, 7};
  const std::vector<double> x = {1, 2, 3, 4, 5, 6}, output = {0.5, -2};
  std::vector<double> energy = {10, 20, 30}, grad = poisoned<double>(6);
  for (const std::string& isa : cpu::instruction_sets()) {
    energy = {10, 20, 30};
    cpu::table<double>(isa).energy_head({3, 2, type.data(), x.data(), output.data(), scale.data(),
                                         shift.data(), energy.data(), grad.data()},
                                        nullptr);
    EXPECT_EQ(energy, (std::vector<double>{10 - 5, 20 + (0.5 * 3 - 2 * 4) - 3,
                                           30 + (0.5 * 5 - 2 * 6) + 7}));
    EXPECT_EQ(grad, (std::vector<double>{0, 0, 0.5, -2, 0.5, -2}));
  }
}

TEST(Rows, AreCopiedAndAdded) {
  const std::vector<float> x = {1, 2, 9, 3, 4, 9};
  std::vector<float> y = {5, 6, 7, 8, 9, 10, 11, 12};
  for (const std::string& isa : cpu::instruction_sets()) {
    y = {5, 6, 7, 8, 9, 10, 11, 12};
    cpu::table<float>(isa).rows({2, 2, x.data(), 3, y.data(), 4, true}, nullptr);
    EXPECT_EQ(y, (std::vector<float>{6, 8, 7, 8, 12, 14, 11, 12}));
    cpu::table<float>(isa).rows({2, 2, x.data(), 3, y.data(), 4, false}, nullptr);
    EXPECT_EQ(y, (std::vector<float>{1, 2, 7, 8, 3, 4, 11, 12}));
    const std::vector<float> add = {10, 20, 30, 40};
    y = {5, 6, 7, 8, 9, 10, 11, 12};
    cpu::table<float>(isa).rows({2, 2, x.data(), 3, y.data(), 4, false, add.data(), 2}, nullptr);
    EXPECT_EQ(y, (std::vector<float>{11, 22, 7, 8, 33, 44, 11, 12}));
    cpu::table<float>(isa).rows({2, 2, y.data(), 4, y.data(), 4, false, add.data(), 2}, nullptr);
    EXPECT_EQ(y, (std::vector<float>{21, 42, 7, 8, 63, 84, 11, 12}));
    y = {1, 2, 7, 8, 3, 4, 11, 12};
    const int type[2] = {1, 0};
    cpu::table<float>(isa).type_rows({2, 3, type, x.data(), y.data(), 4}, nullptr);
    EXPECT_EQ(y, (std::vector<float>{3, 4, 9, 8, 1, 2, 9, 12}));
  }
}

struct FilmGram {
  int nodes, width, axes;

  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> out;
    for (int n = 0; n < nodes; ++n) {
      for (int j = 0; j < width; ++j) {
        for (int a = 0; a < axes; ++a) {
          T sum(0);
          for (int k = 0; k < 4; ++k) {
            sum = sum + in[0][(n * 4 + k) * width + j] * in[0][(n * 4 + k) * width + a];
          }
          out.push_back(sum);
        }
      }
    }
    return out;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto out = poisoned<Real>(static_cast<std::size_t>(nodes * width * axes));
    table.film_gram({nodes, width, axes, in[0].data(), out.data()}, nullptr);
    return out;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    auto grad = poisoned<Real>(in[0].size());
    table.film_gram_backward({nodes, width, axes, in[0].data(), weights.data(), grad.data()},
                             nullptr);
    return {grad};
  }
};

TEST(FilmGram, FollowsItsFormula) {
  for (int width : {8, 21}) {
    check(FilmGram{3, width, 4}, {random_values(static_cast<std::size_t>(12 * width), 24)},
          "width " + std::to_string(width));
  }
}

struct FilmApply {
  int nodes, channels;
  bool normed;

  // Inputs: film, type table, norm scales.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    using math::exp_of;
    const auto tanh_of = [](T x) { return T(1) - T(2) / (T(1) + exp_of(T(2) * x)); };
    std::vector<T> out;
    for (int n = 0; n < nodes; ++n) {
      const T* film = in[0].data() + n * 2 * channels;
      const T s = normed ? inverse_rms(film, channels, 1e-7) : T(1);
      const T t = normed ? inverse_rms(film + channels, channels, 1e-7) : T(1);
      for (int c = 0; c < channels; ++c) {
        const T scale = film[c] * s * (normed ? in[2][c] : T(1));
        const T shift = film[channels + c] * t * (normed ? in[2][channels + c] : T(1));
        out.push_back(in[1][(n % 2) * channels + c] * (T(1) + T(0.3) * tanh_of(scale)) +
                      T(0.2) * tanh_of(shift));
      }
    }
    return out;
  }
  std::vector<int> types() const {
    std::vector<int> type;
    for (int n = 0; n < nodes; ++n) type.push_back(n % 2);
    return type;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    const std::vector<int> type = types();
    auto x = poisoned<Real>(static_cast<std::size_t>(nodes * channels));
    kernels::FilmApplyArgs<Real> args;
    args.n_nodes = nodes;
    args.channels = channels;
    args.type = type.data();
    args.type_table = in[1].data();
    args.film = in[0].data();
    args.scale_norm = normed ? in[2].data() : nullptr;
    args.shift_norm = normed ? in[2].data() + channels : nullptr;
    args.eps = 1e-7;
    args.scale_strength = 0.3;
    args.shift_strength = 0.2;
    args.x = x.data();
    args.ldx = channels;
    table.film_apply(args, nullptr);
    return x;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    const std::vector<int> type = types();
    std::vector<Real> film = in[0];  // in place
    kernels::FilmApplyBackwardArgs<Real> args;
    args.n_nodes = nodes;
    args.channels = channels;
    args.type = type.data();
    args.type_table = in[1].data();
    args.film = film.data();
    args.scale_norm = normed ? in[2].data() : nullptr;
    args.shift_norm = normed ? in[2].data() + channels : nullptr;
    args.eps = 1e-7;
    args.scale_strength = 0.3;
    args.shift_strength = 0.2;
    args.grad_x = weights.data();
    args.ldx = channels;
    args.grad_film = film.data();
    table.film_apply_backward(args, nullptr);
    return {film, {}, {}};
  }
};

TEST(FilmApply, FollowsItsFormula) {
  for (bool normed : {false, true}) {
    for (int channels : {8, 21}) {
      check(FilmApply{5, channels, normed},
            {random_values(static_cast<std::size_t>(10 * channels), 25),
             random_values(static_cast<std::size_t>(2 * channels), 26),
             random_values(static_cast<std::size_t>(2 * channels), 27)},
            "channels " + std::to_string(channels));
    }
  }
}

}  // namespace
}  // namespace dpa4::testing
