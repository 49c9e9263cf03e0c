// SPDX-License-Identifier: GPL-2.0-or-later
// Operations that turn edge vectors into features of edges and nodes, and the way back to forces.
#include "src/math/activation.h"
#include "src/math/harmonics.h"
#include "src/math/radial.h"
#include "src/math/wigner.h"
#include "src/math/zbl.h"
#include "tests/kernels/kernel_case.h"

namespace dpa4::testing {
namespace {

using kernels::KernelTable;

constexpr double kCutoff = 5.2;

kernels::RadialShape radial_shape(bool gaussian, bool bridging, int basis_exponent = 7) {
  kernels::RadialShape shape;
  shape.rcut = kCutoff;
  shape.envelope_rcut = 5.3;
  shape.basis_exponent = basis_exponent;
  shape.envelope_exponent = 5;
  shape.gaussian = gaussian;
  shape.n_radial = 7;
  shape.gaussian_kappa = -0.9;
  shape.bridging = bridging;
  shape.r_inner = 0.9;
  shape.r_outer = 1.7;
  return shape;
}

template <class T>
struct EdgeValues {
  T norm, length;
  T unit[3];
};

template <class T>
EdgeValues<T> edge_values(const kernels::RadialShape& shape, const T* v) {
  using math::sqrt_of;
  EdgeValues<T> edge;
  edge.norm = sqrt_of(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + T(shape.eps * shape.eps));
  edge.length =
      shape.bridging ? math::clamped_length(edge.norm, shape.r_inner, shape.r_outer) : edge.norm;
  for (int a = 0; a < 3; ++a) edge.unit[a] = v[a] / edge.norm;
  return edge;
}

struct EdgeGeometry {
  const TestGraph& graph;
  kernels::RadialShape shape;
  bool sources;

  // Inputs: vec, frequencies. Outputs of each call: lengths, units, envelopes, bases.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> out;
    for (const auto& slice : graph.slices(sources)) {
      std::vector<T> lengths, units, envelopes, bases;
      for (int i = 0; i < slice.count; ++i) {
        const auto edge = edge_values(shape, in[0].data() + 3 * graph.edge(slice, i));
        lengths.push_back(edge.length);
        units.insert(units.end(), edge.unit, edge.unit + 3);
        envelopes.push_back(
            math::envelope(edge.length, shape.envelope_rcut, shape.envelope_exponent));
        const T cutoff = shape.basis_exponent > 0
                             ? math::envelope(edge.length, shape.rcut, shape.basis_exponent)
                             : T(1);
        for (int n = 0; n < shape.n_radial; ++n) {
          const T phi = shape.gaussian
                            ? math::gaussian_basis(edge.length, in[1][n], T(shape.gaussian_kappa))
                            : math::bessel_basis(edge.length, in[1][n]);
          bases.push_back(phi * cutoff);
        }
      }
      for (const auto* part : {&lengths, &units, &envelopes, &bases}) {
        out.insert(out.end(), part->begin(), part->end());
      }
    }
    return out;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    const std::vector<double> vec(in[0].begin(), in[0].end());
    std::vector<Real> out;
    for (const auto& slice : graph.slices(sources)) {
      const std::size_t n = static_cast<std::size_t>(slice.count);
      auto length = poisoned<Real>(n), unit = poisoned<Real>(3 * n), envelope = poisoned<Real>(n);
      auto basis = poisoned<Real>(n * shape.n_radial);
      table.edge_geometry({slice, shape, vec.data(), in[1].data(), length.data(), unit.data(),
                           envelope.data(), basis.data()},
                          nullptr);
      for (const auto* part : {&length, &unit, &envelope, &basis}) {
        out.insert(out.end(), part->begin(), part->end());
      }
    }
    return out;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    const std::vector<double> vec(in[0].begin(), in[0].end());
    std::vector<Real> grad(in[0].size(), 0);
    const Real* at = weights.data();
    for (const auto& slice : graph.slices(sources)) {
      kernels::EdgeGeometryBackwardArgs<Real> args;
      args.edges = slice;
      args.shape = shape;
      args.vec = vec.data();
      args.frequencies = in[1].data();
      args.grad_length = at;
      args.grad_unit = args.grad_length + slice.count;
      args.grad_envelope = args.grad_unit + 3 * slice.count;
      args.grad_basis = args.grad_envelope + slice.count;
      at = args.grad_basis + slice.count * shape.n_radial;
      args.grad_vec = grad.data();
      table.edge_geometry_backward(args, nullptr);
    }
    return {grad, {}};
  }
};

TEST(EdgeGeometry, FollowsItsFormula) {
  for (int n_edges : edge_counts()) {
    const TestGraph graph(n_edges, 1);
    for (bool gaussian : {false, true}) {
      for (bool bridging : {false, true}) {
        check(EdgeGeometry{graph, radial_shape(gaussian, bridging, gaussian ? 0 : 7), bridging},
              {graph.vec.empty() ? std::vector<double>{} : std::vector<double>([&] {
                 std::vector<double> v = graph.vec;
                 for (double& x : v) x = static_cast<float>(x);
                 return v;
               }()),
               {0.5, 1.1, 1.7, 2.6, 3.0, 4.2, 7.5}},
              "edges " + std::to_string(n_edges));
      }
    }
  }
}

TEST(EdgeGeometry, TurnsTorquesIntoGradients) {
  const TestGraph graph(33, 2);
  const std::vector<double> frequencies(7, 1.0);
  std::vector<double> torque(99), grad(99, 0);
  for (std::size_t i = 0; i < 99; ++i) torque[i] = std::sin(0.7 * static_cast<double>(i));
  const auto slices = graph.slices(true);
  int at = 0;
  for (const auto& slice : slices) {
    kernels::EdgeGeometryBackwardArgs<double> args;
    args.edges = slice;
    args.shape = radial_shape(false, false);
    args.vec = graph.vec.data();
    args.frequencies = frequencies.data();
    args.torque = torque.data() + 3 * at;
    args.grad_vec = grad.data();
    cpu::table<double>().edge_geometry_backward(args, nullptr);
    at += slice.count;
  }
  at = 0;
  for (const auto& slice : slices) {
    for (int i = 0; i < slice.count; ++i, ++at) {
      const int e = graph.edge(slice, i);
      const double* v = graph.vec.data() + 3 * e;
      const double* t = torque.data() + 3 * at;
      const double r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
      EXPECT_NEAR(grad[3 * e], (v[1] * t[2] - v[2] * t[1]) / r2, 1e-12);
      EXPECT_NEAR(grad[3 * e + 1], (v[2] * t[0] - v[0] * t[2]) / r2, 1e-12);
      EXPECT_NEAR(grad[3 * e + 2], (v[0] * t[1] - v[1] * t[0]) / r2, 1e-12);
    }
  }
}

TEST(WignerRows, AreRowsOfTheRotationMatrices) {
  for (int lmax = 1; lmax <= 6; ++lmax) {
    for (int count : {0, 1, 31, 33}) {
      const TestGraph graph(count, 3);
      std::vector<double> unit;
      for (int e = 0; e < count; ++e) {
        const auto edge = edge_values(radial_shape(false, false), graph.vec.data() + 3 * e);
        unit.insert(unit.end(), edge.unit, edge.unit + 3);
      }
      const std::vector<float> unit_float(unit.begin(), unit.end());
      const int size = kernels::wigner_size(lmax);
      for (const std::string& isa : cpu::instruction_sets()) {
        auto rows = poisoned<double>(static_cast<std::size_t>(count * size));
        auto rows_float = poisoned<float>(rows.size());
        cpu::table<double>(isa).wigner_rows({count, lmax, unit.data(), rows.data()}, nullptr);
        cpu::table<float>(isa).wigner_rows({count, lmax, unit_float.data(), rows_float.data()},
                                           nullptr);
        for (int i = 0; i < count; ++i) {
          const double* u = unit.data() + 3 * i;
          double e1[3], e2[3];
          math::edge_frame(u[0], u[1], u[2], e1, e2);
          const auto blocks = math::wigner_matrices(
              lmax, {e1[0], e1[1], e1[2], e2[0], e2[1], e2[2], u[0], u[1], u[2]});
          for (int l = 1; l <= lmax; ++l) {
            for (int row = 0; row < 3; ++row) {
              const int m = row == 0 ? 0 : row == 1 ? -1 : 1;
              for (int k = -l; k <= l; ++k) {
                const std::size_t at =
                    static_cast<std::size_t>(i * size + math::wigner_index(l, row, k));
                const double exact =
                    blocks[l][static_cast<std::size_t>((l + m) * (2 * l + 1) + l + k)];
                EXPECT_NEAR(rows[at], exact, 1e-12) << isa;
                EXPECT_NEAR(rows_float[at], exact, 5e-6) << isa;
              }
            }
          }
        }
      }
    }
  }
}

struct PairBias {
  const TestGraph& graph;
  int width;
  bool silu, scaled, sources;

  // Inputs: x, factor, source table, destination table.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> y;
    int at = 0;
    for (const auto& slice : graph.slices(sources)) {
      for (int i = 0; i < slice.count; ++i, ++at) {
        const int e = graph.edge(slice, i);
        for (int c = 0; c < width; ++c) {
          const T value = (scaled ? in[1][at] : T(1)) * in[0][at * width + c] +
                          in[2][graph.type[graph.src[e]] * width + c] +
                          in[3][graph.type[graph.dst[e]] * width + c];
          y.push_back(silu ? math::silu(value) : value);
        }
      }
    }
    return y;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    auto y = poisoned<Real>(in[0].size());
    int at = 0;
    for (const auto& slice : graph.slices(sources)) {
      table.pair_bias(
          {slice, width, silu, graph.type.data(), in[2].data(), in[3].data(),
           scaled ? in[1].data() + at : nullptr, in[0].data() + at * width, y.data() + at * width},
          nullptr);
      at += slice.count;
    }
    return y;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> grad = weights, factor(scaled ? in[1].size() : 0, 0);
    int at = 0;
    for (const auto& slice : graph.slices(sources)) {
      table.pair_bias_backward({slice, width, silu, graph.type.data(), in[2].data(), in[3].data(),
                                scaled ? in[1].data() + at : nullptr, in[0].data() + at * width,
                                grad.data() + at * width, grad.data() + at * width,
                                scaled ? factor.data() + at : nullptr},
                               nullptr);
      at += slice.count;
    }
    return {grad, factor, {}, {}};
  }
};

TEST(PairBias, FollowsItsFormula) {
  for (int n_edges : edge_counts()) {
    const TestGraph graph(n_edges, 4);
    for (bool silu : {false, true}) {
      const int width = silu ? 16 : 27;
      check(PairBias{graph, width, silu, !silu, silu},
            {random_values(static_cast<std::size_t>(n_edges * width), 30),
             random_values(static_cast<std::size_t>(n_edges), 31),
             random_values(static_cast<std::size_t>(3 * width), 32),
             random_values(static_cast<std::size_t>(3 * width), 33)},
            "edges " + std::to_string(n_edges));
    }
  }
}

/// kappa, and its gradient pushed to the envelopes of the edges.
TEST(NodeDegree, FollowsItsFormula) {
  for (int n_edges : edge_counts()) {
    const TestGraph graph(n_edges, 5);
    const kernels::RadialShape shape = radial_shape(false, false);
    for (const std::string& isa : cpu::instruction_sets()) {
      const auto& table = cpu::table<double>(isa);
      auto kappa = poisoned<double>(static_cast<std::size_t>(graph.n_owned));
      for (int first : {0, 2}) {
        table.node_degree({first, first == 0 ? 2 : graph.n_owned - 2, graph.dst_begin.data(), shape,
                           0.25, graph.vec.data(), kappa.data()},
                          nullptr);
      }
      std::vector<double> envelope;
      for (int e = 0; e < n_edges; ++e) {
        const auto edge = edge_values(shape, graph.vec.data() + 3 * e);
        envelope.push_back(math::envelope(edge.length, shape.envelope_rcut, 5));
      }
      // Energy: sum over nodes of kappa times a random number, as if through two factors and extra.
      const auto weight = random_values(kappa.size(), 34);
      std::vector<double> grad_degree = poisoned<double>(kappa.size());
      std::vector<double> value_a, grad_a, extra;
      for (std::size_t n = 0; n < kappa.size(); ++n) {
        double sum = 0.25;
        for (int e = graph.dst_begin[n]; e < graph.dst_begin[n + 1]; ++e) {
          sum += envelope[e] * envelope[e];
        }
        EXPECT_NEAR(kappa[n], 1 / std::sqrt(sum), 1e-13) << isa;
        value_a.insert(value_a.end(), {0.25 * kappa[n], 0.5 * kappa[n], 99});
        grad_a.insert(grad_a.end(), {weight[n], weight[n], 99});
        extra.push_back(0.25 * kappa[n] * weight[n]);
      }
      kernels::NodeDegreeBackwardArgs<double> args;
      args.node_count = graph.n_owned;
      args.kappa = kappa.data();
      args.width_a = 2;
      args.ld_a = 3;
      args.value_a = value_a.data();
      args.grad_a = grad_a.data();
      args.extra = extra.data();
      args.grad_degree = grad_degree.data();
      table.node_degree_backward(args, nullptr);
      std::vector<double> grad_envelope(static_cast<std::size_t>(n_edges), 0);
      int at = 0;
      for (const auto& slice : graph.slices(false)) {
        table.edge_degree_backward(
            {slice, envelope.data() + at, grad_degree.data(), grad_envelope.data() + at}, nullptr);
        at += slice.count;
      }
      for (int e = 0; e < n_edges; ++e) {
        const int n = graph.dst[e];
        const double exact = -weight[n] * kappa[n] * kappa[n] * kappa[n] * envelope[e];
        EXPECT_NEAR(grad_envelope[e], exact, 1e-13 * (1 + std::abs(exact))) << isa;
      }
    }
  }
}

/// The gate of a source is the product of the switches of its edges; its gradient goes to all
/// lengths.
TEST(SourceGate, IsTheProductOfTheSwitches) {
  for (int n_edges : {0, 1, 31, 33, 200}) {
    const TestGraph graph(n_edges, 6, 3.0);
    const kernels::RadialShape shape = radial_shape(false, true);
    for (const std::string& isa : cpu::instruction_sets()) {
      const auto& table = cpu::table<double>(isa);
      auto partial = poisoned<double>(static_cast<std::size_t>(2 * graph.n_nodes));
      auto gate = poisoned<double>(static_cast<std::size_t>(graph.n_nodes));
      table.source_gate_partial({0, graph.n_nodes, graph.src_begin.data(), graph.by_src.data(),
                                 shape, graph.vec.data(), partial.data()},
                                nullptr);
      table.source_gate({graph.n_nodes, partial.data(), gate.data()}, nullptr);
      std::vector<double> length;
      for (int e = 0; e < n_edges; ++e) {
        length.push_back(edge_values(shape, graph.vec.data() + 3 * e).length);
      }
      const auto product_at = [&](int node, int moved) {
        Dual product(1);
        for (int e = 0; e < n_edges; ++e) {
          if (graph.src[e] != node) continue;
          product = product * math::bridging_switch(Dual(length[e], e == moved ? 1 : 0),
                                                    shape.r_inner, shape.r_outer);
        }
        return product;
      };
      for (int n = 0; n < graph.n_nodes; ++n) {
        EXPECT_NEAR(gate[n], product_at(n, -1).value, 1e-12) << isa << " node " << n;
      }
      const auto weight = random_values(static_cast<std::size_t>(n_edges), 35);
      std::vector<double> grad_gate(gate.size(), 0), grad_length(length.size(), 0);
      int at = 0;
      for (const auto& slice : graph.slices(true)) {
        table.source_gate_sum({slice, weight.data() + at, grad_gate.data()}, nullptr);
        at += slice.count;
      }
      at = 0;
      for (const auto& slice : graph.slices(true)) {
        std::vector<double> part;
        for (int i = 0; i < slice.count; ++i) part.push_back(length[graph.edge(slice, i)]);
        table.source_gate_backward(
            {slice, shape, part.data(), gate.data(), grad_gate.data(), grad_length.data() + at},
            nullptr);
        at += slice.count;
      }
      at = 0;
      for (const auto& slice : graph.slices(true)) {
        for (int i = 0; i < slice.count; ++i, ++at) {
          const int e = graph.edge(slice, i), n = graph.src[e];
          double sum = 0;
          for (int p = graph.src_begin[n]; p < graph.src_begin[n + 1]; ++p) sum += weight[p];
          const double exact = sum * product_at(n, e).derivative;
          EXPECT_NEAR(grad_length[at], gate[n] > 0 ? exact : 0.0, 1e-11 * (1 + std::abs(exact)))
              << isa;
        }
      }
    }
  }
}

/// The gate comes from the length in double; the gradient from the rounded one, which may already
/// be the inner radius, where the switch and its derivative are zero.
TEST(SourceGate, GivesNoGradientWhereTheRoundedSwitchIsZero) {
  const kernels::RadialShape shape = radial_shape(false, true);
  const double vec[3] = {0, shape.r_inner + 1e-3 * (shape.r_outer - shape.r_inner), 0};
  const int begin[3] = {0, 1, 1}, source[1] = {0}, order[1] = {0};
  const float length[1] = {static_cast<float>(shape.r_inner) - 1e-6f};
  for (const std::string& isa : cpu::instruction_sets()) {
    const auto& table = cpu::table<float>(isa);
    float partial[4], gate[2];
    table.source_gate_partial({0, 2, begin, order, shape, vec, partial}, nullptr);
    table.source_gate({2, partial, gate}, nullptr);
    ASSERT_GT(gate[0], 0) << isa;
    kernels::EdgeSlice slice;
    slice.count = 1;
    slice.node_count = 2;
    slice.src = slice.dst = source;
    slice.begin = begin;
    const float grad_gate[2] = {1, 1};
    float grad_length[1] = {0.5};
    table.source_gate_backward({slice, shape, length, gate, grad_gate, grad_length}, nullptr);
    EXPECT_EQ(grad_length[0], 0.5f) << isa;
  }
}

struct EnvSeedSum {
  const TestGraph& graph;
  int width;
  bool gated, sources;

  // Inputs: kappa, gate, length, unit, envelope, feature (all by position).
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> sum(static_cast<std::size_t>(graph.n_owned * 4 * width), T(0));
    int at = 0;
    for (const auto& slice : graph.slices(sources)) {
      for (int i = 0; i < slice.count; ++i, ++at) {
        const int e = graph.edge(slice, i), n = graph.dst[e];
        const T factor = in[0][n] * (gated ? in[1][graph.src[e]] : T(1)) * in[4][at] / in[2][at];
        for (int k = 0; k < 4; ++k) {
          for (int j = 0; j < width; ++j) {
            T& to = sum[(n * 4 + k) * width + j];
            to = to + factor * (k == 0 ? T(1) : in[3][3 * at + k - 1]) * in[5][at * width + j];
          }
        }
      }
    }
    return sum;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    std::vector<Real> sum(static_cast<std::size_t>(graph.n_owned * 4 * width), 0);
    int at = 0;
    for (const auto& slice : graph.slices(false)) {
      table.env_seed_sum(
          {slice, width, in[0].data(), gated ? in[1].data() : nullptr, in[2].data() + at,
           in[3].data() + 3 * at, in[4].data() + at, in[5].data() + at * width, sum.data()},
          nullptr);
      at += slice.count;
    }
    return sum;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> feature = in[5], length(in[2].size(), 0), unit(in[3].size(), 0),
                      envelope(in[4].size(), 0), edge_gate(in[2].size(), 0);
    int at = 0;
    for (const auto& slice : graph.slices(sources)) {
      kernels::EnvSeedSumBackwardArgs<Real> args;
      args.edges = slice;
      args.width = width;
      args.kappa = in[0].data();
      args.gate = gated ? in[1].data() : nullptr;
      args.length = in[2].data() + at;
      args.unit = in[3].data() + 3 * at;
      args.envelope = in[4].data() + at;
      args.feature = feature.data() + at * width;
      args.grad_sum = weights.data();
      args.grad_feature = feature.data() + at * width;
      args.grad_length = length.data() + at;
      args.grad_unit = unit.data() + 3 * at;
      args.grad_envelope = envelope.data() + at;
      args.grad_gate = gated ? edge_gate.data() + at : nullptr;
      table.env_seed_sum_backward(args, nullptr);
      at += slice.count;
    }
    std::vector<Real> gate;
    if (gated) {
      gate.assign(in[1].size(), 0);
      at = 0;
      for (const auto& slice : graph.slices(sources)) {
        for (int i = 0; i < slice.count; ++i)
          gate[graph.src[graph.edge(slice, i)]] += edge_gate[at++];
      }
    }
    return {{}, gate, length, unit, envelope, feature};
  }
};

TEST(EnvSeedSum, FollowsItsFormula) {
  for (int n_edges : edge_counts()) {
    const TestGraph graph(n_edges, 7);
    const std::size_t edges = static_cast<std::size_t>(n_edges);
    for (bool gated : {false, true}) {
      const int width = gated ? 21 : 32;
      Arrays<double> inputs = {random_values(static_cast<std::size_t>(graph.n_owned), 36),
                               random_values(static_cast<std::size_t>(graph.n_nodes), 37),
                               random_values(edges, 38, 0.3),
                               random_values(3 * edges, 39),
                               random_values(edges, 40),
                               random_values(edges * width, 41)};
      for (double& r : inputs[2]) r = 2 + std::abs(r);
      check(EnvSeedSum{graph, width, gated, false}, inputs, "edges " + std::to_string(n_edges));
    }
  }
}

struct ZonalSum {
  const TestGraph& graph;
  int lmax, channels;
  bool gated;
  std::vector<double> unit;  // by edge
  int rows() const { return (lmax + 1) * (lmax + 1); }

  // Inputs: kappa, gate, factor, radial, angles by which the edges are turned back.
  template <class T>
  std::vector<T> formula(const Arrays<T>& in) const {
    std::vector<T> x(static_cast<std::size_t>(graph.n_owned * rows() * channels), T(0));
    for (int e = 0; e < graph.n_edges; ++e) {
      const int n = graph.dst[e];
      const T factor = in[0][n] * (gated ? in[1][graph.src[e]] : T(1)) * in[2][e];
      const double* u = unit.data() + 3 * e;
      const auto z = math::dpa4_harmonics(lmax, {u[0], u[1], u[2]});
      std::vector<T> turned(z.begin(), z.end());
      turn(turned, in[4].data() + 3 * e, z);
      for (int l = 1; l <= lmax; ++l) {
        for (int d = l * l; d < (l + 1) * (l + 1); ++d) {
          for (int c = 0; c < channels; ++c) {
            T& to = x[(n * rows() + d) * channels + c];
            to = to + factor * turned[d] * in[3][(e * lmax + l - 1) * channels + c];
          }
        }
      }
    }
    return x;
  }
  /// Z(u) is row 0 of D: D (1 - angle . J) has row Z + (angle . J) Z.
  template <class T>
  void turn(std::vector<T>& turned, const T* angle, const std::vector<double>& z) const {
    const auto degree = [&](auto l) {
      constexpr int kL = decltype(l)::value;
      if (kL > lmax) return;
      math::visit_generators<kL>([&](int axis, int row, int column, double value) {
        T& to = turned[kL * kL + kL + row];
        to = to + angle[axis] * T(value * z[static_cast<std::size_t>(kL * kL + kL + column)]);
      });
    };
    math::static_for<6>([&](auto l) { degree(std::integral_constant<int, l.value + 1>{}); });
  }
  template <class Real>
  std::vector<Real> wigner(const kernels::EdgeSlice& slice) const {
    std::vector<Real> result(static_cast<std::size_t>(slice.count * kernels::wigner_size(lmax)));
    std::vector<Real> units;
    for (int i = 0; i < slice.count; ++i) {
      for (int a = 0; a < 3; ++a) {
        units.push_back(static_cast<Real>(unit[3 * graph.edge(slice, i) + a]));
      }
    }
    cpu::table<Real>().wigner_rows({slice.count, lmax, units.data(), result.data()}, nullptr);
    return result;
  }
  template <class Real>
  std::vector<Real> run(const KernelTable<Real>& table, const Arrays<Real>& in) const {
    std::vector<Real> x(static_cast<std::size_t>(graph.n_owned * rows() * channels), 0);
    int at = 0;
    for (const auto& slice : graph.slices(false)) {
      const std::vector<Real> w = wigner<Real>(slice);
      table.zonal_sum({slice, lmax, channels, in[0].data(), gated ? in[1].data() : nullptr,
                       in[2].data() + at, w.data(), in[3].data() + at * lmax * channels, x.data()},
                      nullptr);
      at += slice.count;
    }
    return x;
  }
  template <class Real>
  Arrays<Real> run_backward(const KernelTable<Real>& table, const Arrays<Real>& in,
                            const std::vector<Real>& weights) const {
    std::vector<Real> radial(in[3].size()), factor(in[2].size(), 0), torque(in[4].size(), 0);
    std::vector<Real> gate(gated ? in[1].size() : 0, 0);
    for (const auto& slice : graph.slices(true)) {
      const std::size_t n = static_cast<std::size_t>(slice.count);
      const std::vector<Real> w = wigner<Real>(slice);
      std::vector<Real> part, parts_factor, grad_factor(n, 0), grad_gate(n, 0),
          part_torque(3 * n, 0);
      for (int i = 0; i < slice.count; ++i) {
        const int e = graph.edge(slice, i);
        part.insert(part.end(), in[3].begin() + e * lmax * channels,
                    in[3].begin() + (e + 1) * lmax * channels);
        parts_factor.push_back(in[2][e]);
      }
      kernels::ZonalSumBackwardArgs<Real> args;
      args.edges = slice;
      args.lmax = lmax;
      args.channels = channels;
      args.kappa = in[0].data();
      args.gate = gated ? in[1].data() : nullptr;
      args.factor = parts_factor.data();
      args.wigner = w.data();
      args.radial = part.data();
      args.grad_x = weights.data();
      args.grad_radial = part.data();
      args.grad_factor = grad_factor.data();
      args.grad_gate = gated ? grad_gate.data() : nullptr;
      args.torque = part_torque.data();
      table.zonal_sum_backward(args, nullptr);
      for (int i = 0; i < slice.count; ++i) {
        const int e = graph.edge(slice, i);
        std::copy_n(part.begin() + i * lmax * channels, lmax * channels,
                    radial.begin() + e * lmax * channels);
        factor[e] = grad_factor[i];
        // The gradient of the angles is minus the torque.
        for (int a = 0; a < 3; ++a) torque[3 * e + a] = -part_torque[3 * i + a];
        if (gated) gate[graph.src[e]] += grad_gate[i];
      }
    }
    return {{}, gate, factor, radial, torque};
  }
};

TEST(ZonalSum, FollowsItsFormula) {
  for (int lmax = 1; lmax <= 6; ++lmax) {
    for (int n_edges : lmax == 2 ? edge_counts() : std::vector<int>{33}) {
      const TestGraph graph(n_edges, 8);
      const int channels = lmax % 2 == 0 ? 16 : 21;
      const std::size_t edges = static_cast<std::size_t>(n_edges);
      ZonalSum op{graph, lmax, channels, lmax % 2 == 0, {}};
      for (int e = 0; e < n_edges; ++e) {
        const auto edge = edge_values(radial_shape(false, false), graph.vec.data() + 3 * e);
        op.unit.insert(op.unit.end(), edge.unit, edge.unit + 3);
      }
      check(op,
            {random_values(static_cast<std::size_t>(graph.n_owned), 42),
             random_values(static_cast<std::size_t>(graph.n_nodes), 43), random_values(edges, 44),
             random_values(edges * lmax * channels, 45), std::vector<double>(3 * edges, 0.0)},
            "degree " + std::to_string(lmax) + " edges " + std::to_string(n_edges));
    }
  }
}

TEST(EdgeForce, AddsUpGradientsOfBothEnds) {
  for (int n_edges : edge_counts()) {
    const TestGraph graph(n_edges, 9);
    const auto grad = random_values(3 * static_cast<std::size_t>(n_edges), 46);
    std::vector<double> force(3 * static_cast<std::size_t>(graph.n_nodes), 0);
    std::vector<double> virial(9 * static_cast<std::size_t>(graph.n_nodes), 0);
    for (int e = 0; e < n_edges; ++e) {
      for (int a = 0; a < 3; ++a) {
        force[3 * graph.dst[e] + a] += grad[3 * e + a];
        force[3 * graph.src[e] + a] -= grad[3 * e + a];
        for (int b = 0; b < 3; ++b) {
          const double w = -0.5 * grad[3 * e + a] * graph.vec[3 * e + b];
          virial[9 * graph.dst[e] + 3 * a + b] += w;
          virial[9 * graph.src[e] + 3 * a + b] += w;
        }
      }
    }
    const std::vector<float> grad_float(grad.begin(), grad.end());
    for (const std::string& isa : cpu::instruction_sets()) {
      auto found_force = poisoned<double>(force.size()),
           found_virial = poisoned<double>(virial.size());
      for (int first : {0, 3}) {
        kernels::EdgeForceArgs<float> args;
        args.node_first = first;
        args.node_count = first == 0 ? 3 : graph.n_nodes - 3;
        args.n_owned = graph.n_owned;
        args.dst_begin = graph.dst_begin.data();
        args.src_begin = graph.src_begin.data();
        args.by_src = graph.by_src.data();
        args.vec = graph.vec.data();
        args.grad_vec = grad_float.data();
        args.force = found_force.data();
        args.node_virial = found_virial.data();
        cpu::table<float>(isa).edge_force(args, nullptr);
      }
      expect_values(found_force, force, 1e-13, isa);
      expect_values(found_virial, virial, 1e-13, isa);
    }
  }
}

TEST(ZblPair, GivesHalfAPairToEachDirection) {
  const TestGraph graph(33, 10);
  const std::vector<double> atomic_number = {8, 14, 6};
  const std::vector<int> included = {1, 1, 0};
  for (const std::string& isa : cpu::instruction_sets()) {
    std::vector<double> energy(static_cast<std::size_t>(graph.n_owned), 1), grad(99, 2);
    kernels::ZblPairArgs<double> args;
    args.node_count = graph.n_owned;
    args.dst_begin = graph.dst_begin.data();
    args.src = graph.src.data();
    args.type = graph.type.data();
    args.vec = graph.vec.data();
    args.atomic_number = atomic_number.data();
    args.included = included.data();
    args.energy = energy.data();
    args.grad_vec = grad.data();
    cpu::table<double>(isa).zbl_pair(args, nullptr);
    std::vector<double> expected(energy.size(), 1);
    for (int e = 0; e < 33; ++e) {
      const int i = graph.type[graph.dst[e]], j = graph.type[graph.src[e]];
      const double* v = graph.vec.data() + 3 * e;
      if (included[i] == 0 || included[j] == 0) {
        for (int a = 0; a < 3; ++a) EXPECT_EQ(grad[3 * e + a], 2);
        continue;
      }
      const double zi = atomic_number[i], zj = atomic_number[j];
      for (int a = 0; a < 3; ++a) {
        Dual w[3];
        for (int b = 0; b < 3; ++b) w[b] = Dual(v[b], a == b ? 1 : 0);
        const Dual r = sqrt_of(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
        const Dual pair =
            math::zbl_pair_energy(r, zi, zj, std::pow(zi, 0.23), std::pow(zj, 0.23)).energy;
        EXPECT_NEAR(grad[3 * e + a], 2 + 0.5 * pair.derivative,
                    1e-12 * (1 + std::abs(pair.derivative)));
        if (a == 0) expected[graph.dst[e]] += 0.5 * pair.value;
      }
    }
    expect_values(energy, expected, 1e-12, isa);
  }
}

}  // namespace
}  // namespace dpa4::testing
