// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/radial_net.h"

#include <algorithm>

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
    Layer layer;
    layer.linear = make_linear(store, store.matrix(prefix + std::to_string(position) + ".matrix"));
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
  for (const Layer& layer : net.layers_) {
    linear.push_back(arena.take(n * layer.linear.out));
    active.push_back(arena.take(n * layer.linear.out));
  }
  if (!backward) return;
  grad_envelope = arena.take(n);
  torque = arena.take(3 * n);
  grad_basis = arena.take(n * net.shape_.n_radial);
  for (const Layer& layer : net.layers_) grad_active.push_back(arena.take(n * layer.linear.out));
  grad_hidden = net.layers_.empty() ? grad_basis : grad_active.back();
}

template <class Real>
void RadialNet<Real>::forward(const StepEdges& step, const kernels::EdgeSlice& edges, int lmax,
                              const Buffers& buffers) const {
  kernels::EdgeGeometryArgs<Real> geometry;
  geometry.edges = edges;
  geometry.shape = shape_;
  geometry.vec = step.vec;
  geometry.frequencies = frequencies_;
  geometry.length = buffers.length;
  geometry.unit = buffers.unit;
  geometry.envelope = buffers.envelope;
  geometry.basis = buffers.basis;
  context_.table->edge_geometry(geometry, context_.stream());

  if (lmax > 0) {
    kernels::WignerRowsArgs<Real> rows;
    rows.count = edges.count;
    rows.lmax = lmax;
    rows.unit = buffers.unit;
    rows.wigner = buffers.wigner;
    context_.table->wigner_rows(rows, context_.stream());
  }

  const Real* x = buffers.basis;
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    const Layer& layer = layers_[k];
    context_.multiply(edges.count, x, layer.linear.in, layer.linear, buffers.linear[k],
                      layer.linear.out);
    kernels::RmsNormSiluArgs<Real> act;
    act.rows = edges.count;
    act.width = layer.linear.out;
    act.x = buffers.linear[k];
    act.scale = layer.scale;
    act.eps = kNormEps;
    act.y = buffers.active[k];
    context_.table->rms_norm_silu(act, context_.stream());
    x = buffers.active[k];
  }
}

template <class Real>
void RadialNet<Real>::clear(const Buffers& buffers, int count) const {
  const std::size_t n = static_cast<std::size_t>(count) * sizeof(Real);
  context_.machine->zero(buffers.grad_envelope, n);
  context_.machine->zero(buffers.torque, 3 * n);
}

template <class Real>
void RadialNet<Real>::backward(int count, const Buffers& buffers, bool accumulate) const {
  for (std::size_t k = layers_.size(); k-- > 0;) {
    const Layer& layer = layers_[k];
    kernels::RmsNormSiluBackwardArgs<Real> act;
    act.rows = count;
    act.width = layer.linear.out;
    act.x = buffers.linear[k];
    act.scale = layer.scale;
    act.eps = kNormEps;
    act.grad_y = buffers.grad_active[k];
    act.grad_x = buffers.grad_active[k];
    context_.table->rms_norm_silu_backward(act, context_.stream());
    Real* to = k == 0 ? buffers.grad_basis : buffers.grad_active[k - 1];
    context_.multiply_transposed(count, buffers.grad_active[k], layer.linear.out, layer.linear, to,
                                 layer.linear.in, k == 0 && accumulate);
  }
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
