// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "src/eager/tape.h"
#include "src/model/evaluator.h"

namespace dpa4::eager {

/// Which end of an edge a node row belongs to.
enum class Side { kSrc, kDst };

struct EdgeInput {
  Var table;  // node rows; gathered for every edge of a cohort
  Side side;
};

/// A slice of at most `cohort` edges, with everything an edge function may read.
struct Cohort {
  at::Tensor src, dst;               // (e) int32
  at::Tensor src_type, dst_type;     // (e) int64
  at::Tensor exact_vec;              // (e, 3) float64, the differentiable leaf in the reverse pass
  at::Tensor vec;                    // (e, 3) in the compute type
  std::vector<at::Tensor> gathered;  // rows of the inputs, (e, ...)
};

/// target[index[e]] += rows[e] in the order of e; identical input gives identical bits.
void add_rows(at::Tensor& target, const at::Tensor& index, const at::Tensor& rows);

/// Streams the edges of one step through functions of an edge, one cohort at a time, forward and
/// reverse. Nothing of an edge outlives its cohort except dE/dvec, accumulated here.
class EdgeStream {
 public:
  EdgeStream(const model::Structure& structure, int64_t cohort, at::TensorOptions options);

  using EdgeFunction = std::function<at::Tensor(const Cohort&)>;

  /// out[node] = sum of function(e) over the edges whose `to` end is that node. (n_rows, ...)
  Var sum(Tape& tape, const std::vector<EdgeInput>& inputs, Side to, int64_t n_rows,
          EdgeFunction function);

  /// What one edge contributes to attention: `logit` (e, f, h) includes the logarithm of the edge's
  /// weight
  /// (-inf: no weight); `value` (e, d, f, h, i) is undefined unless asked for.
  struct Message {
    at::Tensor logit;
    at::Tensor value;
  };
  using MessageFunction = std::function<Message(const Cohort&, bool with_value)>;

  /// out[dst] = sum_e alpha_e value_e, alpha = exp(logit) / (exp(log_null) + sum_e exp(logit)).
  /// log_null: (f, h). Output (n_owned, d, f, h, i).
  Var attention(Tape& tape, const std::vector<EdgeInput>& inputs, const at::Tensor& log_null,
                MessageFunction function);

  int64_t n_owned() const { return n_owned_; }
  int64_t n_nodes() const { return n_nodes_; }
  const at::Tensor& node_type() const { return type_; }     // (n_nodes) int64
  const at::Tensor& grad_vec() const { return grad_vec_; }  // (E, 3) float64, dE/dvec

 private:
  /// In the reverse pass the cohort's vectors and gathered rows are leaves that collect gradients.
  Cohort cohort(int64_t begin, const std::vector<EdgeInput>& inputs, bool as_leaves) const;
  void add_gradients(int64_t begin, const Cohort& cohort, const std::vector<EdgeInput>& inputs,
                     const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& grads);
  int64_t end_of(int64_t begin) const { return std::min(begin + cohort_, n_edges_); }

  int64_t n_owned_, n_nodes_, n_edges_, cohort_;
  at::Tensor src_, dst_, vec_, type_;
  at::Tensor grad_vec_;
};

}  // namespace dpa4::eager
