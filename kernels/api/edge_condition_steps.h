// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "kernels/api/kernel_table.h"

/// edge_condition as the composition of single operations: what it means, and how backends do it
/// where they have nothing better.
namespace dpa4::kernels {

// Every source file gets code of its own: what is compiled for one instruction set must not be
// shared with others.
namespace {

/// Arrays of the composition in its workspace.
template <class Real>
class EdgeConditionArrays {
 public:
  /// Elements of the workspace.
  static std::int64_t size(const EdgeConditionNet<Real>& net, int count, bool backward) {
    std::int64_t used = padded(count) + padded(product(count, net.shape.n_radial)) +
                        padded(product(count, net.width));
    for (int k = 0; k < net.n_layers; ++k) used += 2 * padded(product(count, net.layers[k].out));
    if (!backward) return used;
    used += padded(product(count, net.shape.n_radial));
    for (int k = 0; k < net.n_layers; ++k) used += padded(product(count, net.layers[k].out));
    return used;
  }

  EdgeConditionArrays(const EdgeConditionNet<Real>& net, int count, Real* work)
      : net_(net), count_(count), work_(work) {}

  Real* length() const { return work_; }
  Real* basis() const { return length() + padded(count_); }
  Real* raw() const { return basis() + padded(product(count_, net_.shape.n_radial)); }
  /// Of hidden layer k: before its activation, after it, gradient.
  Real* linear(int k) const { return layer(k, 0); }
  Real* active(int k) const { return layer(k, 1); }
  Real* grad_basis() const { return layer(net_.n_layers, 0); }
  Real* grad_active(int k) const {
    Real* at = grad_basis() + padded(product(count_, net_.shape.n_radial));
    for (int i = 0; i < k; ++i) at += padded(product(count_, net_.layers[i].out));
    return at;
  }

  const Real* hidden() const { return net_.n_layers > 0 ? active(net_.n_layers - 1) : basis(); }
  Real* grad_hidden() const {
    return net_.n_layers > 0 ? grad_active(net_.n_layers - 1) : grad_basis();
  }

 private:
  static std::int64_t product(int count, int width) {
    return static_cast<std::int64_t>(count) * width;
  }
  /// Arrays begin at whole vectors.
  static std::int64_t padded(std::int64_t n) {
    constexpr std::int64_t kStep = 64;
    return (n + kStep - 1) / kStep * kStep;
  }
  Real* layer(int k, int part) const {
    Real* at = raw() + padded(product(count_, net_.width));
    for (int i = 0; i < k; ++i) at += 2 * padded(product(count_, net_.layers[i].out));
    return at + (part > 0 ? padded(product(count_, net_.layers[k].out)) : 0);
  }

  const EdgeConditionNet<Real>& net_;
  int count_;
  Real* work_;
};

/// C (m, n) = A (m, k) B of contiguous matrices.
template <class Real>
void multiply_matrices(const KernelTable<Real>& table, int m, int n, int k, const Real* a,
                       const Real* b, Real* c, Stream stream) {
  GemmArgs<Real> args;
  args.m = m;
  args.n = args.ldb = args.ldc = n;
  args.k = args.lda = k;
  args.a = a;
  args.b = b;
  args.c = c;
  table.gemm(args, stream);
}

template <class Real>
void edge_condition_steps(const KernelTable<Real>& table, const EdgeConditionArgs<Real>& args,
                          Stream stream) {
  const EdgeConditionNet<Real>& net = args.net;
  const int count = args.edges.count;
  const EdgeConditionArrays<Real> arrays(net, count, args.work);
  EdgeGeometryArgs<Real> geometry;
  geometry.edges = args.edges;
  geometry.shape = net.shape;
  geometry.vec = args.vec;
  geometry.frequencies = net.frequencies;
  geometry.length = args.length != nullptr ? args.length : arrays.length();
  geometry.unit = args.unit;
  geometry.envelope = args.envelope;
  geometry.basis = arrays.basis();
  table.edge_geometry(geometry, stream);
  const Real* x = arrays.basis();
  for (int k = 0; k < net.n_layers; ++k) {
    const RadialLayer<Real>& layer = net.layers[k];
    multiply_matrices(table, count, layer.out, layer.in, x, layer.w, arrays.linear(k), stream);
    RmsNormSiluArgs<Real> act;
    act.rows = count;
    act.width = layer.out;
    act.x = arrays.linear(k);
    act.scale = layer.scale;
    act.eps = net.eps;
    act.y = arrays.active(k);
    table.rms_norm_silu(act, stream);
    x = arrays.active(k);
  }
  const bool biased = net.src_table != nullptr;
  multiply_matrices(table, count, net.width, net.hidden(), x, net.w, biased ? arrays.raw() : args.y,
                    stream);
  if (!biased) return;
  PairBiasArgs<Real> bias;
  bias.edges = args.edges;
  bias.width = net.width;
  bias.type = args.type;
  bias.src_table = net.src_table;
  bias.dst_table = net.dst_table;
  bias.factor = net.enveloped ? args.envelope : nullptr;
  bias.x = arrays.raw();
  bias.y = args.y;
  table.pair_bias(bias, stream);
}

template <class Real>
void edge_condition_backward_steps(const KernelTable<Real>& table,
                                   const EdgeConditionBackwardArgs<Real>& args, Stream stream) {
  const EdgeConditionNet<Real>& net = args.net;
  const int count = args.edges.count;
  const EdgeConditionArrays<Real> arrays(net, count, args.work);
  if (net.enveloped) {
    PairBiasBackwardArgs<Real> bias;
    bias.edges = args.edges;
    bias.width = net.width;
    bias.type = args.type;
    bias.src_table = net.src_table;
    bias.dst_table = net.dst_table;
    bias.factor = args.envelope;
    bias.x = arrays.raw();
    bias.grad_y = bias.grad_x = args.grad_y;
    bias.grad_factor = args.grad_envelope;
    table.pair_bias_backward(bias, stream);
  }
  multiply_matrices(table, count, net.hidden(), net.width, args.grad_y, net.w_transposed,
                    arrays.grad_hidden(), stream);
  for (int k = net.n_layers; k-- > 0;) {
    const RadialLayer<Real>& layer = net.layers[k];
    RmsNormSiluBackwardArgs<Real> act;
    act.rows = count;
    act.width = layer.out;
    act.x = arrays.linear(k);
    act.scale = layer.scale;
    act.eps = net.eps;
    act.grad_y = act.grad_x = arrays.grad_active(k);
    table.rms_norm_silu_backward(act, stream);
    multiply_matrices(table, count, layer.in, layer.out, arrays.grad_active(k), layer.w_transposed,
                      k > 0 ? arrays.grad_active(k - 1) : arrays.grad_basis(), stream);
  }
  EdgeGeometryBackwardArgs<Real> geometry;
  geometry.edges = args.edges;
  geometry.shape = net.shape;
  geometry.vec = args.vec;
  geometry.frequencies = net.frequencies;
  geometry.grad_length = args.grad_length;
  geometry.grad_unit = args.grad_unit;
  geometry.grad_envelope = args.grad_envelope;
  geometry.grad_basis = arrays.grad_basis();
  geometry.torque = args.torque;
  geometry.grad_vec = args.grad_vec;
  table.edge_geometry_backward(geometry, stream);
}

}  // namespace

}  // namespace dpa4::kernels
