// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/native/timed_table.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "kernels/api/operation_list.h"
#include "src/native/operation_work.h"

namespace dpa4::native {

namespace {

struct Counter {
  std::string name;
  std::atomic<long long> nanoseconds{0}, calls{0};
  std::atomic<double> flops{0}, bytes{0};
};

/// A call whose begin and end are marks of the machine, to be read when all is done.
struct Marked {
  Counter* counter;
  int begin;
};

/// The profile in use. On a machine with lanes (host memory) operations are timed where they run;
/// else by marks in the stream, so that nothing waits.
struct Profile {
  kernels::Machine* machine = nullptr;
  std::vector<Counter*> counters;
  std::vector<Marked> marked;
};

template <class Real>
Profile& profile() {
  static Profile current;
  return current;
}

/// Processor time of this thread: other programs do not count.
long long thread_nanoseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1000000000LL * time.tv_sec + time.tv_nsec;
}

template <class Real, auto kMember, class Args>
struct Timed {
  static inline void (*original)(const Args&, kernels::Stream) = nullptr;
  static inline Counter counter;

  static void call(const Args& args, kernels::Stream stream) {
    Profile& current = profile<Real>();
    const Work work = work_of(args);
    counter.flops += work.flops;
    counter.bytes += work.bytes;
    ++counter.calls;
    if (current.machine->host_memory()) {
      const long long start = thread_nanoseconds();
      original(args, stream);
      counter.nanoseconds += thread_nanoseconds() - start;
      return;
    }
    const int begin = 2 * static_cast<int>(current.marked.size());
    current.marked.push_back({&counter, begin});
    current.machine->mark(begin);
    original(args, stream);
    current.machine->mark(begin + 1);
  }
};

template <class Real, auto kMember, class Args>
void wrap(void (*&entry)(const Args&, kernels::Stream), const char* name) {
  using Wrapper = Timed<Real, kMember, Args>;
  Wrapper::original = entry;
  Wrapper::counter.name = name;
  profile<Real>().counters.push_back(&Wrapper::counter);
  entry = Wrapper::call;
}

void reset(Counter& counter) {
  counter.nanoseconds = counter.calls = 0;
  counter.flops = counter.bytes = 0;
}

}  // namespace

template <class Real>
TimedTable<Real>::TimedTable(const kernels::KernelTable<Real>& original, kernels::Machine& machine)
    : table_(original) {
  Profile& current = profile<Real>();
  current = {};
  current.machine = &machine;
#define DPA4_TIME(operation) \
  wrap<Real, &kernels::KernelTable<Real>::operation>(table_.operation, #operation);
  DPA4_FOR_EACH_OPERATION(DPA4_TIME)
#undef DPA4_TIME
  for (Counter* counter : current.counters) reset(*counter);
}

template <class Real>
TimedTable<Real>::~TimedTable() {
  profile<Real>() = {};
}

template <class Real>
std::vector<model::OperationTime> TimedTable<Real>::take() {
  Profile& current = profile<Real>();
  for (const Marked& call : current.marked) {
    const double seconds =
        current.machine->mark_time(call.begin + 1) - current.machine->mark_time(call.begin);
    call.counter->nanoseconds += static_cast<long long>(1e9 * seconds);
  }
  current.marked.clear();
  std::vector<model::OperationTime> result;
  for (Counter* counter : current.counters) {
    if (counter->calls > 0) {
      model::OperationTime time;
      time.name = counter->name;
      time.seconds = 1e-9 * static_cast<double>(counter->nanoseconds.load());
      time.calls = counter->calls;
      time.flops = counter->flops;
      time.bytes = counter->bytes;
      result.push_back(time);
    }
    reset(*counter);
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return result;
}

template class TimedTable<float>;
template class TimedTable<double>;

}  // namespace dpa4::native
