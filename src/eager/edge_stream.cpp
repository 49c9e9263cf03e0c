// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/edge_stream.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "src/base/error.h"

namespace dpa4::eager {
namespace {

at::Tensor wrap(TensorView<const int, 1> view, at::Device device) {
  return at::from_blob(const_cast<int*>(view.data()), {view.extent(0)},
                       at::TensorOptions().dtype(at::kInt))
      .to(device);
}

template <class Real>
void add_rows_cpu(Real* target, const int* index, const Real* rows, int64_t n_rows, int64_t width) {
  // Threads share out the columns, so that every sum runs in the order of the rows.
  at::parallel_for(0, width, std::max<int64_t>(16, 32768 / std::max<int64_t>(n_rows, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t e = 0; e < n_rows; ++e) {
                       Real* to = target + index[e] * width;
                       const Real* from = rows + e * width;
                       for (int64_t c = begin; c < end; ++c) to[c] += from[c];
                     }
                   });
}

}  // namespace

void add_rows(at::Tensor& target, const at::Tensor& index, const at::Tensor& rows) {
  if (index.size(0) == 0) return;
  if (target.is_cuda()) {
    // The accumulating form sorts by index: deterministic, unlike index_add_.
    target.index_put_({index.to(at::kLong)}, rows, /*accumulate=*/true);
    return;
  }
  DPA4_EXPECTS(target.is_contiguous() && index.scalar_type() == at::kInt);
  const at::Tensor packed = rows.contiguous();
  const int64_t width = packed.numel() / index.size(0);
  if (target.scalar_type() == at::kFloat) {
    add_rows_cpu(target.data_ptr<float>(), index.data_ptr<int>(), packed.data_ptr<float>(),
                 index.size(0), width);
  } else {
    add_rows_cpu(target.data_ptr<double>(), index.data_ptr<int>(), packed.data_ptr<double>(),
                 index.size(0), width);
  }
}

EdgeStream::EdgeStream(const model::Structure& structure, int64_t cohort, at::TensorOptions options)
    : n_owned_(structure.edges.n_owned),
      n_nodes_(structure.edges.n_nodes),
      n_edges_(structure.edges.n_edges()),
      cohort_(cohort) {
  DPA4_EXPECTS(cohort >= 1);
  DPA4_EXPECTS(structure.type.extent(0) == n_nodes_);
  const at::Device device = options.device();
  src_ = wrap(structure.edges.src, device);
  dst_ = wrap(structure.edges.dst, device);
  type_ = wrap(structure.type, device).to(at::kLong);
  vec_ = at::from_blob(const_cast<double*>(structure.edges.vec.data()), {n_edges_, 3},
                       at::TensorOptions().dtype(at::kDouble))
             .to(device);
  grad_vec_ = at::zeros({n_edges_, 3}, vec_.options());
}

Cohort EdgeStream::cohort(int64_t begin, const std::vector<EdgeInput>& inputs,
                          bool as_leaves) const {
  const RowRange range{begin, end_of(begin)};
  Cohort c;
  c.src = range.of(src_);
  c.dst = range.of(dst_);
  c.src_type = type_.index_select(0, c.src);
  c.dst_type = type_.index_select(0, c.dst);
  c.vec = as_leaves ? make_leaf(range.of(vec_)) : range.of(vec_);
  for (const EdgeInput& input : inputs) {
    at::Tensor rows = input.table->value.index_select(0, input.side == Side::kSrc ? c.src : c.dst);
    c.gathered.push_back(as_leaves ? make_leaf(rows) : rows);
  }
  return c;
}

void EdgeStream::add_gradients(int64_t begin, const Cohort& cohort,
                               const std::vector<EdgeInput>& inputs,
                               const std::vector<at::Tensor>& outputs,
                               const std::vector<at::Tensor>& grads) {
  std::vector<at::Tensor> leaves{cohort.vec};
  leaves.insert(leaves.end(), cohort.gathered.begin(), cohort.gathered.end());
  const std::vector<at::Tensor> results = vector_jacobian(outputs, leaves, grads);
  const at::NoGradGuard no_grad;
  if (results[0].defined()) RowRange{begin, end_of(begin)}.of(grad_vec_).add_(results[0]);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!results[i + 1].defined()) continue;
    add_rows(inputs[i].table->mutable_grad(),
             inputs[i].side == Side::kSrc ? cohort.src : cohort.dst, results[i + 1]);
  }
}

Var EdgeStream::sum(Tape& tape, const std::vector<EdgeInput>& inputs, Side to, int64_t n_rows,
                    EdgeFunction function) {
  Var output;
  {
    const at::NoGradGuard no_grad;
    int64_t begin = 0;
    do {  // at least once: a rank without edges gets a table of the right shape
      const Cohort c = cohort(begin, inputs, /*as_leaves=*/false);
      const at::Tensor terms = function(c);
      if (!output) {
        std::vector<int64_t> shape = terms.sizes().vec();
        shape[0] = n_rows;
        output = make_var(at::zeros(shape, terms.options()));
      }
      add_rows(output->value, to == Side::kSrc ? c.src : c.dst, terms);
      begin = end_of(begin);
    } while (begin < n_edges_);
  }
  tape.record([this, inputs, to, output, function = std::move(function)] {
    if (!output->grad.defined()) return;
    for (int64_t begin = 0; begin < n_edges_; begin = end_of(begin)) {
      const at::AutoGradMode with_grad(true);
      const Cohort c = cohort(begin, inputs, /*as_leaves=*/true);
      const at::Tensor terms = function(c);
      add_gradients(begin, c, inputs, {terms},
                    {output->grad.index_select(0, to == Side::kSrc ? c.src : c.dst)});
    }
    output->grad.reset();
  });
  return output;
}

Var EdgeStream::attention(Tape& tape, const std::vector<EdgeInput>& inputs,
                          const at::Tensor& log_null, MessageFunction function) {
  // ln of the normalizer, accumulated over cohorts with a running maximum that starts at the null
  // mass.
  at::Tensor log_sum;  // (n_owned, f, h)
  Var output;
  {
    const at::NoGradGuard no_grad;
    at::Tensor maximum = log_null.unsqueeze(0).expand({n_owned_, -1, -1}).contiguous();
    at::Tensor mass = at::ones_like(maximum);
    for (int64_t begin = 0; begin < n_edges_; begin = end_of(begin)) {
      const Cohort c = cohort(begin, inputs, /*as_leaves=*/false);
      const at::Tensor logit = function(c, /*with_value=*/false).logit;
      const at::Tensor index = c.dst.to(at::kLong).reshape({-1, 1, 1}).expand_as(logit);
      const at::Tensor raised = at::scatter_reduce(maximum, 0, index, logit, "amax");
      mass.mul_(at::exp(maximum - raised));
      maximum = raised;
      add_rows(mass, c.dst, at::exp(logit - maximum.index_select(0, c.dst)));
    }
    log_sum = maximum + at::log(mass);

    int64_t begin = 0;
    do {
      const Cohort c = cohort(begin, inputs, /*as_leaves=*/false);
      const Message message = function(c, /*with_value=*/true);
      const at::Tensor alpha = at::exp(message.logit - log_sum.index_select(0, c.dst));
      const at::Tensor terms = message.value * alpha.unsqueeze(1).unsqueeze(-1);
      if (!output) {
        std::vector<int64_t> shape = terms.sizes().vec();
        shape[0] = n_owned_;
        output = make_var(at::zeros(shape, terms.options()));
      }
      add_rows(output->value, c.dst, terms);
      begin = end_of(begin);
    } while (begin < n_edges_);
  }
  tape.record([this, inputs, output, log_sum, function = std::move(function)] {
    if (!output->grad.defined()) return;
    // sum over a destination's edges of alpha dE/dalpha, known before any edge is visited
    const at::Tensor total = (output->grad * output->value).sum({1, -1});  // (n_owned, f, h)
    for (int64_t begin = 0; begin < n_edges_; begin = end_of(begin)) {
      const at::AutoGradMode with_grad(true);
      const Cohort c = cohort(begin, inputs, /*as_leaves=*/true);
      const Message message = function(c, /*with_value=*/true);
      const at::Tensor alpha = at::exp(message.logit - log_sum.index_select(0, c.dst));
      const at::Tensor terms = message.value * alpha.unsqueeze(1).unsqueeze(-1);
      // The normalizer was held constant in `terms`; its own derivative enters through the logits.
      const at::Tensor grad_logit = -total.index_select(0, c.dst) * alpha.detach();
      add_gradients(begin, c, inputs, {terms, message.logit},
                    {output->grad.index_select(0, c.dst), grad_logit});
    }
    output->grad.reset();
  });
  return output;
}

}  // namespace dpa4::eager
