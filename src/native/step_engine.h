// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/model/evaluator.h"
#include "src/native/backends.h"
#include "src/native/energy_readout.h"
#include "src/native/initial_state.h"
#include "src/native/message.h"
#include "src/native/node_update.h"
#include "src/native/step_arrays.h"
#include "src/native/timed_table.h"

namespace dpa4::native {

/// The plan of a step on one machine in one precision: which stage runs on which cohort in which
/// buffers. It does no arithmetic; see doc of the stages for what they compute.
///
/// Forward, block by block: features of all nodes, messages of the destinations (cohorts of whole
/// destinations), update of the owned nodes. Backward in reverse, with cohorts of whole sources.
/// Between the two only block inputs, aggregated messages and attention normalisers of nodes are
/// kept, and the mixing stacks of as many edges as the memory budget allows; everything else is
/// made again.
template <class Real>
class StepEngine final : public model::Evaluator {
 public:
  StepEngine(const model::ModelConfig& config, const model::Weights& weights,
             const model::EvaluatorOptions& options, Backend<Real> backend);

  void evaluate(const model::Structure& structure, const model::Conditions& conditions,
                model::HaloExchange& halo, model::Request request,
                model::Evaluation& result) override;
  bool works_on_device() const override { return true; }
  bool takes_padding() const override { return true; }
  std::string description() const override;
  model::MemoryPlan memory_plan() const override;
  std::vector<model::OperationTime> take_profile() override;

 private:
  struct Block {
    Message<Real> message;
    NodeUpdate<Real> update;
  };

  /// Called with (lane's buffers, index of the part): parts of one kind of work.
  using Work = std::function<void(Arena<Real>, int)>;

  void make_conditions(const model::Conditions& conditions);
  HostMatrix type_features(int type, const std::array<double, 2>& charge_spin) const;
  void set_type_features(const HostMatrix& features);
  void evaluate_structure(const model::Structure& structure, model::HaloExchange& halo,
                          model::Request request, model::Evaluation& result);
  void issue_step(model::HaloExchange& halo);
  void run_step(model::HaloExchange& halo);
  void choose_padding(const graph::EdgeList& edges, bool alone);
  void take_arrays(const model::Structure& structure);
  void prepare_step(const model::Structure& structure, model::HaloExchange& halo);
  void plan_buffers();
  void warm_up();
  void forget_arrays();
  void release();
  void reserve(const StepCounts& counts);
  std::int64_t room_bytes(const model::MemoryPlan& plan) const;
  void refuse_what_does_not_fit(const StepCounts& counts, const model::MemoryPlan& plan,
                                std::int64_t room) const;
  void choose_kept_edges();
  std::int64_t kept_bytes_per_edge() const;
  void cut(Cohorts& cohorts, const TensorView<const int, 1>& begin, int n_nodes, bool on_device);
  template <class T>
  const T* mirror(T* copy, const T* array, std::int64_t count);
  void mark_kept_rows();
  void make_initial_state(model::HaloExchange& halo);
  void make_gate(model::HaloExchange& halo);
  void make_features(std::size_t block);
  void run_messages(std::size_t block);
  void finish_forward();
  void block_backward(std::size_t block, model::HaloExchange& halo);
  void initial_backward(model::HaloExchange& halo);
  void gate_backward(model::HaloExchange& halo);
  void sum_forces();
  std::size_t result_count() const;
  void collect_results(model::HaloExchange& halo, model::Request request,
                       model::Evaluation& result);
  void keep_results(model::HaloExchange& halo, model::Request request, model::Evaluation& result);
  void remove_vacuum(const HostMatrix& features);

  void for_groups(const Cohorts& cohorts, const Work& work);
  void for_chunks(int n_nodes, const std::function<void(Arena<Real>, int first, int count)>& work);
  void run(int n, const Work& work);

  MessageNodes<Real> message_nodes(std::size_t block) const;
  KeptStacks<Real> kept_stacks(std::size_t block) const;
  NodeRange<Real> node_range(std::size_t block, int first, int count) const;
  InitialNodes<Real> initial_nodes() const;
  std::int64_t row(std::size_t block) const;  // elements of a node in the input of a block
  Real* input(std::size_t block) const;
  void exchange(model::HaloExchange& halo, bool forward, void* rows, int width, bool doubles) const;
  std::int64_t lane_size(int edges, int nodes) const;

  model::ModelConfig config_;
  model::EvaluatorOptions options_;
  Backend<Real> backend_;
  std::int64_t free_when_opened_ = 0;  // bytes, before anything was taken
  std::unique_ptr<TimedTable<Real>> timed_;
  EngineContext<Real> context_;
  WeightStore<Real> store_;
  RadialNet<Real> radial_;
  InitialState<Real> initial_;
  std::vector<std::unique_ptr<Block>> blocks_;
  EnergyReadout<Real> readout_;
  HostMatrix type_embedding_;  // (types, C)
  HostMatrix charge_table_, spin_table_, charge_spin_mix_;
  std::vector<double> charge_spin_bias_;
  std::vector<double> atomic_number_;
  const double* atomic_number_table_ = nullptr;
  const int* zbl_included_ = nullptr;
  bool conditions_made_ = false;
  model::Conditions conditions_;

  ArraySizes sizes_;
  int cohort_ = 0;                  // edges
  int chunk_ = 0;                   // nodes
  std::int64_t kept_limit_ = 0;     // bytes of kept pre-activations where the user gives no budget
  std::int64_t free_at_start_ = 0;  // bytes, weights and tables already taken
  std::int64_t overhead_ = 0;       // bytes the machine holds for us beside what we allocated

  // The current step.
  StepEdges step_;
  const Real* step_aparam_ = nullptr;  // (n_owned, n_aparam)
  int* step_kept_row_ = nullptr;       // (E)
  Cohorts by_dst_, by_src_;
  std::int64_t kept_edges_ = 0;

  StepCounts reserved_;  // what the arrays are made for
  Memory<char> array_memory_;
  StepArrays<Real> arrays_;
  std::vector<Memory<Real>> lanes_;
  Memory<Real> kept_;
  Memory<int> kept_row_;  // by edge: place in the order by source, or -1
  Memory<int> cuts_;      // of nodes whose edges are on the device
  std::vector<Real> host_aparam_;
  std::vector<double> host_results_;
  int padding_ = 0;  // edges of the step that belong to no node

  /// What the work of a step depends on beside the contents of the arrays.
  struct Recipe {
    StepEdges step;
    std::vector<Cohort> by_dst, by_src;
    std::int64_t kept_edges = 0;
    const void* kept = nullptr;
    const void* kept_row = nullptr;
    const void* arrays = nullptr;
    const void* lane = nullptr;
    int conditions = 0;

    bool operator==(const Recipe&) const = default;
  };
  Recipe recipe() const;
  Recipe last_recipe_;
  bool recorded_ = false;      // the machine can replay last_recipe_
  bool can_record_ = true;     // until it turned out otherwise
  int conditions_number_ = 0;  // counts the changes of conditions
};

}  // namespace dpa4::native
