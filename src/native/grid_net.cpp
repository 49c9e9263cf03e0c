// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/grid_net.h"

#include "src/base/error.h"

namespace dpa4::native {

using model::GridOpKind;

namespace {

const char* const kStoredTo = "projector.to_grid_mat";
const char* const kStoredFrom = "projector.from_grid_mat";

template <class Real>
bool has_stored_grid(const WeightStore<Real>& store, const std::string& prefix) {
  return store.contains(prefix + kStoredTo) && store.contains(prefix + kStoredFrom);
}

}  // namespace

template <class Real>
GridNet<Real>::GridNet(const EngineContext<Real>& context, const Options& options)
    : context_(&context), options_(options) {
  shape_.width = options.op.kind == GridOpKind::kMlp ? 2 * options.width : options.width;
  shape_.n_branches = options.op.kind == GridOpKind::kBranch ? options.op.branches : 1;
  shape_.n_coefficients = coefficients();
  has_out_projection_ = options.op.kind != GridOpKind::kGlu;
  DPA4_EXPECTS(!options.scalar_result || shape_.n_branches == 1);
}

template <class Real>
void GridNet<Real>::load_operation(WeightStore<Real>& store, const std::string& prefix,
                                   const math::GridMatrices& grid) {
  const int width = options_.width;
  DPA4_EXPECTS(grid.n_rows == rows() && grid.n_frames == options_.n_frames);
  shape_.n_points = grid.n_points;
  HostMatrix to(grid.n_points, coefficients(), grid.to);
  HostMatrix from(coefficients(), grid.n_points, grid.from);
  if (has_stored_grid(store, prefix)) {
    // A file that carries the matrices (rounded to the type of its weights) means those.
    const HostMatrix stored_to = store.matrix(prefix + kStoredTo);
    const HostMatrix stored_from = store.matrix(prefix + kStoredFrom);
    if (stored_to.rows != to.rows || stored_to.cols != to.cols || stored_from.rows != from.rows ||
        stored_from.cols != from.cols) {
      throw InputError(
          "the model's stored grid matrices (to_grid_mat, from_grid_mat) do not have the shape its "
          "options call for");
    }
    to = stored_to;
    from = stored_from;
  }
  if (options_.scalar_result) {
    // By orthogonality the mean of a product over the grid is a sum over coefficients; its weights
    // are 1/(2l+1), and 0 for the frames that a degree does not have.
    std::vector<double> weight(static_cast<std::size_t>(coefficients()));
    for (int i = 0; i < coefficients(); ++i) {
      for (int g = 0; g < grid.n_points; ++g) {
        weight[static_cast<std::size_t>(i)] += from(0, g) * to(g, i) * to(g, i);
      }
    }
    mean_weight_ = store.upload(weight);
  } else {
    grid_.to = store.upload(to);
    grid_.to_transposed = store.upload(to.transposed());
    grid_.from = store.upload(from);
    grid_.from_transposed = store.upload(from.transposed());
  }
  const HostMatrix gate = store.matrix(prefix + "scalar_gate.weight");
  for (int f = 0; f < options_.n_focus; ++f) {
    scalar_gate_.push_back(make_linear(store, gate.col_range(f * width, width)));
  }
  if (shape_.n_branches > 1) {
    router_ = make_linear(store, store.matrix(prefix + "grid_op.router.weight"));
  }
  if (has_out_projection_) {
    out_projection_ = make_linear(store, store.matrix(prefix + "grid_op.out_proj.weight"));
  }
}

template <class Real>
void GridNet<Real>::set_factors(WeightStore<Real>& store, const std::vector<HostMatrix>& left,
                                const std::vector<HostMatrix>& right) {
  left_ = make_degree_linear(store, left);
  right_ = make_degree_linear(store, right);
}

template <class Real>
bool GridNet<Real>::ffn_has_stored_grid(const WeightStore<Real>& store, const std::string& prefix) {
  return has_stored_grid(store, prefix + ".act.");
}

template <class Real>
GridNet<Real> GridNet<Real>::ffn(const EngineContext<Real>& context, WeightStore<Real>& store,
                                 const std::string& prefix, const Options& options,
                                 const math::GridMatrices& grid) {
  GridNet net(context, options);
  const int width = options.width, frames = options.n_frames;
  net.load_operation(store, prefix + ".act.", grid);
  // Columns of so3_linear_1: [left | right], each (frame, channel).
  const std::vector<HostMatrix> first =
      by_degree(store.matrix(prefix + ".so3_linear_1.weight"), options.lmax);
  const std::string op = prefix + ".act.grid_op.";
  HostMatrix left_projection, right_projection;
  if (net.has_out_projection_) {
    left_projection = store.matrix(op + "left_proj.weight");
    right_projection = store.matrix(op + "right_proj.weight");
  }
  std::vector<HostMatrix> left, right;
  for (int l = 0; l <= options.lmax; ++l) {
    HostMatrix left_l(options.in, frames * net.fields()),
        right_l(options.in, frames * net.fields());
    for (int k = 0; k < frames; ++k) {
      const HostMatrix a = first[l].col_range(k * width, width);
      const HostMatrix b = first[l].col_range((frames + k) * width, width);
      HostMatrix a_k = a, b_k = b;
      if (options.op.kind == GridOpKind::kBranch) {
        a_k = a * left_projection;
        b_k = b * right_projection;
      } else if (options.op.kind == GridOpKind::kMlp) {
        HostMatrix pair(options.in, 2 * width);
        place(pair, 0, 0, a);
        place(pair, 0, width, b);
        a_k = pair * left_projection;
        b_k = pair * right_projection;
      }
      place(left_l, 0, k * net.fields(), a_k);
      place(right_l, 0, k * net.fields(), b_k);
    }
    left.push_back(left_l);
    right.push_back(right_l);
  }
  net.set_factors(store, left, right);
  HostMatrix pair(options.in, 2 * width);
  place(pair, 0, 0, first[0].col_range(0, width));
  place(pair, 0, width, first[0].col_range(frames * width, width));
  net.scalar_pair_ = make_linear(store, pair);
  std::vector<HostMatrix> second =
      by_degree(store.matrix(prefix + ".so3_linear_2.weight"), options.lmax);
  if (options.scalar_result) second = {second[0].row_range(0, width)};
  net.result_.push_back(make_degree_linear(store, second));
  return net;
}

template <class Real>
GridNet<Real> GridNet<Real>::cross(const EngineContext<Real>& context, WeightStore<Real>& store,
                                   const std::string& prefix, const Options& options,
                                   const math::GridMatrices& grid) {
  DPA4_EXPECTS(options.in == options.width && options.out == options.width);
  GridNet net(context, options);
  net.cross_ = true;
  const int width = options.width, frames = options.n_frames;
  net.load_operation(store, prefix + ".", grid);
  const std::vector<HostMatrix> expand =
      by_degree(store.matrix(prefix + ".frame_expand.weight"), options.lmax);
  std::vector<HostMatrix> left, right;
  for (int l = 0; l <= options.lmax; ++l) {
    if (!net.has_out_projection_) {
      left.push_back(expand[l]);
      right.push_back(expand[l]);
      continue;
    }
    const HostMatrix left_projection = store.matrix(prefix + ".grid_op.left_proj.weight");
    const HostMatrix right_projection = store.matrix(prefix + ".grid_op.right_proj.weight");
    HostMatrix left_l(width, frames * net.fields()), right_l(width, frames * net.fields());
    for (int k = 0; k < frames; ++k) {
      const HostMatrix part = expand[l].col_range(k * width, width);
      place(left_l, 0, k * net.fields(), part * left_projection);
      place(right_l, 0, k * net.fields(), part * right_projection);
    }
    left.push_back(left_l);
    right.push_back(right_l);
  }
  net.set_factors(store, left, right);
  const std::vector<HostMatrix> contract =
      by_degree(store.matrix(prefix + ".frame_contract.weight"), options.lmax);
  const std::vector<double> scale = store.list(prefix + ".residual_scale");
  for (int f = 0; f < options.n_focus; ++f) {
    std::vector<HostMatrix> scaled = contract;
    for (HostMatrix& matrix : scaled)
      for (int i = 0; i < matrix.rows; ++i)
        for (int j = 0; j < width; ++j)
          matrix(i, j) *= scale[static_cast<std::size_t>(f * width + j)];
    net.result_.push_back(make_degree_linear(store, scaled));
  }
  return net;
}

template <class Real>
GridNet<Real>::Buffers::Buffers(Arena<Real>& arena, const GridNet& net, int count, bool backward) {
  const Options& o = net.options_;
  const std::int64_t items = static_cast<std::int64_t>(count) * o.n_focus;
  const std::int64_t size = net.coefficients(), result = net.result_coefficients();
  left = arena.take(items * size * net.fields());
  right = arena.take(items * size * net.fields());
  product = arena.take(items * result * net.shape_.width);
  coefficient = net.has_out_projection_ ? arena.take(items * result * o.width) : product;
  gated = arena.take(items * result * o.width);
  scalars = arena.take(items * 2 * o.width);
  logit = arena.take(items * o.width);
  if (net.shape_.n_branches > 1) {
    router_logit = arena.take(items * net.shape_.n_branches);
    router = arena.take(items * net.shape_.n_branches);
  }
  if (!o.scalar_result) {
    work = arena.take(items * net.context_->table->grid_product_work(net.shape_));
  }
  if (!backward) return;
  grad_scalars = arena.take(items * 2 * o.width);
  grad_logit = arena.take(items * o.width);
  if (net.shape_.n_branches > 1) grad_router = arena.take(items * net.shape_.n_branches);
  grad_left = o.scalar_result ? arena.take(items * size * net.fields()) : left;
  grad_right = o.scalar_result ? arena.take(items * size * net.fields()) : right;
}

template <class Real>
void GridNet<Real>::factor(int count, const Real* from, std::int64_t ld,
                           const DegreeLinear<Real>& map, Real* to) const {
  const std::int64_t row_in = static_cast<std::int64_t>(options_.n_focus) * options_.in;
  for (int f = 0; f < options_.n_focus; ++f) {
    context_->multiply_degrees(count, from + f * options_.in, ld, row_in, map,
                               to + static_cast<std::int64_t>(f) * rows() * map.out,
                               static_cast<std::int64_t>(options_.n_focus) * rows() * map.out,
                               map.out);
  }
}

template <class Real>
void GridNet<Real>::factor_backward(int count, const Real* grad, const DegreeLinear<Real>& map,
                                    Real* to, std::int64_t ld, bool accumulate) const {
  const std::int64_t row_in = static_cast<std::int64_t>(options_.n_focus) * options_.in;
  for (int f = 0; f < options_.n_focus; ++f) {
    context_->multiply_degrees_transposed(
        count, grad + static_cast<std::int64_t>(f) * rows() * map.out,
        static_cast<std::int64_t>(options_.n_focus) * rows() * map.out, map.out, map,
        to + f * options_.in, ld, row_in, accumulate);
  }
}

template <class Real>
void GridNet<Real>::forward(int count, const Real* query, std::int64_t ldq, const Real* context,
                            std::int64_t ldc, Real* out, std::int64_t ldo, const Buffers& b) const {
  const int focus = options_.n_focus, width = options_.width, items = count * focus;
  const kernels::Stream stream = context_->stream();
  factor(count, query, ldq, left_, b.left);
  factor(count, context, ldc, right_, b.right);
  if (cross_) {
    for (int f = 0; f < focus; ++f) {
      Real* pair = b.scalars + static_cast<std::int64_t>(f) * 2 * width;
      context_->rows(count, width, query + f * width, ldq, pair, 2 * width * focus, false);
      context_->rows(count, width, context + f * width, ldc, pair + width, 2 * width * focus,
                     false);
    }
  } else {
    context_->multiply(count, query, ldq, scalar_pair_, b.scalars, 2 * width);
  }
  for (int f = 0; f < focus; ++f) {
    context_->multiply(count, b.scalars + static_cast<std::int64_t>(f) * 2 * width,
                       2 * width * focus, scalar_gate_[f], b.logit + f * width, width * focus);
  }
  if (options_.scalar_result) {
    kernels::GridMeanArgs<Real> mean;
    mean.count = items;
    mean.n_coefficients = coefficients();
    mean.width = shape_.width;
    mean.weight = mean_weight_;
    mean.left = b.left;
    mean.right = b.right;
    mean.out = b.product;
    context_->table->grid_mean(mean, stream);
  } else {
    if (shape_.n_branches > 1) {
      context_->multiply(items, b.scalars, 2 * width, router_, b.router_logit, router_.out);
      kernels::GridRouterArgs<Real> router;
      router.count = items;
      router.n_branches = shape_.n_branches;
      router.logit = b.router_logit;
      router.router = b.router;
      context_->table->grid_router(router, stream);
    }
    kernels::GridProductArgs<Real> product;
    product.count = items;
    product.shape = shape_;
    product.grid = grid_;
    product.left = b.left;
    product.right = b.right;
    product.router = b.router;
    product.out = b.product;
    product.work = b.work;
    context_->table->grid_product(product, stream);
  }
  if (has_out_projection_) {
    context_->multiply(items * result_coefficients(), b.product, shape_.width, out_projection_,
                       b.coefficient, width);
  }
  kernels::GridGateArgs<Real> gate;
  gate.count = items;
  gate.n_coefficients = result_coefficients();
  gate.width = width;
  gate.coefficient = b.coefficient;
  gate.logit = b.logit;
  gate.scalars = b.scalars;
  gate.y = b.gated;
  context_->table->grid_gate(gate, stream);

  const int result_rows = options_.scalar_result ? 1 : rows();
  const std::int64_t row = result_[0].in;
  for (int f = 0; f < focus; ++f) {
    context_->multiply_degrees(count, b.gated + static_cast<std::int64_t>(f) * result_rows * row,
                               static_cast<std::int64_t>(focus) * result_rows * row, row,
                               result_[f], out + f * options_.out, ldo,
                               static_cast<std::int64_t>(focus) * options_.out, true);
  }
}

template <class Real>
void GridNet<Real>::backward(int count, const Real* grad_out, std::int64_t ldo, Real* grad_query,
                             std::int64_t ldq, Real* grad_context, std::int64_t ldc,
                             bool accumulate, const Buffers& b) const {
  const int focus = options_.n_focus, width = options_.width, items = count * focus;
  const kernels::Stream stream = context_->stream();
  const int result_rows = options_.scalar_result ? 1 : rows();
  const std::int64_t row = result_[0].in;
  for (int f = 0; f < focus; ++f) {
    context_->multiply_degrees_transposed(
        count, grad_out + f * options_.out, ldo, static_cast<std::int64_t>(focus) * options_.out,
        result_[f], b.gated + static_cast<std::int64_t>(f) * result_rows * row,
        static_cast<std::int64_t>(focus) * result_rows * row, row);
  }
  kernels::GridGateBackwardArgs<Real> gate;
  gate.count = items;
  gate.n_coefficients = result_coefficients();
  gate.width = width;
  gate.coefficient = b.coefficient;
  gate.logit = b.logit;
  gate.scalars = b.scalars;
  gate.grad_y = b.gated;
  gate.grad_coefficient = b.gated;
  gate.grad_logit = b.grad_logit;
  gate.grad_scalars = b.grad_scalars;
  context_->table->grid_gate_backward(gate, stream);
  for (int f = 0; f < focus; ++f) {
    context_->multiply_transposed(count, b.grad_logit + f * width, width * focus, scalar_gate_[f],
                                  b.grad_scalars + static_cast<std::int64_t>(f) * 2 * width,
                                  2 * width * focus, true);
  }
  Real* grad_product = b.gated;
  if (has_out_projection_) {
    context_->multiply_transposed(items * result_coefficients(), b.gated, width, out_projection_,
                                  b.product, shape_.width);
    grad_product = b.product;
  }
  if (options_.scalar_result) {
    kernels::GridMeanBackwardArgs<Real> mean;
    mean.count = items;
    mean.n_coefficients = coefficients();
    mean.width = shape_.width;
    mean.weight = mean_weight_;
    mean.left = b.left;
    mean.right = b.right;
    mean.grad_out = grad_product;
    mean.grad_left = b.grad_left;
    mean.grad_right = b.grad_right;
    context_->table->grid_mean_backward(mean, stream);
  } else {
    kernels::GridProductBackwardArgs<Real> product;
    product.count = items;
    product.shape = shape_;
    product.grid = grid_;
    product.left = b.left;
    product.right = b.right;
    product.router = b.router;
    product.grad_out = grad_product;
    product.grad_left = b.grad_left;
    product.grad_right = b.grad_right;
    product.grad_router = b.grad_router;
    product.work = b.work;
    context_->table->grid_product_backward(product, stream);
    if (shape_.n_branches > 1) {
      kernels::GridRouterBackwardArgs<Real> router;
      router.count = items;
      router.n_branches = shape_.n_branches;
      router.router = b.router;
      router.grad_router = b.grad_router;
      router.grad_logit = b.router_logit;
      context_->table->grid_router_backward(router, stream);
      context_->multiply_transposed(items, b.router_logit, router_.out, router_, b.grad_scalars,
                                    2 * width, true);
    }
  }
  factor_backward(count, b.grad_left, left_, grad_query, ldq, accumulate);
  factor_backward(count, b.grad_right, right_, grad_context, ldc, !cross_ || accumulate);
  if (cross_) {
    for (int f = 0; f < focus; ++f) {
      const Real* pair = b.grad_scalars + static_cast<std::int64_t>(f) * 2 * width;
      context_->rows(count, width, pair, 2 * width * focus, grad_query + f * width, ldq, true);
      context_->rows(count, width, pair + width, 2 * width * focus, grad_context + f * width, ldc,
                     true);
    }
  } else {
    context_->multiply_transposed(count, b.grad_scalars, 2 * width, scalar_pair_, grad_query, ldq,
                                  true);
  }
}

template class GridNet<float>;
template class GridNet<double>;

}  // namespace dpa4::native
