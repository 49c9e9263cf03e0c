// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/support/lammps_toy_model.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "src/base/error.h"

namespace dpa4::test {
namespace {

using Vector = std::array<double, 3>;

constexpr double kA[3] = {1.0, 0.7, -0.4};   // what a neighbor of this element adds to features
constexpr double kB[3] = {0.3, -0.2, 0.45};  // how a center of this element uses them
constexpr double kE0[3] = {-1.0, -2.0, -3.5};

/// w and d w / d(r2).
std::pair<double, double> weight(double r2, double squared_cutoff) {
  const double u = 1 - r2 / squared_cutoff;
  return {u * u * u, -3 * u * u / squared_cutoff};
}

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/// Rows of (d, q) repeated `copies` times, in the precision in which they are exchanged.
template <class Real>
class FeatureRows {
 public:
  FeatureRows(int n_nodes, int copies)
      : n_nodes_(n_nodes),
        copies_(copies),
        width_(4 * copies + 1),
        data_(std::size_t(n_nodes) * width_) {}

  /// The mean of the copies: an error in any column of an exchange changes it.
  double get(int node, int feature) const {
    double sum = 0;
    for (int k = 0; k < copies_; ++k) sum += data_[at(node, 4 * k + feature)];
    return sum / copies_;
  }
  double sum(int node, int feature) const { return get(node, feature) * copies_; }
  void set_all(int node, int feature, double value) {
    for (int k = 0; k < copies_; ++k) data_[at(node, 4 * k + feature)] = static_cast<Real>(value);
  }
  /// Spread over the copies, so that get's transpose is met with different numbers in every column.
  void add_spread(int node, int feature, double value) {
    const double total = 0.5 * copies_ * (copies_ + 1);
    for (int k = 0; k < copies_; ++k) {
      data_[at(node, 4 * k + feature)] += static_cast<Real>(value * (k + 1) / total);
    }
  }
  void expect_zero_from(int first_node) const {
    for (std::size_t k = at(first_node, 0); k < data_.size(); ++k) DPA4_EXPECTS(data_[k] == 0);
  }
  model::NodeRows rows() {
    return {data_.data(),
            n_nodes_,
            width_,
            sizeof(Real) == 4 ? model::NodeRows::Type::kFloat32 : model::NodeRows::Type::kFloat64,
            model::NodeRows::Space::kHost,
            nullptr};
  }

 private:
  std::size_t at(int node, int column) const { return std::size_t(node) * width_ + column; }
  int n_nodes_, copies_, width_;
  std::vector<Real> data_;
};

}  // namespace

ToyEvaluator::ToyEvaluator(double rcut, model::Precision precision, int copies, bool fails)
    : squared_cutoff_(rcut * rcut), precision_(precision), copies_(copies), fails_(fails) {}

void ToyEvaluator::evaluate(const model::Structure& structure, const model::Conditions& conditions,
                            model::HaloExchange& halo, model::Request request,
                            model::Evaluation& result) {
  if (halo.any(fails_)) throw std::runtime_error("the toy cannot {evaluate}\nstack frame 0");
  if (precision_ == model::Precision::kFloat32) {
    evaluate_as<float>(structure, conditions, halo, request, result);
  } else {
    evaluate_as<double>(structure, conditions, halo, request, result);
  }
}

template <class Real>
void ToyEvaluator::evaluate_as(const model::Structure& structure,
                               const model::Conditions& conditions, model::HaloExchange& halo,
                               model::Request request, model::Evaluation& result) {
  const graph::EdgeList& edges = structure.edges;
  const int n_owned = edges.n_owned;
  const int n_nodes = edges.n_nodes;
  DPA4_EXPECTS(structure.type.extent(0) == n_nodes);
  const auto vec = [&](int e) { return Vector{edges.vec(e, 0), edges.vec(e, 1), edges.vec(e, 2)}; };

  halo.reserve(4 * copies_ + 1);
  FeatureRows<Real> feature(n_nodes, copies_);
  for (int n = 0; n < n_owned; ++n) {
    double d = 0;
    Vector q{};
    for (int e = edges.dst_begin(n); e < edges.dst_begin(n + 1); ++e) {
      const Vector v = vec(e);
      const double aw = kA[structure.type(edges.src(e))] * weight(dot(v, v), squared_cutoff_).first;
      d += aw;
      for (int k = 0; k < 3; ++k) q[k] += aw * v[k];
    }
    feature.set_all(n, 0, d);
    for (int k = 0; k < 3; ++k) feature.set_all(n, 1 + k, q[k]);
  }
  halo.forward(feature.rows());

  double e0 = 0;
  if (conditions.fparam.size() == 2) e0 += conditions.fparam[0] + 10 * conditions.fparam[1];
  if (conditions.charge_spin) {
    e0 += (*conditions.charge_spin)[0] + 100 * (*conditions.charge_spin)[1];
  }

  std::vector<double> grad_vec(std::size_t(3) * edges.n_edges());
  FeatureRows<Real> grad(n_nodes, copies_);
  result.energy = 0;
  result.atom_energy.assign(n_owned, 0.0);
  for (int n = 0; n < n_owned; ++n) {
    const double d_n = feature.get(n, 0);
    double energy = kE0[structure.type(n)] + e0 + 0.5 * d_n * d_n;
    if (structure.aparam.extent(1) == 1) energy += structure.aparam(n, 0);
    grad.add_spread(n, 0, d_n);
    const double b = kB[structure.type(n)];
    for (int e = edges.dst_begin(n); e < edges.dst_begin(n + 1); ++e) {
      const int s = edges.src(e);
      const Vector v = vec(e);
      const Vector q{feature.get(s, 1), feature.get(s, 2), feature.get(s, 3)};
      const auto [w, dw] = weight(dot(v, v), squared_cutoff_);
      const double message = feature.get(s, 0) + dot(q, v);
      energy += b * w * message;
      grad.add_spread(s, 0, b * w);
      for (int k = 0; k < 3; ++k) {
        grad.add_spread(s, 1 + k, b * w * v[k]);
        grad_vec[std::size_t(3) * e + k] = b * (2 * dw * v[k] * message + w * q[k]);
      }
    }
    result.atom_energy[n] = energy;
    result.energy += energy;
  }
  halo.reverse(grad.rows());
  if (halo.active()) grad.expect_zero_from(n_owned);

  // Per node: force, then virial, in one row that is sent home.
  constexpr int kOut = 12;
  std::vector<double> out(std::size_t(kOut) * n_nodes);
  result.virial.fill(0);
  for (int e = 0; e < edges.n_edges(); ++e) {
    const int s = edges.src(e);
    const int n = edges.dst(e);
    const Vector v = vec(e);
    const double a = kA[structure.type(s)];
    const auto [w, dw] = weight(dot(v, v), squared_cutoff_);
    const Vector gq{grad.sum(n, 1), grad.sum(n, 2), grad.sum(n, 3)};
    const double along = grad.sum(n, 0) + dot(gq, v);
    for (int k = 0; k < 3; ++k) {
      const double g = grad_vec[std::size_t(3) * e + k] + a * (2 * dw * v[k] * along + w * gq[k]);
      out[std::size_t(kOut) * n + k] += g;
      out[std::size_t(kOut) * s + k] -= g;
      for (int b = 0; b < 3; ++b) {
        result.virial[3 * k + b] -= g * v[b];
        out[std::size_t(kOut) * n + 3 + 3 * k + b] -= 0.5 * g * v[b];
        out[std::size_t(kOut) * s + 3 + 3 * k + b] -= 0.5 * g * v[b];
      }
    }
  }
  halo.reverse({out.data(), n_nodes, kOut, model::NodeRows::Type::kFloat64,
                model::NodeRows::Space::kHost, nullptr});
  result.force.assign(std::size_t(3) * n_owned, 0.0);
  result.atom_virial.assign(request.atom_virial ? std::size_t(9) * n_owned : 0, 0.0);
  for (int n = 0; n < n_owned; ++n) {
    for (int k = 0; k < 3; ++k) result.force[3 * n + k] = out[std::size_t(kOut) * n + k];
    for (int k = 0; request.atom_virial && k < 9; ++k) {
      result.atom_virial[9 * n + k] = out[std::size_t(kOut) * n + 3 + k];
    }
  }
}

model::MemoryPlan ToyEvaluator::memory_plan() const {
  model::MemoryPlan plan;
  plan.bytes_per_atom = (4 * copies_ + 1) * 8;
  return plan;
}

engine::LoadedModel load_toy(const std::string& path, const engine::EngineOptions& options,
                             Logger& log) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  engine::LoadedModel model;
  model.config.type_map = kToyElements;
  model.config.rcut = kToyCutoff;
  int copies = 40;
  bool fails = false;
  if (name == "toy.wide") {
    copies = 201;
  } else if (name == "toy.exclude") {
    model.config.exclude_types = {{0, 1}};
  } else if (name == "toy.fparam") {
    model.config.numb_fparam = 2;
  } else if (name == "toy.aparam") {
    model.config.numb_aparam = 1;
  } else if (name == "toy.charge") {
    model.config.add_chg_spin_ebd = true;
  } else if (name == "toy.throw") {
    fails = true;
  } else if (name != "toy") {
    throw InputError("'" + path + "' is not a {toy}");
  }
  log.warning("the toy is not for science");
  model.info.path = path;
  model.options = options.evaluator;
  model.engine = "toy";
  model.evaluator =
      std::make_unique<ToyEvaluator>(kToyCutoff, options.evaluator.precision, copies, fails);
  return model;
}

std::vector<std::string> toy_start_report(const engine::LoadedModel& model) {
  return {"toy model " + model.info.path, "toy cohort " + std::to_string(model.options.cohort)};
}

}  // namespace dpa4::test
