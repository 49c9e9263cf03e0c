// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/api/attention_logits.h"
#include "kernels/api/common.h"
#include "kernels/api/edge_condition.h"
#include "kernels/api/edge_force.h"
#include "kernels/api/edge_geometry.h"
#include "kernels/api/edge_lists.h"
#include "kernels/api/energy_head.h"
#include "kernels/api/env_seed_sum.h"
#include "kernels/api/film.h"
#include "kernels/api/focus_weights.h"
#include "kernels/api/gemm.h"
#include "kernels/api/glu.h"
#include "kernels/api/grid_gate.h"
#include "kernels/api/grid_product.h"
#include "kernels/api/head_gate.h"
#include "kernels/api/message_weight.h"
#include "kernels/api/node_degree.h"
#include "kernels/api/pair_bias.h"
#include "kernels/api/rms_norm_silu.h"
#include "kernels/api/rotate_back_sum.h"
#include "kernels/api/rotate_mix.h"
#include "kernels/api/rows.h"
#include "kernels/api/scalar_norm.h"
#include "kernels/api/so2_stack.h"
#include "kernels/api/so3_norm.h"
#include "kernels/api/source_gate.h"
#include "kernels/api/wigner_rows.h"
#include "kernels/api/zbl_pair.h"
#include "kernels/api/zonal_sum.h"

namespace dpa4::kernels {

/// The machine an engine runs on: memory, streams and how work is spread over it.
class Machine {
 public:
  virtual ~Machine() = default;

  virtual std::string name() const = 0;
  /// What beside the name may change how fast operations are: the driver's version.
  virtual std::string driver() const { return ""; }
  /// True if pointers of `allocate` may be read and written by the host.
  virtual bool host_memory() const = 0;
  /// Bytes that can still be allocated.
  virtual std::int64_t free_bytes() const = 0;
  /// Bytes that operations hold beside what `allocate` returned: weights in other forms, made at
  /// their first use.
  virtual std::int64_t extra_bytes() const { return 0; }

  /// From here on the calling thread works with this machine: first call of any work.
  virtual void enter() {}

  /// Memory for `bytes` bytes, aligned to 256; throws InputError when there is not enough.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;

  virtual Stream stream() = 0;
  virtual void upload(void* to, const void* from_host, std::size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::size_t bytes) = 0;  // waits
  virtual void zero(void* memory, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  /// A time stamp [s] of when the work issued so far is done, for profiles: `mark` issues number
  /// `i`, `mark_time` waits and reads it. Only differences mean something.
  virtual void mark(int /*i*/) {}
  virtual double mark_time(int /*i*/) { return 0; }

  /// Recording, where `records()`: work issued after `begin_recording` is noted instead of done,
  /// and `replay` issues all of it in one go, as often as wanted, from the same addresses with what
  /// they hold by then. `end_recording` returns false, and nothing can be replayed, if something
  /// was issued that cannot be recorded. There is one recording; a new one takes its place.
  virtual bool records() const { return false; }
  virtual void begin_recording() {}
  virtual bool end_recording() { return false; }
  virtual void replay() {}

  /// Lanes work on different cohorts at the same time, each in buffers of its own. A machine that
  /// is parallel inside its operations has one.
  virtual int lanes() const = 0;
  /// How many items of `bytes` bytes of buffers (edges, nodes) a cohort should have here, at most
  /// `limit`: as many as stay in the caches of a lane, or as many as fill the machine.
  virtual int preferred_count(std::int64_t bytes, int limit) const = 0;

  /// Runs task(context, lane, i) for i = 0..n-1, 0 <= lane < lanes(), each i once, calls of one
  /// lane one after another. Returns when all have been issued. An exception of a task is rethrown.
  using Task = void (*)(void* context, int lane, int i);
  virtual void for_each(int n, Task task, void* context) = 0;
};

/// The operations of a backend for one precision. One entry an operation; contracts in the headers.
template <class Real>
struct KernelTable {
  /// Elements of workspace for each edge, and for each item of a grid product.
  std::int64_t (*so2_stack_work)(const MessageShape&) = nullptr;
  std::int64_t (*grid_product_work)(const GridShape&) = nullptr;
  /// Elements of workspace for a number of edges; more if a backward call follows.
  std::int64_t (*edge_condition_work)(const EdgeConditionNet<Real>&, int count,
                                      bool backward) = nullptr;

  void (*cut_nodes)(const CutNodesArgs<Real>&, Stream) = nullptr;
  void (*pad_edges)(const PadEdgesArgs<Real>&, Stream) = nullptr;
  void (*kept_rows)(const KeptRowsArgs<Real>&, Stream) = nullptr;

  void (*gemm)(const GemmArgs<Real>&, Stream) = nullptr;

  void (*edge_geometry)(const EdgeGeometryArgs<Real>&, Stream) = nullptr;
  void (*edge_geometry_backward)(const EdgeGeometryBackwardArgs<Real>&, Stream) = nullptr;
  void (*wigner_rows)(const WignerRowsArgs<Real>&, Stream) = nullptr;
  void (*rms_norm_silu)(const RmsNormSiluArgs<Real>&, Stream) = nullptr;
  void (*rms_norm_silu_backward)(const RmsNormSiluBackwardArgs<Real>&, Stream) = nullptr;
  void (*pair_bias)(const PairBiasArgs<Real>&, Stream) = nullptr;
  void (*pair_bias_backward)(const PairBiasBackwardArgs<Real>&, Stream) = nullptr;
  void (*edge_condition)(const EdgeConditionArgs<Real>&, Stream) = nullptr;
  void (*edge_condition_backward)(const EdgeConditionBackwardArgs<Real>&, Stream) = nullptr;

  void (*node_degree)(const NodeDegreeArgs<Real>&, Stream) = nullptr;
  void (*node_degree_backward)(const NodeDegreeBackwardArgs<Real>&, Stream) = nullptr;
  void (*edge_degree_backward)(const EdgeDegreeBackwardArgs<Real>&, Stream) = nullptr;
  void (*source_gate_partial)(const SourceGatePartialArgs<Real>&, Stream) = nullptr;
  void (*source_gate)(const SourceGateArgs<Real>&, Stream) = nullptr;
  void (*source_gate_sum)(const SourceGateSumArgs<Real>&, Stream) = nullptr;
  void (*source_gate_backward)(const SourceGateBackwardArgs<Real>&, Stream) = nullptr;
  void (*env_seed_sum)(const EnvSeedSumArgs<Real>&, Stream) = nullptr;
  void (*env_seed_sum_backward)(const EnvSeedSumBackwardArgs<Real>&, Stream) = nullptr;
  void (*zonal_sum)(const ZonalSumArgs<Real>&, Stream) = nullptr;
  void (*zonal_sum_backward)(const ZonalSumBackwardArgs<Real>&, Stream) = nullptr;
  void (*film_gram)(const FilmGramArgs<Real>&, Stream) = nullptr;
  void (*film_gram_backward)(const FilmGramBackwardArgs<Real>&, Stream) = nullptr;
  void (*film_apply)(const FilmApplyArgs<Real>&, Stream) = nullptr;
  void (*film_apply_backward)(const FilmApplyBackwardArgs<Real>&, Stream) = nullptr;

  void (*so3_norm)(const So3NormArgs<Real>&, Stream) = nullptr;
  void (*so3_norm_backward)(const So3NormBackwardArgs<Real>&, Stream) = nullptr;
  void (*scalar_norm)(const ScalarNormArgs<Real>&, Stream) = nullptr;
  void (*scalar_norm_backward)(const ScalarNormBackwardArgs<Real>&, Stream) = nullptr;

  void (*attention_logits)(const AttentionLogitsArgs<Real>&, Stream) = nullptr;
  void (*attention_lse)(const AttentionLseArgs<Real>&, Stream) = nullptr;
  void (*message_weight)(const MessageWeightArgs<Real>&, Stream) = nullptr;
  void (*message_weight_backward)(const MessageWeightBackwardArgs<Real>&, Stream) = nullptr;
  void (*query_gradient)(const QueryGradientArgs<Real>&, Stream) = nullptr;
  void (*rotate_mix)(const RotateMixArgs<Real>&, Stream) = nullptr;
  void (*rotate_mix_backward)(const RotateMixBackwardArgs<Real>&, Stream) = nullptr;
  void (*focus_weights)(const FocusWeightsArgs<Real>&, Stream) = nullptr;
  void (*focus_weights_backward)(const FocusWeightsBackwardArgs<Real>&, Stream) = nullptr;
  void (*so2_stack)(const So2StackArgs<Real>&, Stream) = nullptr;
  void (*so2_stack_backward)(const So2StackBackwardArgs<Real>&, Stream) = nullptr;
  void (*rotate_back_sum)(const RotateBackSumArgs<Real>&, Stream) = nullptr;
  void (*rotate_back_sum_backward)(const RotateBackSumBackwardArgs<Real>&, Stream) = nullptr;
  void (*head_gate)(const HeadGateArgs<Real>&, Stream) = nullptr;
  void (*head_gate_backward)(const HeadGateBackwardArgs<Real>&, Stream) = nullptr;

  void (*grid_product)(const GridProductArgs<Real>&, Stream) = nullptr;
  void (*grid_product_backward)(const GridProductBackwardArgs<Real>&, Stream) = nullptr;
  void (*grid_router)(const GridRouterArgs<Real>&, Stream) = nullptr;
  void (*grid_router_backward)(const GridRouterBackwardArgs<Real>&, Stream) = nullptr;
  void (*grid_mean)(const GridMeanArgs<Real>&, Stream) = nullptr;
  void (*grid_mean_backward)(const GridMeanBackwardArgs<Real>&, Stream) = nullptr;
  void (*grid_gate)(const GridGateArgs<Real>&, Stream) = nullptr;
  void (*grid_gate_backward)(const GridGateBackwardArgs<Real>&, Stream) = nullptr;
  void (*glu)(const GluArgs<Real>&, Stream) = nullptr;
  void (*glu_backward)(const GluBackwardArgs<Real>&, Stream) = nullptr;
  void (*rows)(const RowsArgs<Real>&, Stream) = nullptr;
  void (*type_rows)(const TypeRowsArgs<Real>&, Stream) = nullptr;

  void (*energy_head)(const EnergyHeadArgs<Real>&, Stream) = nullptr;
  void (*zbl_pair)(const ZblPairArgs<Real>&, Stream) = nullptr;
  void (*edge_force)(const EdgeForceArgs<Real>&, Stream) = nullptr;
};

}  // namespace dpa4::kernels
