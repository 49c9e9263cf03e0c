// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cuda/devices.h"
#include "tests/kernels/cuda/backend_case.h"

namespace dpa4::test {
namespace {

using kernels::MessageShape;
using kernels::RadialMixing;

constexpr double kPi = 3.14159265358979323846;

kernels::RadialShape radial_shape(bool gaussian, bool bridging) {
  kernels::RadialShape shape;
  shape.rcut = 6;
  shape.envelope_rcut = 5.5;
  shape.n_radial = 9;
  shape.gaussian = gaussian;
  shape.gaussian_kappa = -0.5 / (0.75 * 0.75);
  shape.bridging = bridging;
  shape.r_inner = 0.9;
  shape.r_outer = 2.5;
  return shape;
}

std::vector<double> unit_vectors(const Graph& graph, const std::vector<int>& edges) {
  std::vector<double> unit;
  for (int e : edges) {
    const double* v = &graph.vec[3 * static_cast<std::size_t>(e)];
    const double norm = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int a = 0; a < 3; ++a) unit.push_back(static_cast<float>(v[a] / norm));
  }
  return unit;
}

/// Rotation coefficients of the edges at positions of an order, as the processor computes them.
std::vector<double> wigner_of(const Graph& graph, bool sources, const Part& part, int lmax) {
  std::vector<int> edges;
  for (int i = part.first; i < part.first + part.count; ++i) {
    edges.push_back(sources ? graph.by_src[static_cast<std::size_t>(i)] : i);
  }
  const std::vector<double> unit = unit_vectors(graph, edges);
  std::vector<double> wigner(static_cast<std::size_t>(part.count) *
                             static_cast<std::size_t>(kernels::wigner_size(lmax)));
  cpu::table<double>().wigner_rows({part.count, lmax, unit.data(), wigner.data()}, nullptr);
  for (double& w : wigner) w = static_cast<float>(w);
  return wigner;
}

class EdgeCounts : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { DPA4_NEEDS_DEVICE(); }
  int n_edges() const { return GetParam(); }
};

TEST_P(EdgeCounts, Geometry) {
  const Graph graph = graph_of(n_edges(), 1);
  for (const bool gaussian : {false, true}) {
    for (const Part& part : Part::of(n_edges())) {
      const kernels::RadialShape shape = radial_shape(gaussian, gaussian);
      Random random(2);
      std::vector<double> frequencies;
      for (int n = 0; n < shape.n_radial; ++n) {
        frequencies.push_back(static_cast<float>(gaussian ? 0.7 * n : (n + 1) * kPi / 6));
      }
      const auto grad_length = random.normal(part.count), grad_envelope = random.normal(part.count),
                 grad_basis = random.normal(static_cast<std::int64_t>(part.count) * shape.n_radial),
                 grad_unit = random.normal(3 * part.count), torque = random.normal(3 * part.count),
                 grad_vec = random.normal(3 * n_edges());
      expect_same_as_cpu([&](auto& run) {
        using Real = typename std::decay_t<decltype(run)>::Real;
        kernels::EdgeGeometryArgs<Real> args;
        args.edges = graph.slice(run, gaussian, part.first, part.count);
        args.shape = shape;
        args.vec = run.in_double(graph.vec);
        args.frequencies = run.in(frequencies);
        args.length = run.out("length", part.count);
        args.unit = run.out("unit", 3 * part.count);
        args.envelope = run.out("envelope", part.count);
        args.basis = run.out("basis", static_cast<std::int64_t>(part.count) * shape.n_radial);
        run.table().edge_geometry(args, run.stream());

        kernels::EdgeGeometryBackwardArgs<Real> back;
        back.edges = args.edges;
        back.shape = shape;
        back.vec = args.vec;
        back.frequencies = args.frequencies;
        back.grad_length = gaussian ? run.in(grad_length) : nullptr;
        back.grad_envelope = gaussian ? nullptr : run.in(grad_envelope);
        back.grad_basis = part.first > 0 ? nullptr : run.in(grad_basis);
        back.grad_unit = gaussian ? run.in(grad_unit) : nullptr;
        back.torque = run.in(torque);
        back.grad_vec = run.inout("grad_vec", grad_vec);
        run.table().edge_geometry_backward(back, run.stream());
      });
    }
  }
}

TEST_P(EdgeCounts, WignerRows) {
  const Graph graph = graph_of(n_edges(), 3);
  std::vector<int> all(static_cast<std::size_t>(n_edges()));
  for (int e = 0; e < n_edges(); ++e) all[static_cast<std::size_t>(e)] = e;
  const auto unit = unit_vectors(graph, all);
  for (int lmax = 1; lmax <= 6; ++lmax) {
    SCOPED_TRACE("lmax " + std::to_string(lmax));
    expect_same_as_cpu([&](auto& run) {
      const std::int64_t size = static_cast<std::int64_t>(n_edges()) * kernels::wigner_size(lmax);
      run.table().wigner_rows({n_edges(), lmax, run.in(unit), run.out("wigner", size)},
                              run.stream());
    });
  }
}

TEST_P(EdgeCounts, PairBias) {
  const Graph graph = graph_of(n_edges(), 4);
  constexpr int kWidth = 40, kTypes = 3;
  Random random(5);
  const auto type = random.integers(graph.n_nodes, kTypes);
  const auto src_table = random.normal(kTypes * kWidth), dst_table = random.normal(kTypes * kWidth);
  for (const bool full : {false, true}) {
    for (const Part& part : Part::of(n_edges())) {
      const std::int64_t size = static_cast<std::int64_t>(part.count) * kWidth;
      const auto x = random.normal(size), grad_y = random.normal(size);
      const auto factor = random.normal(part.count), grad_factor = random.normal(part.count);
      expect_same_as_cpu([&](auto& run) {
        using Real = typename std::decay_t<decltype(run)>::Real;
        kernels::PairBiasArgs<Real> args;
        args.edges = graph.slice(run, full, part.first, part.count);
        args.width = kWidth;
        args.silu = full;
        args.type = run.in(type);
        args.src_table = run.in(src_table);
        args.dst_table = run.in(dst_table);
        args.factor = full ? run.in(factor) : nullptr;
        args.x = run.in(x);
        args.y = run.out("y", size);
        run.table().pair_bias(args, run.stream());

        kernels::PairBiasBackwardArgs<Real> back;
        back.edges = args.edges;
        back.width = kWidth;
        back.silu = full;
        back.type = args.type;
        back.src_table = args.src_table;
        back.dst_table = args.dst_table;
        back.factor = args.factor;
        back.x = args.x;
        if (full) {  // in place
          back.grad_x = run.inout("grad_x", grad_y);
          back.grad_y = back.grad_x;
        } else {
          back.grad_y = run.in(grad_y);
          back.grad_x = run.out("grad_x", size);
        }
        back.grad_factor = full ? run.inout("grad_factor", grad_factor) : nullptr;
        run.table().pair_bias_backward(back, run.stream());
      });
    }
  }
}

TEST_P(EdgeCounts, Lists) {
  const Graph graph = graph_of(n_edges(), 8);
  for (const int limit : {1, 20, 100, 10000}) {
    SCOPED_TRACE("limit " + std::to_string(limit));
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      kernels::CutNodesArgs<Real> cut;
      cut.nodes = {run.in(graph.src_begin), graph.n_nodes, limit};
      cut.count = graph.n_nodes + 2;
      cut.cuts = run.out_int("cuts", 2 * cut.count);
      run.table().cut_nodes(cut, run.stream());

      kernels::PadEdgesArgs<Real> pad;
      pad.first = 2;
      pad.count = limit;
      pad.length = 6;
      pad.src = run.out_int("src", limit + 2);
      pad.dst = run.out_int("dst", limit + 2);
      pad.by_src = run.out_int("by_src", limit + 2);
      pad.vec = run.inout_double("vec", std::vector<double>(3 * (limit + 2), 7));
      run.table().pad_edges(pad, run.stream());

      kernels::KeptRowsArgs<Real> kept;
      kept.count = n_edges();
      kept.n_kept = std::min(limit, n_edges());
      kept.by_src = run.in(graph.by_src);
      kept.row = run.out_int("row", n_edges());
      run.table().kept_rows(kept, run.stream());
    });
  }
}

/// A net from lengths and types to the conditioning of edges.
struct ConditionCase {
  std::vector<int> hidden;  // widths of the hidden layers
  int width;
  bool normed, enveloped;
  double faster = 1;  // what the frequencies of the radial functions are multiplied with
};

void check_edge_condition(int n_edges, const ConditionCase& c, const Graph& graph,
                          const Part& part) {
  constexpr int kTypes = 3;
  Random random(31);
  const kernels::RadialShape shape = radial_shape(!c.normed, !c.enveloped);
  std::vector<double> frequencies;
  for (int n = 0; n < shape.n_radial; ++n) {
    frequencies.push_back(static_cast<float>(shape.gaussian ? 0.7 * n : (n + 1) * kPi / 6) *
                          static_cast<float>(c.faster));
  }
  // Edges end at the cutoff; where the envelope is zero it does not matter.
  std::vector<double> vec = graph.vec;
  if (!c.enveloped) {
    for (double& x : vec) x *= 0.9;
  }
  const auto type = random.integers(graph.n_nodes, kTypes);
  std::vector<std::vector<double>> weights, transposed, scales;
  std::vector<int> widths{shape.n_radial};
  widths.insert(widths.end(), c.hidden.begin(), c.hidden.end());
  widths.push_back(c.width);
  for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
    const int in = widths[k], out = widths[k + 1];
    weights.push_back(random.normal(std::int64_t{in} * out, 1 / std::sqrt(in)));
    transposed.push_back(weights.back());
    for (int i = 0; i < in; ++i) {
      for (int j = 0; j < out; ++j) {
        transposed.back()[static_cast<std::size_t>(j * in + i)] =
            weights.back()[static_cast<std::size_t>(i * out + j)];
      }
    }
    scales.push_back(random.normal(out, 0.2, 1));
  }
  const auto src_table = random.normal(kTypes * c.width),
             dst_table = random.normal(kTypes * c.width);
  const std::int64_t size = static_cast<std::int64_t>(part.count) * c.width;
  const auto grad_y = random.normal(size), grad_envelope = random.normal(part.count);
  const auto torque = random.normal(3 * part.count), grad_vec = random.normal(3 * n_edges);
  expect_same_as_cpu([&](auto& run) {
    using Real = typename std::decay_t<decltype(run)>::Real;
    const auto changing = [&](const std::vector<double>& values) {
      const int count = static_cast<int>(values.size());
      Real* copy = run.work(count);
      run.table().rows({1, count, run.in(values), count, copy, count, false}, run.stream());
      return copy;
    };
    std::vector<kernels::RadialLayer<Real>> layers;
    for (std::size_t k = 0; k < c.hidden.size(); ++k) {
      layers.push_back({widths[k], widths[k + 1], run.in(weights[k]), run.in(transposed[k]),
                        c.normed ? run.in(scales[k]) : nullptr});
    }
    kernels::EdgeConditionNet<Real> net;
    net.shape = shape;
    net.frequencies = run.in(frequencies);
    net.n_layers = static_cast<int>(layers.size());
    net.layers = layers.data();
    net.eps = 1e-7;
    net.width = c.width;
    net.w = run.in(weights.back());
    net.w_transposed = run.in(transposed.back());
    const bool plain = !c.normed && !c.enveloped;  // no types, gradients of all of the geometry
    net.src_table = plain ? nullptr : run.in(src_table);
    net.dst_table = plain ? nullptr : run.in(dst_table);
    net.enveloped = c.enveloped;
    kernels::EdgeConditionArgs<Real> args;
    args.edges = graph.slice(run, c.normed, part.first, part.count);
    args.net = net;
    args.vec = run.in_double(vec);
    args.type = run.in(type);
    args.length = plain ? run.out("length", part.count) : nullptr;
    args.unit = run.out("unit", 3 * part.count);
    args.envelope = run.out("envelope", part.count);
    args.y = run.out("y", size);
    args.work = run.work(run.table().edge_condition_work(net, part.count, true));
    run.table().edge_condition(args, run.stream());

    kernels::EdgeConditionBackwardArgs<Real> back;
    back.edges = args.edges;
    back.net = net;
    back.vec = args.vec;
    back.type = args.type;
    back.envelope = args.envelope;
    back.grad_y = changing(grad_y);
    back.grad_envelope = c.enveloped || plain ? changing(grad_envelope) : nullptr;
    back.grad_length = plain ? run.in(grad_envelope) : nullptr;
    back.grad_unit = plain ? run.in(torque) : nullptr;
    back.torque = c.enveloped || plain ? run.in(torque) : nullptr;
    back.grad_vec = run.inout("grad_vec", grad_vec);
    back.work = args.work;
    run.table().edge_condition_backward(back, run.stream());
  });
}

TEST_P(EdgeCounts, Condition) {
  const Graph graph = graph_of(n_edges(), 30);
  for (const ConditionCase& c :
       {ConditionCase{{32}, 80, true, true}, ConditionCase{{64}, 32, false, true},
        ConditionCase{{24}, 16, true, false}, ConditionCase{{80}, 48, true, true},
        ConditionCase{{128}, 64, true, true}, ConditionCase{{12, 20}, 16, true, true},
        ConditionCase{{}, 16, true, true}, ConditionCase{{16}, 20, false, false},
        ConditionCase{{12, 20}, 24, false, false}, ConditionCase{{16}, 37, true, true},
        // Too rough for a table of the radial functions.
        ConditionCase{{32}, 16, true, true, 40}}) {
    SCOPED_TRACE(std::to_string(c.hidden.empty() ? 0 : c.hidden[0]) + " to " +
                 std::to_string(c.width));
    for (const Part& part : Part::of(n_edges())) {
      check_edge_condition(n_edges(), c, graph, part);
    }
  }
}

TEST_P(EdgeCounts, DegreesAndSourceGates) {
  const Graph graph = graph_of(n_edges(), 6);
  Random random(7);
  const auto grad = random.normal(n_edges()), grad_gate = random.normal(graph.n_nodes);
  const auto envelope = random.uniform(n_edges(), 0, 1), grad_envelope = random.normal(n_edges());
  const auto grad_degree = random.normal(graph.n_owned), grad_length = random.normal(n_edges());
  const auto length = random.uniform(n_edges(), 0.9, 3);
  for (const bool bridging : {false, true}) {
    const kernels::RadialShape shape = radial_shape(false, bridging);
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      kernels::NodeDegreeArgs<Real> degree;
      degree.node_first = 0;
      degree.node_count = graph.n_owned;
      degree.dst_begin = run.in(graph.dst_begin);
      degree.shape = shape;
      degree.vec = run.in_double(graph.vec);
      degree.kappa = run.out("kappa", graph.n_owned);
      run.table().node_degree(degree, run.stream());

      kernels::EdgeDegreeBackwardArgs<Real> edge;
      edge.edges = graph.slice(run, true, 0, n_edges());
      edge.envelope = run.in(envelope);
      edge.grad_degree = run.in(grad_degree);
      edge.grad_envelope = run.inout("grad_envelope", grad_envelope);
      run.table().edge_degree_backward(edge, run.stream());
      if (!bridging) return;

      kernels::SourceGatePartialArgs<Real> partial;
      partial.node_count = graph.n_nodes;
      partial.src_begin = run.in(graph.src_begin);
      partial.by_src = run.in(graph.by_src);
      partial.shape = shape;
      partial.vec = degree.vec;
      partial.partial = run.out("partial", 2 * graph.n_nodes);
      run.table().source_gate_partial(partial, run.stream());
      kernels::SourceGateArgs<Real> gate;
      gate.node_count = graph.n_nodes;
      gate.partial = partial.partial;
      gate.gate = run.out("gate", graph.n_nodes);
      run.table().source_gate(gate, run.stream());

      kernels::SourceGateSumArgs<Real> sum;
      sum.edges = edge.edges;
      sum.grad = run.in(grad);
      sum.grad_gate = run.inout("grad_gate", grad_gate);
      run.table().source_gate_sum(sum, run.stream());
      kernels::SourceGateBackwardArgs<Real> back;
      back.edges = edge.edges;
      back.shape = shape;
      back.length = run.in(length);
      back.gate = gate.gate;
      back.grad_gate = run.in(grad_gate);
      back.grad_length = run.inout("grad_length", grad_length);
      run.table().source_gate_backward(back, run.stream());
    });
  }
}

TEST_P(EdgeCounts, EnvSeedSum) {
  const Graph graph = graph_of(n_edges(), 8);
  Random random(9);
  const auto kappa = random.uniform(graph.n_owned, 0.2, 2);
  const auto gate = random.uniform(graph.n_nodes, 0, 1);
  for (const int width : {20, 128}) {
    for (const Part& part : Part::of(n_edges())) {
      const auto length = random.uniform(part.count, 0.9, 6);
      const auto unit = random.normal(3 * part.count), envelope = random.uniform(part.count, 0, 1);
      const auto feature = random.normal(static_cast<std::int64_t>(part.count) * width);
      const auto sum = random.normal(4 * graph.n_owned * width);
      const auto grad1 = random.normal(part.count), grad3 = random.normal(3 * part.count);
      expect_same_as_cpu([&](auto& run) {
        using Real = typename std::decay_t<decltype(run)>::Real;
        kernels::EnvSeedSumArgs<Real> args;
        args.edges = graph.slice(run, false, part.first, part.count);
        args.width = width;
        args.kappa = run.in(kappa);
        args.gate = width == 20 ? run.in(gate) : nullptr;
        args.length = run.in(length);
        args.unit = run.in(unit);
        args.envelope = run.in(envelope);
        args.feature = run.in(feature);
        args.sum = run.inout("sum", sum);
        run.table().env_seed_sum(args, run.stream());

        kernels::EnvSeedSumBackwardArgs<Real> back;
        back.edges = graph.slice(run, true, part.first, part.count);
        back.width = width;
        back.kappa = args.kappa;
        back.gate = args.gate;
        back.length = args.length;
        back.unit = args.unit;
        back.envelope = args.envelope;
        back.feature = args.feature;
        back.grad_sum = run.in(sum);
        back.grad_feature = run.out("grad_feature", static_cast<std::int64_t>(feature.size()));
        back.grad_length = run.inout("grad_length", grad1);
        back.grad_unit = run.inout("grad_unit", grad3);
        back.grad_envelope = run.inout("grad_envelope", grad1);
        back.grad_gate = width == 20 ? run.inout("grad_gate", grad1) : nullptr;
        run.table().env_seed_sum_backward(back, run.stream());
      });
    }
  }
}

TEST_P(EdgeCounts, ZonalSum) {
  const Graph graph = graph_of(n_edges(), 10);
  Random random(11);
  const auto kappa = random.uniform(graph.n_owned, 0.2, 2);
  const auto gate = random.uniform(graph.n_nodes, 0, 1);
  for (int lmax = 1; lmax <= 6; ++lmax) {
    SCOPED_TRACE("lmax " + std::to_string(lmax));
    const int channels = 16 * lmax;
    const bool gated = lmax % 2 == 0;
    for (const Part& part : Part::of(n_edges())) {
      const auto factor = random.uniform(part.count, 0, 1), grad1 = random.normal(part.count);
      const auto radial = random.normal(static_cast<std::int64_t>(part.count) * lmax * channels);
      const auto x = random.normal(static_cast<std::int64_t>(graph.n_owned) * (lmax + 1) *
                                   (lmax + 1) * channels);
      const auto torque = random.normal(3 * part.count);
      const auto wigner = wigner_of(graph, false, part, lmax);
      const auto wigner_by_source = wigner_of(graph, true, part, lmax);
      expect_same_as_cpu([&](auto& run) {
        using Real = typename std::decay_t<decltype(run)>::Real;
        kernels::ZonalSumArgs<Real> args;
        args.edges = graph.slice(run, false, part.first, part.count);
        args.lmax = lmax;
        args.channels = channels;
        args.kappa = run.in(kappa);
        args.gate = gated ? run.in(gate) : nullptr;
        args.factor = gated ? nullptr : run.in(factor);
        args.wigner = run.in(wigner);
        args.radial = run.in(radial);
        args.x = run.inout("x", x);
        run.table().zonal_sum(args, run.stream());

        kernels::ZonalSumBackwardArgs<Real> back;
        back.edges = graph.slice(run, true, part.first, part.count);
        back.lmax = lmax;
        back.channels = channels;
        back.kappa = args.kappa;
        back.gate = args.gate;
        back.factor = args.factor;
        back.wigner = run.in(wigner_by_source);
        back.grad_x = run.in(x);
        if (gated) {
          back.radial = args.radial;
          back.grad_radial = run.out("grad_radial", static_cast<std::int64_t>(radial.size()));
        } else {  // in place
          back.grad_radial = run.inout("grad_radial", radial);
          back.radial = back.grad_radial;
        }
        back.grad_factor = gated ? nullptr : run.inout("grad_factor", grad1);
        back.grad_gate = gated ? run.inout("grad_gate", grad1) : nullptr;
        back.torque = run.inout("torque", torque);
        run.table().zonal_sum_backward(back, run.stream());
      });
    }
  }
}

TEST_P(EdgeCounts, ForcesAndRepulsion) {
  const Graph graph = graph_of(n_edges(), 12);
  Random random(13);
  constexpr int kTypes = 3;
  const auto type = random.integers(graph.n_nodes, kTypes);
  const auto grad_vec = random.normal(3 * n_edges());
  const std::vector<double> energy = random.normal(graph.n_owned);
  expect_same_as_cpu([&](auto& run) {
    using Real = typename std::decay_t<decltype(run)>::Real;
    kernels::EdgeForceArgs<Real> args;
    args.node_count = graph.n_nodes;
    args.n_owned = graph.n_owned;
    args.dst_begin = run.in(graph.dst_begin);
    args.src_begin = run.in(graph.src_begin);
    args.by_src = run.in(graph.by_src);
    args.vec = run.in_double(graph.vec);
    args.grad_vec = run.in(grad_vec);
    args.force = run.out_double("force", 3 * graph.n_nodes);
    args.node_virial = run.out_double("node_virial", 9 * graph.n_nodes);
    run.table().edge_force(args, run.stream());

    kernels::ZblPairArgs<Real> zbl;
    zbl.node_count = graph.n_owned;
    zbl.dst_begin = args.dst_begin;
    zbl.src = run.in(graph.src);
    zbl.type = run.in(type);
    zbl.vec = args.vec;
    zbl.atomic_number = run.in_double({6, 14, 29});
    zbl.included = run.in(std::vector<int>{1, 0, 1});
    zbl.energy = run.inout_double("energy", energy);
    zbl.grad_vec = run.inout("zbl_grad_vec", grad_vec);
    run.table().zbl_pair(zbl, run.stream());
  });
}

/// Attention with its softmax over the edges of a node, forward and backward.
void check_attention(const Graph& graph, const MessageShape& shape, bool gated) {
  Random random(15);
  const int weights = shape.weights(), hidden = shape.hidden(), ld = weights + 5;
  const int n_edges = graph.n_edges;
  const auto query = random.normal(static_cast<std::int64_t>(graph.n_owned) * hidden);
  const auto key = random.normal(static_cast<std::int64_t>(graph.n_nodes) * hidden);
  auto gate = random.uniform(graph.n_nodes, 0.1, 1);
  gate[0] = 0;  // frozen
  const auto null_logit = random.normal(weights);
  const auto row_sum = random.normal(static_cast<std::int64_t>(graph.n_owned) * weights);
  const auto all_logits = random.normal(static_cast<std::int64_t>(n_edges) * weights);
  for (const Part& part : Part::of(n_edges)) {
    const std::int64_t size = static_cast<std::int64_t>(part.count) * weights;
    auto envelope = random.uniform(part.count, 0, 1);
    if (part.count > 1) envelope[1] = 0;  // an edge at the cutoff
    const auto radial = random.normal(static_cast<std::int64_t>(part.count) * ld);
    const auto grad_alpha = random.normal(size), alpha = random.uniform(size, 0, 1);
    const auto grad1 = random.normal(part.count);
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      kernels::MessageWeightArgs<Real> weight;
      weight.edges = graph.slice(run, false, part.first, part.count);
      weight.shape = shape;
      weight.envelope = run.in(envelope);
      weight.gate = gated ? run.in(gate) : nullptr;
      weight.alpha = run.out("alpha", size);
      if (shape.n_heads > 0) {
        kernels::AttentionLogitsArgs<Real> logits;
        logits.edges = weight.edges;
        logits.shape = shape;
        logits.query = run.in(query);
        logits.key = run.in(key);
        logits.radial = run.in(radial);
        logits.ld_radial = ld;
        logits.envelope = weight.envelope;
        logits.gate = weight.gate;
        logits.logit = run.inout("logit", all_logits);
        run.table().attention_logits(logits, run.stream());
        kernels::AttentionLseArgs<Real> lse;
        lse.node_count = graph.n_owned;
        lse.n_weights = weights;
        lse.dst_begin = run.in(graph.dst_begin);
        lse.logit = logits.logit;
        lse.null_logit = run.in(null_logit);
        lse.lse = run.out("lse", static_cast<std::int64_t>(graph.n_owned) * weights);
        run.table().attention_lse(lse, run.stream());
        weight.logit = logits.logit;
        weight.lse = lse.lse;
      }
      run.table().message_weight(weight, run.stream());

      kernels::MessageWeightBackwardArgs<Real> back;
      back.edges = graph.slice(run, true, part.first, part.count);
      back.shape = shape;
      back.alpha = run.in(alpha);
      back.grad_alpha = run.in(grad_alpha);
      back.envelope = weight.envelope;
      back.gate = weight.gate;
      back.grad_envelope = run.inout("grad_envelope", grad1);
      back.grad_gate = gated ? run.inout("grad_gate", grad1) : nullptr;
      if (shape.n_heads > 0) {
        back.row_sum = run.in(row_sum);
        back.query = run.in(query);
        back.grad_logit = run.inout("grad_logit", all_logits);
        back.grad_radial = run.inout("grad_radial", radial);
        back.ld_radial = ld;
        back.grad_key = run.inout("grad_key", key);
      }
      run.table().message_weight_backward(back, run.stream());
      if (shape.n_heads == 0) return;
      kernels::QueryGradientArgs<Real> query_args;
      query_args.node_count = graph.n_owned;
      query_args.shape = shape;
      query_args.dst_begin = run.in(graph.dst_begin);
      query_args.src = run.in(graph.src);
      query_args.grad_logit = run.in(all_logits);
      query_args.key = run.in(key);
      query_args.grad_query = run.out("grad_query", static_cast<std::int64_t>(query.size()));
      run.table().query_gradient(query_args, run.stream());
    });
  }
}

TEST_P(EdgeCounts, Attention) {
  const Graph graph = graph_of(n_edges(), 14);
  MessageShape shape;
  shape.lmax = 2;
  for (const int n_focus : {1, 2, 3}) {
    for (const int heads : {0, 1, 2, 4}) {
      SCOPED_TRACE(std::to_string(n_focus) + " focus streams, " + std::to_string(heads) + " heads");
      shape.n_focus = n_focus;
      shape.width = n_focus == 2 ? 24 : 64;
      shape.n_heads = heads;
      check_attention(graph, shape, heads % 2 == 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, EdgeCounts, testing::ValuesIn(awkward_counts()),
                         [](const auto& info) { return std::to_string(info.param) + "_edges"; });

// ---- rotations
// -----------------------------------------------------------------------------------

struct RotationCase {
  int lmax, n_focus, n_edges;
};

class Rotations : public testing::TestWithParam<RotationCase> {
 protected:
  void SetUp() override { DPA4_NEEDS_DEVICE(); }
};

/// Mixing, heads and widths change with the case, so that all of them meet all degrees.
MessageShape shape_of(const RotationCase& c) {
  constexpr int kRanks[] = {1, 2, 4};
  constexpr int kWidths[] = {32, 64, 24, 128};
  MessageShape shape;
  shape.lmax = c.lmax;
  shape.n_focus = c.n_focus;
  const int pick = c.lmax + 2 * c.n_focus + c.n_edges;
  shape.width = c.n_edges > 1000 ? 32 : kWidths[pick % 4];
  shape.n_heads = pick % 3;
  shape.mixing = pick % 4 == 3 ? RadialMixing::kScale : RadialMixing::kMix;
  shape.rank = kRanks[(pick + c.lmax) % 3];
  return shape;
}

void check_rotate_mix(const MessageShape& shape, int n_edges, int ld) {
  const Graph graph = graph_of(n_edges, 16);
  Random random(17);
  const auto x =
      random.normal(static_cast<std::int64_t>(graph.n_nodes) * shape.full_rows() * shape.hidden());
  const auto basis = random.normal(static_cast<std::int64_t>(shape.rank) * shape.hidden());
  for (const Part& part : Part::of(n_edges)) {
    const std::int64_t size =
        static_cast<std::int64_t>(part.count) * shape.n_focus * shape.row_size();
    const auto radial = random.normal(static_cast<std::int64_t>(part.count) * ld);
    const auto grad_u = random.normal(size), torque = random.normal(3 * part.count);
    const auto wigner = wigner_of(graph, false, part, shape.lmax);
    const auto wigner_by_source = wigner_of(graph, true, part, shape.lmax);
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      const bool mixed = shape.mixing == RadialMixing::kMix;
      kernels::RotateMixArgs<Real> args;
      args.edges = graph.slice(run, false, part.first, part.count);
      args.shape = shape;
      args.x = run.in(x);
      args.wigner = run.in(wigner);
      args.radial = run.in(radial);
      args.ld_radial = ld;
      args.channel_basis = mixed ? run.in(basis) : nullptr;
      args.u = run.out("u", size);
      run.table().rotate_mix(args, run.stream());
      args.u = run.out("scalars", static_cast<std::int64_t>(part.count) * shape.hidden());
      args.scalars_only = true;
      run.table().rotate_mix(args, run.stream());

      kernels::RotateMixBackwardArgs<Real> back;
      back.edges = graph.slice(run, true, part.first, part.count);
      back.shape = shape;
      back.x = args.x;
      back.wigner = run.in(wigner_by_source);
      back.radial = args.radial;
      back.ld_radial = ld;
      back.channel_basis = args.channel_basis;
      back.grad_u = run.in(grad_u);
      back.grad_radial = run.inout("grad_radial", radial);
      back.torque = run.inout("torque", torque);
      back.grad_x = run.inout("grad_x", x);
      run.table().rotate_mix_backward(back, run.stream());
    });
  }
}

TEST_P(Rotations, RotateMix) {
  const MessageShape shape = shape_of(GetParam());
  check_rotate_mix(shape, GetParam().n_edges, shape.radial_size() + 3);
}

/// Shapes of released models, whose lanes have several channels, so that a warp has several edges.
TEST_P(EdgeCounts, RotateMixOfWholeVectors) {
  for (int lmax = 1; lmax <= 4; ++lmax) {
    for (const RadialMixing mixing : {RadialMixing::kScale, RadialMixing::kMix}) {
      SCOPED_TRACE("lmax " + std::to_string(lmax));
      MessageShape shape;
      shape.lmax = lmax;
      shape.n_focus = lmax == 3 ? 2 : 1;
      shape.width = lmax == 4 ? 64 : 32;
      shape.mixing = mixing;
      shape.rank = 1;
      check_rotate_mix(shape, n_edges(), (shape.radial_size() + 7) / 4 * 4);
    }
  }
}

void check_rotate_back_sum(const MessageShape& shape, int n_edges) {
  const int weights = shape.weights();
  const bool focused = shape.n_focus > 1;
  const Graph graph = graph_of(n_edges, 18);
  Random random(19);
  const auto sum =
      random.normal(static_cast<std::int64_t>(graph.n_owned) * shape.full_rows() * shape.hidden());
  for (const Part& part : Part::of(n_edges)) {
    const std::int64_t size =
        static_cast<std::int64_t>(part.count) * shape.n_focus * shape.row_size();
    const std::int64_t stride = static_cast<std::int64_t>(part.count) * shape.row_size();
    const auto u = random.normal(size), torque = random.normal(3 * part.count);
    const auto alpha = random.uniform(static_cast<std::int64_t>(part.count) * weights, 0, 1);
    const auto focus = random.uniform(static_cast<std::int64_t>(part.count) * shape.n_focus, 0, 1);
    const auto wigner = wigner_of(graph, false, part, shape.lmax);
    const auto wigner_by_source = wigner_of(graph, true, part, shape.lmax);
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      kernels::RotateBackSumArgs<Real> args;
      args.edges = graph.slice(run, false, part.first, part.count);
      args.shape = shape;
      args.wigner = run.in(wigner);
      args.u = run.in(u);
      args.focus_stride = stride;
      args.focus = focused ? run.in(focus) : nullptr;
      args.alpha = run.in(alpha);
      args.sum = run.inout("sum", sum);
      run.table().rotate_back_sum(args, run.stream());

      kernels::RotateBackSumBackwardArgs<Real> back;
      back.edges = graph.slice(run, true, part.first, part.count);
      back.shape = shape;
      back.wigner = run.in(wigner_by_source);
      back.focus_stride = stride;
      back.focus = args.focus;
      back.alpha = args.alpha;
      back.grad_sum = run.in(sum);
      if (focused) {
        back.u = args.u;
        back.grad_u = run.out("grad_u", size);
      } else {  // in place
        back.grad_u = run.inout("grad_u", u);
        back.u = back.grad_u;
      }
      back.grad_alpha = run.out("grad_alpha", static_cast<std::int64_t>(alpha.size()));
      back.grad_focus =
          focused ? run.out("grad_focus", static_cast<std::int64_t>(focus.size())) : nullptr;
      back.torque = run.inout("torque", torque);
      run.table().rotate_back_sum_backward(back, run.stream());
    });
  }
}

TEST_P(Rotations, RotateBackSum) {
  check_rotate_back_sum(shape_of(GetParam()), GetParam().n_edges);
}

/// As wide as a model gets: the most shared memory.
TEST(WidestRotations, AllDegrees) {
  DPA4_NEEDS_DEVICE();
  if (cuda::most_shared_bytes() < 227 * 1024) {
    GTEST_SKIP() << "this device has too little shared memory for the widest models";
  }
  for (int lmax = 1; lmax <= 6; ++lmax) {
    for (const RadialMixing mixing : {RadialMixing::kScale, RadialMixing::kMix}) {
      SCOPED_TRACE("lmax " + std::to_string(lmax));
      MessageShape shape;
      shape.lmax = lmax;
      shape.n_focus = 3;
      shape.width = 128;
      shape.n_heads = 2;
      shape.mixing = mixing;
      shape.rank = 4;
      check_rotate_mix(shape, 33, shape.radial_size());
      check_rotate_back_sum(shape, 33);
    }
  }
}

TEST_P(Rotations, FocusWeights) {
  MessageShape shape = shape_of(GetParam());
  const int count = GetParam().n_edges;
  if (shape.n_focus == 1) shape.n_focus = 4;
  Random random(20);
  const std::int64_t size = static_cast<std::int64_t>(count) * shape.n_focus * shape.row_size();
  const std::int64_t scalars = static_cast<std::int64_t>(count) * shape.hidden();
  const std::int64_t weights = static_cast<std::int64_t>(count) * shape.n_focus;
  const auto u = random.normal(size), scale = random.normal(shape.hidden(), 0.2, 1);
  const auto competition = random.normal(shape.hidden(), 0.2), grad_weight = random.normal(weights);
  const auto scalar_rows = random.normal(scalars), weight = random.uniform(weights, 0.05, 0.9);
  for (const bool normed : {false, true}) {
    expect_same_as_cpu([&](auto& run) {
      using Real = typename std::decay_t<decltype(run)>::Real;
      kernels::FocusWeightsArgs<Real> args;
      args.count = count;
      args.shape = shape;
      args.eps = 1e-7;
      args.u = run.in(u);
      args.scale = normed ? run.in(scale) : nullptr;
      args.competition = run.in(competition);
      args.weight = run.out("weight", weights);
      args.scalars = normed ? run.out("scalars", scalars) : nullptr;
      run.table().focus_weights(args, run.stream());
      args.u = run.in(scalar_rows);
      args.scalars_only = true;
      args.weight = run.out("weight of scalars", weights);
      args.scalars = nullptr;
      run.table().focus_weights(args, run.stream());
      kernels::FocusWeightsBackwardArgs<Real> back;
      back.count = count;
      back.shape = shape;
      back.eps = 1e-7;
      back.scalars = run.in(scalar_rows);
      back.scale = args.scale;
      back.competition = args.competition;
      back.weight = run.in(weight);
      back.grad_weight = run.in(grad_weight);
      back.grad_u = run.inout("grad_u", u);
      run.table().focus_weights_backward(back, run.stream());
    });
  }
}

std::vector<RotationCase> rotation_cases() {
  std::vector<RotationCase> cases;
  for (int lmax = 1; lmax <= 6; ++lmax) {
    for (int n_focus = 1; n_focus <= 3; ++n_focus) {
      for (int n_edges : awkward_counts()) {
        if (n_edges < 1000 || n_focus == 1 + lmax % 3) cases.push_back({lmax, n_focus, n_edges});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cuda, Rotations, testing::ValuesIn(rotation_cases()),
                         [](const auto& info) {
                           return "lmax" + std::to_string(info.param.lmax) + "_focus" +
                                  std::to_string(info.param.n_focus) + "_" +
                                  std::to_string(info.param.n_edges) + "_edges";
                         });

}  // namespace
}  // namespace dpa4::test
