// SPDX-License-Identifier: GPL-2.0-or-later
// Operations of the SO(2) convolution.
#include "src/math/activation.h"
#include "src/math/harmonics.h"
#include "src/math/wigner.h"
#include "tests/kernels/kernel_case.h"

namespace dpa4::testing {
namespace {

using kernels::KernelTable;
using kernels::MessageShape;
using kernels::RadialMixing;

MessageShape message_shape(int lmax, int focus, int width, int heads, RadialMixing mixing,
                           int rank = 1) {
  MessageShape shape;
  shape.lmax = lmax;
  shape.n_focus = focus;
  shape.width = width;
  shape.n_heads = heads;
  shape.mixing = mixing;
  shape.rank = rank;
  return shape;
}

/// Sizes that break tilings, every degree, every number of focus streams.
struct Problem {
  int lmax, focus, width, heads, rank, edges;
  MessageShape shape() const {
    return message_shape(lmax, focus, width, heads,
                         rank == 0 ? RadialMixing::kScale : RadialMixing::kMix, std::max(rank, 1));
  }
};

std::vector<Problem> problems() {
  std::vector<Problem> result;
  for (int lmax = 1; lmax <= 6; ++lmax) {
    result.push_back({lmax, 1 + lmax % 3, lmax % 2 == 0 ? 20 : 16, 1 + lmax % 2, lmax % 5, 33});
  }
  for (int edges : edge_counts()) result.push_back({2, 2, 8, 1, 1, edges});
  result.push_back({1, 3, 18, 0, 0, 32});
  result.push_back({3, 1, 32, 4, 2, 31});
  return result;
}

/// The rotation of an edge: random, with an axis that means nothing, so that every roll is tried.
math::Rotation rotation_of(int edge) {
  const double a = 0.7 * edge + 0.1, b = 1.9 * edge, c = 0.3 * edge * edge + 1;
  const double ca = std::cos(a), sa = std::sin(a), cb = std::cos(b), sb = std::sin(b);
  const double cc = std::cos(c), sc = std::sin(c);
  return {ca * cb * cc - sa * sc,
          -ca * cb * sc - sa * cc,
          ca * sb,
          sa * cb * cc + ca * sc,
          -sa * cb * sc + ca * cc,
          sa * sb,
          -sb * cc,
          sb * sc,
          cb};
}

/// Rows m = 0, -1, +1 of the rotations of the edges of a call, as an operation takes them.
template <class Real>
std::vector<Real> wigner_of(const TestGraph& graph, const kernels::EdgeSlice& slice, int lmax) {
  std::vector<Real> rows;
  for (int i = 0; i < slice.count; ++i) {
    const auto blocks = math::wigner_matrices(lmax, rotation_of(graph.edge(slice, i)));
    for (int l = 1; l <= lmax; ++l) {
      for (int m : {0, -1, 1}) {
        for (int k = -l; k <= l; ++k) {
          rows.push_back(static_cast<Real>(
              blocks[l][static_cast<std::size_t>((l + m) * (2 * l + 1) + l + k)]));
        }
      }
    }
  }
  return rows;
}

/// D (1 - angle . J) of an edge, degree by degree.
template <class T>
std::vector<std::vector<T>> turned_rotation(int edge, int lmax, const T* angle) {
  const auto blocks = math::wigner_matrices(lmax, rotation_of(edge));
  std::vector<std::vector<T>> result;
  for (const auto& block : blocks) result.emplace_back(block.begin(), block.end());
  math::static_for<6>([&](auto index) {
    constexpr int l = decltype(index)::value + 1;
    if (l > lmax) return;
    math::visit_generators<l>([&](int axis, int row, int column, double value) {
      for (int m = 0; m < 2 * l + 1; ++m) {
        const std::size_t size = 2 * l + 1;
        T& to = result[l][m * size + static_cast<std::size_t>(l + column)];
        to = to - angle[axis] * T(value * blocks[l][m * size + static_cast<std::size_t>(l + row)]);
      }
    });
  });
  return result;
}

/// Row of (l, m) in the edge frame.
int local_row(int lmax, int l, int m) { return m == 0 ? l : (m < 0 ? lmax : 2 * lmax) + l; }

struct RotateMix {
  const TestGraph& graph;
  MessageShape shape;
  int ld() const { return shape.radial_size() + 3; }

  // Inputs: x, radial (by edge), channel basis, angles (by edge). Outputs by call.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    const int lmax = shape.lmax, hidden = shape.hidden(), rows = shape.local_rows();
    const int width = shape.width;
    std::vector<T> out;
    for (const auto& slice : graph.slices(false)) {
      std::vector<T> u(static_cast<std::size_t>(shape.n_focus * slice.count * rows * width));
      for (int i = 0; i < slice.count; ++i) {
        const int e = graph.edge(slice, i);
        const T* x = in[0].data() + graph.src[e] * shape.full_rows() * hidden;
        const T* radial = in[1].data() + e * ld();
        const auto d = turned_rotation(e, lmax, in[3].data() + 3 * e);
        for (int c = 0; c < hidden; ++c) {
          std::vector<T> local(static_cast<std::size_t>(rows)), mixed(local.size(), T(0));
          for (int l = 0; l <= lmax; ++l) {
            for (int m = -std::min(l, 1); m <= std::min(l, 1); ++m) {
              T sum(0);
              for (int k = 0; k < 2 * l + 1; ++k) {
                sum = sum + d[l][(l + m) * (2 * l + 1) + k] * x[(l * l + k) * hidden + c];
              }
              local[local_row(lmax, l, m)] = sum;
            }
          }
          for (int o = 0; o <= lmax; ++o) {
            for (int m = -std::min(o, 1); m <= std::min(o, 1); ++m) {
              T& to = mixed[local_row(lmax, o, m)];
              if (shape.mixing == RadialMixing::kScale) {
                to = radial[o * hidden + c] * local[local_row(lmax, o, m)];
                continue;
              }
              for (int j = m == 0 ? 0 : 1; j <= lmax; ++j) {
                const int place = m == 0 ? j * (lmax + 1) + o
                                         : (lmax + 1) * (lmax + 1) + (j - 1) * lmax + (o - 1);
                for (int p = 0; p < shape.rank; ++p) {
                  to = to + radial[place * shape.rank + p] * in[2][p * hidden + c] *
                                local[local_row(lmax, j, m)];
                }
              }
            }
          }
          const int f = c / width;
          for (int r = 0; r < rows; ++r) {
            u[((f * slice.count + i) * rows + r) * width + c % width] = mixed[r];
          }
        }
      }
      out.insert(out.end(), u.begin(), u.end());
    }
    return out;
  }
  template <class Real>
  std::vector<Real> radial_of(const kernels::EdgeSlice& slice, const std::vector<Real>& all) const {
    std::vector<Real> part;
    for (int i = 0; i < slice.count; ++i) {
      const auto from = all.begin() + graph.edge(slice, i) * ld();
      part.insert(part.end(), from, from + ld());
    }
    return part;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    std::vector<Real> out;
    for (const auto& slice : graph.slices(false)) {
      const auto wigner = wigner_of<Real>(graph, slice, shape.lmax);
      const auto radial = radial_of(slice, in[1]);
      auto u =
          poisoned<Real>(static_cast<std::size_t>(shape.n_focus * slice.count * shape.row_size()));
      kernels::RotateMixArgs<Real> args;
      args.edges = slice;
      args.shape = shape;
      args.x = in[0].data();
      args.wigner = wigner.data();
      args.radial = radial.data();
      args.ld_radial = ld();
      args.channel_basis = in[2].data();
      args.u = u.data();
      table.rotate_mix(args, nullptr);
      out.insert(out.end(), u.begin(), u.end());
    }
    return out;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    // The outputs were made by destination, the backward goes by source.
    const std::size_t row = static_cast<std::size_t>(shape.row_size());
    std::vector<const Real*> place(static_cast<std::size_t>(graph.n_edges * shape.n_focus));
    const Real* at = weights.data();
    for (const auto& slice : graph.slices(false)) {
      for (int f = 0; f < shape.n_focus; ++f) {
        for (int i = 0; i < slice.count; ++i, at += row) {
          place[graph.edge(slice, i) * shape.n_focus + f] = at;
        }
      }
    }
    std::vector<Real> grad_x(in[0].size(), 0), grad_radial(in[1].size(), 0), angle(in[3].size(), 0);
    for (const auto& slice : graph.slices(true)) {
      const auto wigner = wigner_of<Real>(graph, slice, shape.lmax);
      const auto radial = radial_of(slice, in[1]);
      std::vector<Real> grad_u, torque(static_cast<std::size_t>(3 * slice.count), 0);
      for (int f = 0; f < shape.n_focus; ++f) {
        for (int i = 0; i < slice.count; ++i) {
          const Real* from = place[graph.edge(slice, i) * shape.n_focus + f];
          grad_u.insert(grad_u.end(), from, from + row);
        }
      }
      auto part = poisoned<Real>(radial.size());
      kernels::RotateMixBackwardArgs<Real> args;
      args.edges = slice;
      args.shape = shape;
      args.x = in[0].data();
      args.wigner = wigner.data();
      args.radial = radial.data();
      args.ld_radial = ld();
      args.channel_basis = in[2].data();
      args.grad_u = grad_u.data();
      args.grad_radial = part.data();
      args.torque = torque.data();
      args.grad_x = grad_x.data();
      table.rotate_mix_backward(args, nullptr);
      for (int i = 0; i < slice.count; ++i) {
        const int e = graph.edge(slice, i);
        std::copy_n(part.begin() + i * ld(), shape.radial_size(), grad_radial.begin() + e * ld());
        for (int a = 0; a < 3; ++a) angle[3 * e + a] = -torque[3 * i + a];
      }
    }
    return {grad_x, grad_radial, {}, angle};
  }
};

TEST(RotateMix, FollowsItsFormula) {
  for (const Problem& p : problems()) {
    const TestGraph graph(p.edges, 50);
    const RotateMix op{graph, p.shape()};
    check(op,
          {random_values(
               static_cast<std::size_t>(graph.n_nodes * op.shape.full_rows() * op.shape.hidden()),
               51),
           random_values(static_cast<std::size_t>(p.edges * op.ld()), 52, 0.5),
           random_values(static_cast<std::size_t>(op.shape.rank * op.shape.hidden()), 53),
           std::vector<double>(static_cast<std::size_t>(3 * p.edges), 0.0)},
          "degree " + std::to_string(p.lmax) + " edges " + std::to_string(p.edges));
  }
}

struct RotateBackSum {
  const TestGraph& graph;
  MessageShape shape;
  bool focused;

  // Inputs: u (F, E, row) by edge, focus weights, alpha, angles.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    const int lmax = shape.lmax, hidden = shape.hidden(), rows = shape.local_rows();
    const int width = shape.width, weights = shape.weights();
    std::vector<T> out(static_cast<std::size_t>(graph.n_owned * shape.full_rows() * hidden), T(0));
    for (int e = 0; e < graph.n_edges; ++e) {
      const auto d = turned_rotation(e, lmax, in[3].data() + 3 * e);
      for (int c = 0; c < hidden; ++c) {
        const int f = c / width;
        const T* u = in[0].data() + (f * graph.n_edges + e) * rows * width + c % width;
        const T factor = in[2][e * weights + c / (hidden / weights)] *
                         (focused ? in[1][e * shape.n_focus + f] : T(1));
        for (int l = 0; l <= lmax; ++l) {
          for (int k = 0; k < 2 * l + 1; ++k) {
            T sum(0);
            for (int m = -std::min(l, 1); m <= std::min(l, 1); ++m) {
              sum = sum + d[l][(l + m) * (2 * l + 1) + k] * u[local_row(lmax, l, m) * width];
            }
            T& to = out[(graph.dst[e] * shape.full_rows() + l * l + k) * hidden + c];
            to = to + factor * T(math::rotate_back_scale(l)) * sum;
          }
        }
      }
    }
    return out;
  }
  template <class Real>
  struct Part {
    std::vector<Real> wigner, u, focus, alpha;
  };
  template <class Real>
  Part<Real> part_of(const kernels::EdgeSlice& slice, const Arrays<Real>& in) const {
    Part<Real> part;
    part.wigner = wigner_of<Real>(graph, slice, shape.lmax);
    for (int f = 0; f < shape.n_focus; ++f) {
      for (int i = 0; i < slice.count; ++i) {
        const auto from =
            in[0].begin() + (f * graph.n_edges + graph.edge(slice, i)) * shape.row_size();
        part.u.insert(part.u.end(), from, from + shape.row_size());
      }
    }
    for (int i = 0; i < slice.count; ++i) {
      const int e = graph.edge(slice, i);
      for (int f = 0; f < shape.n_focus; ++f) part.focus.push_back(in[1][e * shape.n_focus + f]);
      for (int w = 0; w < shape.weights(); ++w) {
        part.alpha.push_back(in[2][e * shape.weights() + w]);
      }
    }
    return part;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    std::vector<Real> sum(
        static_cast<std::size_t>(graph.n_owned * shape.full_rows() * shape.hidden()), 0);
    for (const auto& slice : graph.slices(false)) {
      const Part<Real> part = part_of(slice, in);
      kernels::RotateBackSumArgs<Real> args;
      args.edges = slice;
      args.shape = shape;
      args.wigner = part.wigner.data();
      args.u = part.u.data();
      args.focus_stride = static_cast<std::int64_t>(slice.count) * shape.row_size();
      args.focus = focused ? part.focus.data() : nullptr;
      args.alpha = part.alpha.data();
      args.sum = sum.data();
      table.rotate_back_sum(args, nullptr);
    }
    return sum;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> grad_u(in[0].size()), grad_focus(focused ? in[1].size() : 0),
        grad_alpha(in[2].size()), angle(in[3].size());
    for (const auto& slice : graph.slices(true)) {
      Part<Real> part = part_of(slice, in);
      const std::size_t n = static_cast<std::size_t>(slice.count);
      auto focus = poisoned<Real>(n * shape.n_focus), alpha = poisoned<Real>(n * shape.weights());
      std::vector<Real> torque(3 * n, 0);
      kernels::RotateBackSumBackwardArgs<Real> args;
      args.edges = slice;
      args.shape = shape;
      args.wigner = part.wigner.data();
      args.u = part.u.data();
      args.focus_stride = static_cast<std::int64_t>(slice.count) * shape.row_size();
      args.focus = focused ? part.focus.data() : nullptr;
      args.alpha = part.alpha.data();
      args.grad_sum = weights.data();
      args.grad_u = part.u.data();  // in place
      args.grad_alpha = alpha.data();
      args.grad_focus = focused ? focus.data() : nullptr;
      args.torque = torque.data();
      table.rotate_back_sum_backward(args, nullptr);
      for (int i = 0; i < slice.count; ++i) {
        const int e = graph.edge(slice, i);
        for (int f = 0; f < shape.n_focus; ++f) {
          std::copy_n(part.u.begin() + (f * slice.count + i) * shape.row_size(), shape.row_size(),
                      grad_u.begin() + (f * graph.n_edges + e) * shape.row_size());
          if (focused) grad_focus[e * shape.n_focus + f] = focus[i * shape.n_focus + f];
        }
        std::copy_n(alpha.begin() + i * shape.weights(), shape.weights(),
                    grad_alpha.begin() + e * shape.weights());
        for (int a = 0; a < 3; ++a) angle[3 * e + a] = -torque[3 * i + a];
      }
    }
    return {grad_u, grad_focus, grad_alpha, angle};
  }
};

TEST(RotateBackSum, FollowsItsFormula) {
  for (const Problem& p : problems()) {
    const TestGraph graph(p.edges, 54);
    const MessageShape shape = p.shape();
    const std::size_t edges = static_cast<std::size_t>(p.edges);
    check(RotateBackSum{graph, shape, p.focus > 1},
          {random_values(edges * shape.n_focus * shape.row_size(), 55),
           random_values(edges * shape.n_focus, 56), random_values(edges * shape.weights(), 57),
           std::vector<double>(3 * edges, 0.0)},
          "degree " + std::to_string(p.lmax) + " edges " + std::to_string(p.edges));
  }
}

struct FocusWeights {
  int count;
  MessageShape shape;
  bool normed;

  // Inputs: u, scale, competition.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    using math::exp_of;
    using math::sqrt_of;
    std::vector<T> out;
    const int focus = shape.n_focus, width = shape.width;
    for (int i = 0; i < count; ++i) {
      std::vector<T> value;
      T sum(0);
      for (int f = 0; f < focus; ++f) {
        const T* u = in[0].data() + (f * count + i) * shape.row_size();
        T square(0), logit(0);
        for (int c = 0; c < width; ++c) square = square + u[c] * u[c] / T(width);
        const T factor = normed ? T(1) / sqrt_of(square + T(1e-7)) : T(1);
        for (int c = 0; c < width; ++c) {
          logit =
              logit + u[c] * factor * (normed ? in[1][f * width + c] : T(1)) * in[2][c * focus + f];
        }
        value.push_back(exp_of(logit));
        sum = sum + value.back();
      }
      for (int f = 0; f < focus; ++f) out.push_back(T(0.98) * value[f] / sum + T(0.02 / focus));
    }
    return out;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in,
                        std::vector<Real>* scalars = nullptr) const {
    auto weight = poisoned<Real>(static_cast<std::size_t>(count * shape.n_focus));
    table.focus_weights({count, shape, 1e-7, in[0].data(), normed ? in[1].data() : nullptr,
                         in[2].data(), weight.data(), scalars ? scalars->data() : nullptr},
                        nullptr);
    return weight;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    auto scalars = poisoned<Real>(static_cast<std::size_t>(count * shape.hidden()));
    const std::vector<Real> weight = run(table, in, &scalars);
    std::vector<Real> grad(in[0].size(), 0);
    table.focus_weights_backward(
        {count, shape, 1e-7, scalars.data(), normed ? in[1].data() : nullptr, in[2].data(),
         weight.data(), weights.data(), grad.data()},
        nullptr);
    return {grad, {}, {}};
  }
};

TEST(FocusWeights, FollowTheirFormula) {
  for (int focus : {2, 3}) {
    for (bool normed : {false, true}) {
      for (int count : {0, 1, 33}) {
        const MessageShape shape =
            message_shape(2, focus, focus == 2 ? 16 : 11, 1, RadialMixing::kMix);
        check(FocusWeights{count, shape, normed},
              {random_values(static_cast<std::size_t>(count * focus * shape.row_size()), 58),
               random_values(static_cast<std::size_t>(shape.hidden()), 59),
               random_values(static_cast<std::size_t>(shape.hidden()), 60, 0.3)},
              "focus " + std::to_string(focus));
      }
    }
  }
}

struct So2Stack {
  int count, layers;
  MessageShape shape;
  int m0() const { return (shape.lmax + 1) * shape.width; }
  int m1() const { return 2 * shape.lmax * shape.width; }
  int gates() const { return shape.lmax * shape.width; }

  // Inputs: u, then m0, m1 and gate weights of each layer.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> out = in[0];
    const int width = shape.width, lmax = shape.lmax;
    for (int f = 0; f < shape.n_focus; ++f) {
      for (int i = 0; i < count; ++i) {
        T* u = out.data() + (f * count + i) * shape.row_size();
        for (int j = 0; j < layers; ++j) {
          const T* w0 = in[1 + 3 * j].data() + f * m0() * m0();
          const T* w1 = in[2 + 3 * j].data() + f * m1() * m1();
          const T* wg = in[3 + 3 * j].data() + f * width * gates();
          std::vector<T> z(static_cast<std::size_t>(shape.row_size()), T(0));
          for (int b = 0; b < m0(); ++b)
            for (int a = 0; a < m0(); ++a) z[b] = z[b] + u[a] * w0[a * m0() + b];
          for (int b = 0; b < m1(); ++b)
            for (int a = 0; a < m1(); ++a)
              z[m0() + b] = z[m0() + b] + u[m0() + a] * w1[a * m1() + b];
          for (int r = 0; r < shape.local_rows(); ++r) {
            const int l = r <= lmax ? r : (r - 1) % lmax + 1;
            for (int c = 0; c < width; ++c) {
              T value = z[r * width + c];
              if (j + 1 < layers && l == 0) value = math::silu(value);
              if (j + 1 < layers && l > 0) {
                T logit(0);
                for (int a = 0; a < width; ++a) {
                  logit = logit + z[a] * wg[a * gates() + (l - 1) * width + c];
                }
                value = value * math::sigmoid(logit);
              }
              u[r * width + c] = u[r * width + c] + value;
            }
          }
        }
      }
    }
    return out;
  }

  /// The weights of the layers and their transposes.
  template <class Real>
  struct Layers {
    std::vector<std::vector<Real>> transposed;
    std::vector<kernels::So2Layer<Real>> list;
  };
  template <class Real>
  Layers<Real> layers_of(const Arrays<Real>& in) const {
    Layers<Real> result;
    const auto transpose = [&](const std::vector<Real>& w, int rows, int cols) {
      std::vector<Real> t(w.size());
      for (int f = 0; f < shape.n_focus; ++f)
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < cols; ++j)
            t[(f * cols + j) * rows + i] = w[(f * rows + i) * cols + j];
      result.transposed.push_back(t);
    };
    for (int j = 0; j < layers; ++j) {
      transpose(in[1 + 3 * j], m0(), m0());
      transpose(in[2 + 3 * j], m1(), m1());
      transpose(in[3 + 3 * j], shape.width, gates());
    }
    for (int j = 0; j < layers; ++j) {
      const bool gated = j + 1 < layers;
      result.list.push_back({in[1 + 3 * j].data(), in[2 + 3 * j].data(),
                             gated ? in[3 + 3 * j].data() : nullptr,
                             result.transposed[3 * j].data(), result.transposed[3 * j + 1].data(),
                             gated ? result.transposed[3 * j + 2].data() : nullptr});
    }
    return result;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in,
                        std::vector<Real>* kept = nullptr, const std::vector<int>* rows = nullptr,
                        std::int64_t kept_rows = 0) const {
    const Layers<Real> weights = layers_of(in);
    std::vector<Real> u = in[0];
    auto work = poisoned<Real>(static_cast<std::size_t>(count * table.so2_stack_work(shape)));
    kernels::So2StackArgs<Real> args;
    args.count = count;
    args.shape = shape;
    args.n_layers = layers;
    args.layers = weights.list.data();
    args.u = u.data();
    args.kept = kept != nullptr ? kept->data() : nullptr;
    args.kept_rows = kept_rows;
    args.kept_row = rows != nullptr ? rows->data() : nullptr;
    args.keep_result = rows != nullptr;
    args.work = work.data();
    table.so2_stack(args, nullptr);
    return u;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    const std::size_t plane = static_cast<std::size_t>(shape.n_focus * count * shape.row_size());
    auto kept = poisoned<Real>(plane * std::max(layers - 1, 0));
    const std::vector<Real> result = run(table, in, &kept, nullptr, count);
    // The same edges scattered over more rows, every third of them not kept at all.
    const std::int64_t kept_rows = count + 5;
    std::vector<int> rows;
    for (int i = 0; i < count; ++i) rows.push_back(i % 3 == 2 ? -1 : (i * 2) % (count + 5));
    auto scattered = poisoned<Real>(static_cast<std::size_t>(shape.n_focus * kept_rows) *
                                    static_cast<std::size_t>(shape.row_size() * layers));
    EXPECT_EQ(run(table, in, &scattered, &rows, kept_rows), result);
    for (int j = 0; j < layers; ++j) {
      for (int f = 0; f < shape.n_focus; ++f) {
        std::vector<bool> used(static_cast<std::size_t>(kept_rows), false);
        const Real* there =
            scattered.data() + (j * shape.n_focus + f) * kept_rows * shape.row_size();
        for (int i = count - 1; i >= 0; --i) {
          if (rows[i] < 0 || used[rows[i]]) continue;
          used[rows[i]] = true;
          const Real* here = j + 1 < layers ? kept.data() + j * plane : result.data();
          here += (f * count + i) * shape.row_size();
          for (int c = 0; c < shape.row_size(); ++c) {
            EXPECT_EQ(there[rows[i] * shape.row_size() + c], here[c]);
          }
        }
        for (std::int64_t r = 0; r < kept_rows; ++r) {
          if (used[r]) continue;
          EXPECT_TRUE(std::isnan(there[r * shape.row_size()]));
        }
      }
    }
    const Layers<Real> layer_weights = layers_of(in);
    std::vector<Real> grad = weights;
    auto work = poisoned<Real>(static_cast<std::size_t>(count * table.so2_stack_work(shape)));
    kernels::So2StackBackwardArgs<Real> args;
    args.count = count;
    args.shape = shape;
    args.n_layers = layers;
    args.layers = layer_weights.list.data();
    args.kept = kept.data();
    args.kept_rows = count;
    args.grad_u = grad.data();
    args.work = work.data();
    table.so2_stack_backward(args, nullptr);
    Arrays<Real> result_gradients(in.size());
    result_gradients[0] = grad;
    return result_gradients;
  }
};

TEST(So2Stack, FollowsItsFormula) {
  for (const Problem& p : problems()) {
    if (p.edges == 4097) continue;  // the plain formula would take minutes
    for (int layers : {1, 3}) {
      const So2Stack op{p.edges, layers, p.shape()};
      Arrays<double> inputs = {
          random_values(static_cast<std::size_t>(p.edges * p.focus * op.shape.row_size()), 61)};
      for (int j = 0; j < layers; ++j) {
        const unsigned seed = 62 + 3 * static_cast<unsigned>(j);
        inputs.push_back(random_values(static_cast<std::size_t>(p.focus * op.m0() * op.m0()), seed,
                                       0.5 / std::sqrt(op.m0())));
        inputs.push_back(random_values(static_cast<std::size_t>(p.focus * op.m1() * op.m1()),
                                       seed + 1, 0.5 / std::sqrt(op.m1())));
        inputs.push_back(random_values(static_cast<std::size_t>(p.focus * p.width * op.gates()),
                                       seed + 2, 0.5 / std::sqrt(p.width)));
      }
      check(op, inputs,
            "degree " + std::to_string(p.lmax) + " edges " + std::to_string(p.edges) + " layers " +
                std::to_string(layers));
    }
  }
}

/// Logits, weights and their gradients together: the weighted sum over messages is differentiated
/// through the softmax with the identity sum alpha grad_alpha = <grad sum, sum>.
struct Attention {
  const TestGraph& graph;
  MessageShape shape;
  bool gated;
  int weights() const { return shape.weights(); }

  // Inputs: query, key, radial logits (by edge), envelope (by edge), gate, null logits.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    using math::exp_of;
    const int hidden = shape.hidden(), width = hidden / weights();
    std::vector<T> alpha;
    for (int n = 0; n < graph.n_owned; ++n) {
      for (int e = graph.dst_begin[n]; e < graph.dst_begin[n + 1]; ++e) {
        for (int h = 0; h < weights(); ++h) {
          const auto mass = [&](int edge) {
            const int src = graph.src[edge];
            if (!(in[3][edge] > T(0)) || (gated && !(in[4][src] > T(0)))) return T(0);
            T dot(0);
            for (int i = 0; i < width; ++i) {
              dot = dot + in[0][n * hidden + h * width + i] * in[1][src * hidden + h * width + i];
            }
            return in[3][edge] * in[3][edge] * (gated ? in[4][src] : T(1)) *
                   exp_of(dot / T(std::sqrt(width)) + in[2][edge * weights() + h]);
          };
          T total = exp_of(in[5][h]);
          for (int other = graph.dst_begin[n]; other < graph.dst_begin[n + 1]; ++other) {
            total = total + mass(other);
          }
          alpha.push_back(mass(e) / total);
        }
      }
    }
    return alpha;
  }

  template <class Real>
  struct State {
    std::vector<Real> logit, lse, alpha;  // alpha by edge
  };
  template <class Real>
  State<Real> forward(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    State<Real> state;
    const std::size_t edges = static_cast<std::size_t>(graph.n_edges);
    state.logit = poisoned<Real>(edges * weights());
    state.lse = poisoned<Real>(static_cast<std::size_t>(graph.n_owned * weights()));
    state.alpha = poisoned<Real>(edges * weights());
    for (const auto& slice : graph.slices(false)) {
      kernels::AttentionLogitsArgs<Real> args;
      args.edges = slice;
      args.shape = shape;
      args.query = in[0].data();
      args.key = in[1].data();
      args.radial = in[2].data() + slice.first * weights();
      args.ld_radial = weights();
      args.envelope = in[3].data() + slice.first;
      args.gate = gated ? in[4].data() : nullptr;
      args.logit = state.logit.data();
      table.attention_logits(args, nullptr);
    }
    table.attention_lse({0, graph.n_owned, weights(), graph.dst_begin.data(), state.logit.data(),
                         in[5].data(), state.lse.data()},
                        nullptr);
    for (const auto& slice : graph.slices(false)) {
      table.message_weight(
          {slice, shape, state.logit.data(), state.lse.data(), in[3].data() + slice.first,
           gated ? in[4].data() : nullptr, state.alpha.data() + slice.first * weights()},
          nullptr);
    }
    return state;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    return forward(table, in).alpha;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& grad_alpha) const {
    const State<Real> state = forward(table, in);
    const std::size_t edges = static_cast<std::size_t>(graph.n_edges);
    std::vector<Real> row_sum(state.lse.size(), 0);
    for (int e = 0; e < graph.n_edges; ++e) {
      for (int h = 0; h < weights(); ++h) {
        row_sum[graph.dst[e] * weights() + h] +=
            state.alpha[e * weights() + h] * grad_alpha[e * weights() + h];
      }
    }
    auto grad_logit = poisoned<Real>(edges * weights());
    auto grad_query = poisoned<Real>(in[0].size());
    std::vector<Real> grad_key(in[1].size(), 0), grad_radial(in[2].size()), envelope(edges, 0);
    std::vector<Real> gate(gated ? in[4].size() : 0, 0);
    for (const auto& slice : graph.slices(true)) {
      const std::size_t n = static_cast<std::size_t>(slice.count);
      std::vector<Real> alpha, upstream, part_envelope, grad_envelope(n, 0), grad_gate(n, 0);
      auto radial = poisoned<Real>(n * weights());
      for (int i = 0; i < slice.count; ++i) {
        const int e = graph.edge(slice, i);
        part_envelope.push_back(in[3][e]);
        for (int h = 0; h < weights(); ++h) {
          alpha.push_back(state.alpha[e * weights() + h]);
          upstream.push_back(grad_alpha[e * weights() + h]);
        }
      }
      kernels::MessageWeightBackwardArgs<Real> args;
      args.edges = slice;
      args.shape = shape;
      args.alpha = alpha.data();
      args.grad_alpha = upstream.data();
      args.row_sum = row_sum.data();
      args.query = in[0].data();
      args.envelope = part_envelope.data();
      args.gate = gated ? in[4].data() : nullptr;
      args.grad_logit = grad_logit.data();
      args.grad_radial = radial.data();
      args.ld_radial = weights();
      args.grad_envelope = grad_envelope.data();
      args.grad_gate = gated ? grad_gate.data() : nullptr;
      args.grad_key = grad_key.data();
      table.message_weight_backward(args, nullptr);
      for (int i = 0; i < slice.count; ++i) {
        const int e = graph.edge(slice, i);
        envelope[e] = grad_envelope[i];
        if (gated) gate[graph.src[e]] += grad_gate[i];
        std::copy_n(radial.begin() + i * weights(), weights(), grad_radial.begin() + e * weights());
      }
    }
    for (int first : {0, 2}) {
      kernels::QueryGradientArgs<Real> args;
      args.node_first = first;
      args.node_count = first == 0 ? 2 : graph.n_owned - 2;
      args.shape = shape;
      args.dst_begin = graph.dst_begin.data();
      args.src = graph.src.data();
      args.grad_logit = grad_logit.data();
      args.key = in[1].data();
      args.grad_query = grad_query.data();
      table.query_gradient(args, nullptr);
    }
    return {grad_query, grad_key, grad_radial, envelope, gate, {}};
  }
};

TEST(Attention, IsASoftmaxOverTheEdgesOfADestination) {
  for (int n_edges : {0, 1, 31, 32, 33, 300}) {
    const TestGraph graph(n_edges, 70);
    for (int focus : {1, 2, 3}) {
      for (int heads : {1, 2}) {
        const MessageShape shape = message_shape(1, focus, 12, heads, RadialMixing::kScale);
        const Attention op{graph, shape, focus == 2};
        Arrays<double> inputs = {
            random_values(static_cast<std::size_t>(graph.n_owned * shape.hidden()), 71),
            random_values(static_cast<std::size_t>(graph.n_nodes * shape.hidden()), 72),
            random_values(static_cast<std::size_t>(n_edges * op.weights()), 73),
            random_values(static_cast<std::size_t>(n_edges), 74),
            random_values(static_cast<std::size_t>(graph.n_nodes), 75),
            random_values(static_cast<std::size_t>(op.weights()), 76)};
        for (double& w : inputs[3]) w = std::abs(w);
        for (double& g : inputs[4]) g = std::abs(g);
        // An edge at the cutoff and a frozen source have no weight and no gradient.
        if (n_edges > 3) inputs[3][2] = 0;
        inputs[4][0] = 0;
        check(op, inputs, "edges " + std::to_string(n_edges) + " heads " + std::to_string(heads));
      }
    }
  }
}

TEST(MessageWeight, WithoutHeadsIsTheGatedEnvelope) {
  const TestGraph graph(33, 77);
  const MessageShape shape = message_shape(1, 2, 8, 0, RadialMixing::kScale);
  const auto envelope = random_values(33, 78), gate = random_values(8, 79);
  const auto grad_alpha = random_values(66, 80);
  for (const std::string& isa : cpu::instruction_sets()) {
    for (const auto& slice : graph.slices(true)) {
      auto alpha = poisoned<double>(static_cast<std::size_t>(2 * slice.count));
      std::vector<double> grad_envelope(alpha.size() / 2, 0), grad_gate(alpha.size() / 2, 0);
      cpu::table<double>(isa).message_weight(
          {slice, shape, nullptr, nullptr, envelope.data(), gate.data(), alpha.data()}, nullptr);
      kernels::MessageWeightBackwardArgs<double> args;
      args.edges = slice;
      args.shape = shape;
      args.alpha = alpha.data();
      args.grad_alpha = grad_alpha.data();
      args.envelope = envelope.data();
      args.gate = gate.data();
      args.grad_envelope = grad_envelope.data();
      args.grad_gate = grad_gate.data();
      cpu::table<double>(isa).message_weight_backward(args, nullptr);
      for (int i = 0; i < slice.count; ++i) {
        const double g = gate[graph.src[graph.edge(slice, i)]];
        const double sum = grad_alpha[2 * i] + grad_alpha[2 * i + 1];
        EXPECT_EQ(alpha[2 * i], envelope[i] * g);
        EXPECT_EQ(alpha[2 * i + 1], envelope[i] * g);
        EXPECT_NEAR(grad_envelope[i], g * sum, 1e-14);
        EXPECT_NEAR(grad_gate[i], envelope[i] * sum, 1e-14);
      }
    }
  }
}

}  // namespace
}  // namespace dpa4::testing
