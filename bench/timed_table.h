// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <atomic>
#include <ctime>
#include <string>
#include <vector>

#include "kernels/api/kernel_table.h"

namespace dpa4::bench {

/// Processor time spent in one operation, all threads together.
struct OperationTime {
  std::string name;
  double seconds = 0;
  long long calls = 0;
};

/// A copy of a table of operations that counts calls and time. One copy a precision and program.
template <class Real>
class TimedTable {
 public:
  /// `finish` waits for the work of a call, where that does not happen inside it.
  explicit TimedTable(const kernels::KernelTable<Real>& original,
                      void (*finish)(kernels::Stream) = nullptr)
      : table_(original) {
    finish_ = finish;
#define DPA4_BENCH_TIME(operation) time<&kernels::KernelTable<Real>::operation>(#operation)
    DPA4_BENCH_TIME(gemm);
    DPA4_BENCH_TIME(edge_geometry);
    DPA4_BENCH_TIME(edge_geometry_backward);
    DPA4_BENCH_TIME(wigner_rows);
    DPA4_BENCH_TIME(rms_norm_silu);
    DPA4_BENCH_TIME(rms_norm_silu_backward);
    DPA4_BENCH_TIME(pair_bias);
    DPA4_BENCH_TIME(pair_bias_backward);
    DPA4_BENCH_TIME(node_degree);
    DPA4_BENCH_TIME(node_degree_backward);
    DPA4_BENCH_TIME(edge_degree_backward);
    DPA4_BENCH_TIME(source_gate_partial);
    DPA4_BENCH_TIME(source_gate);
    DPA4_BENCH_TIME(source_gate_sum);
    DPA4_BENCH_TIME(source_gate_backward);
    DPA4_BENCH_TIME(env_seed_sum);
    DPA4_BENCH_TIME(env_seed_sum_backward);
    DPA4_BENCH_TIME(zonal_sum);
    DPA4_BENCH_TIME(zonal_sum_backward);
    DPA4_BENCH_TIME(film_gram);
    DPA4_BENCH_TIME(film_gram_backward);
    DPA4_BENCH_TIME(film_apply);
    DPA4_BENCH_TIME(film_apply_backward);
    DPA4_BENCH_TIME(so3_norm);
    DPA4_BENCH_TIME(so3_norm_backward);
    DPA4_BENCH_TIME(scalar_norm);
    DPA4_BENCH_TIME(scalar_norm_backward);
    DPA4_BENCH_TIME(attention_logits);
    DPA4_BENCH_TIME(attention_lse);
    DPA4_BENCH_TIME(message_weight);
    DPA4_BENCH_TIME(message_weight_backward);
    DPA4_BENCH_TIME(query_gradient);
    DPA4_BENCH_TIME(rotate_mix);
    DPA4_BENCH_TIME(rotate_mix_backward);
    DPA4_BENCH_TIME(focus_weights);
    DPA4_BENCH_TIME(focus_weights_backward);
    DPA4_BENCH_TIME(so2_stack);
    DPA4_BENCH_TIME(so2_stack_backward);
    DPA4_BENCH_TIME(rotate_back_sum);
    DPA4_BENCH_TIME(rotate_back_sum_backward);
    DPA4_BENCH_TIME(head_gate);
    DPA4_BENCH_TIME(head_gate_backward);
    DPA4_BENCH_TIME(grid_product);
    DPA4_BENCH_TIME(grid_product_backward);
    DPA4_BENCH_TIME(grid_router);
    DPA4_BENCH_TIME(grid_router_backward);
    DPA4_BENCH_TIME(grid_mean);
    DPA4_BENCH_TIME(grid_mean_backward);
    DPA4_BENCH_TIME(grid_gate);
    DPA4_BENCH_TIME(grid_gate_backward);
    DPA4_BENCH_TIME(glu);
    DPA4_BENCH_TIME(glu_backward);
    DPA4_BENCH_TIME(rows);
    DPA4_BENCH_TIME(type_rows);
    DPA4_BENCH_TIME(energy_head);
    DPA4_BENCH_TIME(zbl_pair);
    DPA4_BENCH_TIME(edge_force);
#undef DPA4_BENCH_TIME
  }

  const kernels::KernelTable<Real>& table() const { return table_; }

  void reset() {
    for (Counter* counter : counters_) counter->nanoseconds = counter->calls = 0;
  }
  std::vector<OperationTime> times() const {
    std::vector<OperationTime> result;
    for (const Counter* counter : counters_) {
      result.push_back({counter->name, 1e-9 * static_cast<double>(counter->nanoseconds.load()),
                        counter->calls.load()});
    }
    return result;
  }

 private:
  struct Counter {
    std::string name;
    std::atomic<long long> nanoseconds{0}, calls{0};
  };

  template <auto kMember, class Args>
  struct Timed {
    static inline void (*original)(const Args&, kernels::Stream) = nullptr;
    static inline Counter counter;

    static void call(const Args& args, kernels::Stream stream) {
      const long long start = thread_nanoseconds();
      original(args, stream);
      counter.nanoseconds += thread_nanoseconds() - start;
      ++counter.calls;
    }
  };

  /// Processor time of this thread: other programs do not count.
  static long long thread_nanoseconds() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1000000000LL * time.tv_sec + time.tv_nsec;
  }

  template <auto kMember>
  void time(const char* name) {
    replace<kMember>(table_.*kMember, name);
  }
  template <auto kMember, class Args>
  void replace(void (*&entry)(const Args&, kernels::Stream), const char* name) {
    using Wrapper = Timed<kMember, Args>;
    Wrapper::original = entry;
    Wrapper::counter.name = name;
    counters_.push_back(&Wrapper::counter);
    entry = Wrapper::call;
  }

  static inline void (*finish_)(kernels::Stream) = nullptr;
  kernels::KernelTable<Real> table_;
  std::vector<Counter*> counters_;
};

}  // namespace dpa4::bench
