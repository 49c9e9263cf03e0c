// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/radial_net.h"

#include <algorithm>

#include "src/base/error.h"

namespace dpa4::native {

namespace {

constexpr double kNormEps = 1e-7;  // of the norms inside the radial network

}  // namespace

kernels::RadialShape radial_shape(const model::ModelConfig& config) {
  kernels::RadialShape shape;
  shape.rcut = config.rcut;
  // Checkpoints carry the cutoff of the edge weight rounded to float32.
  shape.envelope_rcut = static_cast<float>(config.rcut);
  shape.basis_exponent = config.basis_env_exp;
  shape.envelope_exponent = config.edge_env_exp;
  shape.gaussian = config.basis == model::Basis::kGaussian;
  shape.n_radial = config.n_radial;
  const double width = config.rcut / std::max(config.n_radial - 1, 1);
  shape.gaussian_kappa = -1 / (2 * width * width);
  shape.eps = config.eps;
  shape.bridging = config.bridging_zbl;
  shape.r_inner = config.bridging_r_inner;
  shape.r_outer = config.bridging_r_outer;
  return shape;
}

template <class Real>
RadialNet<Real>::RadialNet(const EngineContext<Real>& context, WeightStore<Real>& store,
                           const model::ModelConfig& config)
    : context_(context), shape_(radial_shape(config)), enveloped_(config.format_version >= 1.1) {
  frequencies_ = store.upload(store.list("descriptor.radial_basis.adam_freqs"));
  // Positions count every module of the sequence: linear, norm if present, activation.
  const std::string prefix = "descriptor.radial_embedding.net.";
  int position = 0;
  hidden_width_ = config.n_radial;
  for (int width : config.radial_mlp) {
    const Linear<Real> linear =
        make_linear(store, store.matrix(prefix + std::to_string(position) + ".matrix"));
    kernels::RadialLayer<Real> layer{linear.in, linear.out, linear.w, linear.wt, nullptr};
    if (config.edge_norm_radial) {
      layer.scale = store.upload(store.list(prefix + std::to_string(position + 1) + ".adam_scale"));
    }
    layers_.push_back(layer);
    position += config.edge_norm_radial ? 3 : 2;
    hidden_width_ = width;
  }
  output_ = store.matrix(prefix + std::to_string(position) + ".matrix");
}

template <class Real>
RadialNet<Real>::Buffers::Buffers(Arena<Real>& arena, const RadialNet& net, int count, int lmax,
                                  bool backward) {
  const std::int64_t n = count;
  length = arena.take(n);
  unit = arena.take(3 * n);
  envelope = arena.take(n);
  basis = arena.take(n * net.shape_.n_radial);
  wigner = arena.take(n * kernels::wigner_size(lmax));
  if (!backward) return;
  grad_envelope = arena.take(n);
  torque = arena.take(3 * n);
  grad_basis = arena.take(n * net.shape_.n_radial);
}

template <class Real>
void RadialNet<Real>::geometry(const StepEdges& step, const kernels::EdgeSlice& edges, int lmax,
                               const Buffers& buffers) const {
  kernels::EdgeGeometryArgs<Real> args;
  args.edges = edges;
  args.shape = shape_;
  args.vec = step.vec;
  args.frequencies = frequencies_;
  args.length = buffers.length;
  args.unit = buffers.unit;
  args.envelope = buffers.envelope;
  args.basis = buffers.basis;
  context_.table->edge_geometry(args, context_.stream());

  if (lmax == 0) return;
  kernels::WignerRowsArgs<Real> rows;
  rows.count = edges.count;
  rows.lmax = lmax;
  rows.unit = buffers.unit;
  rows.wigner = buffers.wigner;
  context_.table->wigner_rows(rows, context_.stream());
}

template <class Real>
kernels::EdgeConditionNet<Real> RadialNet<Real>::condition_net(const Linear<Real>& conditioning,
                                                               const Real* type_table) const {
  DPA4_EXPECTS(conditioning.in == hidden_width_);
  kernels::EdgeConditionNet<Real> net;
  net.shape = shape_;
  net.frequencies = frequencies_;
  net.n_layers = static_cast<int>(layers_.size());
  net.layers = layers_.data();
  net.eps = kNormEps;
  net.width = conditioning.out;
  net.w = conditioning.w;
  net.w_transposed = conditioning.wt;
  net.src_table = net.dst_table = type_table;
  net.enveloped = enveloped_ && type_table != nullptr;
  return net;
}

template <class Real>
void RadialNet<Real>::clear(const Buffers& buffers, int count) const {
  // At once: the second array follows the first one.
  const std::int64_t size = buffers.torque - buffers.grad_envelope + 3 * std::int64_t{count};
  context_.machine->zero(buffers.grad_envelope, static_cast<std::size_t>(size) * sizeof(Real));
}

template <class Real>
void RadialNet<Real>::geometry_backward(const StepEdges& step, const kernels::EdgeSlice& edges,
                                        const Buffers& buffers, const Real* grad_length,
                                        const Real* grad_unit, Real* grad_vec) const {
  kernels::EdgeGeometryBackwardArgs<Real> args;
  args.edges = edges;
  args.shape = shape_;
  args.vec = step.vec;
  args.frequencies = frequencies_;
  args.grad_length = grad_length;
  args.grad_envelope = buffers.grad_envelope;
  args.grad_basis = buffers.grad_basis;
  args.grad_unit = grad_unit;
  args.torque = buffers.torque;
  args.grad_vec = grad_vec;
  context_.table->edge_geometry_backward(args, context_.stream());
}

template class RadialNet<float>;
template class RadialNet<double>;

}  // namespace dpa4::native
