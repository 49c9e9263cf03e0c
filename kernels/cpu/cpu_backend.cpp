// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernels/cpu/cpu_backend.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>

#include "src/base/error.h"

namespace dpa4::cpu {

#define DPA4_CPU_DECLARE(isa)                           \
  namespace isa {                                       \
  void fill_table(kernels::KernelTable<float>& table);  \
  void fill_table(kernels::KernelTable<double>& table); \
  }
#ifdef DPA4_CPU_HAS_base
DPA4_CPU_DECLARE(base)
#endif
#ifdef DPA4_CPU_HAS_avx2
DPA4_CPU_DECLARE(avx2)
#endif
#ifdef DPA4_CPU_HAS_avx512
DPA4_CPU_DECLARE(avx512)
#endif
#undef DPA4_CPU_DECLARE

namespace {

/// One compiled copy of the kernels.
struct InstructionSet {
  std::string name;
  bool usable;
  void (*fill_float)(kernels::KernelTable<float>&);
  void (*fill_double)(kernels::KernelTable<double>&);

  void fill(kernels::KernelTable<float>& table) const { fill_float(table); }
  void fill(kernels::KernelTable<double>& table) const { fill_double(table); }
};

/// The copies of this build, best first.
std::vector<InstructionSet> compiled_sets() {
  std::vector<InstructionSet> sets;
#ifdef DPA4_CPU_HAS_avx512
  sets.push_back({"avx512",
                  __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"),
                  avx512::fill_table, avx512::fill_table});
#endif
#ifdef DPA4_CPU_HAS_avx2
  sets.push_back({"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                  avx2::fill_table, avx2::fill_table});
#endif
#ifdef DPA4_CPU_HAS_base
  sets.push_back({"base", true, base::fill_table, base::fill_table});
#endif
  return sets;
}

std::vector<InstructionSet> usable_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet& set : compiled_sets()) {
    if (set.usable) sets.push_back(set);
  }
  if (sets.empty()) {
    throw InputError("this processor lacks the instructions that the kernels were compiled for");
  }
  return sets;
}

class CpuMachine final : public kernels::Machine {
 public:
  std::string name() const override { return usable_sets().front().name; }
  bool host_memory() const override { return true; }

  /// What the kernel could give without swapping: file caches count as free.
  std::int64_t free_bytes() const override {
    std::ifstream meminfo("/proc/meminfo");
    std::string key, unit;
    std::int64_t kilobytes = 0;
    while (meminfo >> key >> kilobytes) {
      if (key == "MemAvailable:") return 1024 * kilobytes;
      std::getline(meminfo, unit);
    }
    return static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  }

  void* allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 256;
    void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
    if (memory == nullptr) {
      throw InputError("out of memory: the model needs " + std::to_string(bytes) +
                       " more bytes; use a smaller system or more ranks");
    }
    return memory;
  }
  void release(void* memory) override { std::free(memory); }

  kernels::Stream stream() override { return nullptr; }
  void upload(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void zero(void* memory, std::size_t bytes) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  void synchronize() override {}

  int lanes() const override { return std::max(1, omp_get_max_threads()); }

  int preferred_count(std::int64_t bytes, int limit) const override {
    // Buffers of a cohort should stay in a core's second-level cache, beside the weights.
    constexpr std::int64_t kCacheBytes = 768 * 1024;
    constexpr std::int64_t kFewest = 16, kMost = 256;
    const std::int64_t count = kCacheBytes / std::max<std::int64_t>(bytes, 1);
    return static_cast<int>(std::min<std::int64_t>(limit, std::clamp(count, kFewest, kMost)));
  }

  void for_each(int n, Task task, void* context) override {
    std::exception_ptr error;
#pragma omp parallel for schedule(dynamic, 1) num_threads(std::min(lanes(), std::max(n, 1)))
    for (int i = 0; i < n; ++i) {
      try {
        task(context, omp_get_thread_num(), i);
      } catch (...) {
#pragma omp critical(dpa4_cpu_machine_error)
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  }
};

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const InstructionSet& set : usable_sets()) names.push_back(set.name);
  return names;
}

template <class Real>
const kernels::KernelTable<Real>& table(const std::string& instruction_set) {
  static const std::vector<InstructionSet> sets = usable_sets();
  static const std::vector<kernels::KernelTable<Real>> tables = [] {
    std::vector<kernels::KernelTable<Real>> all(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) sets[i].fill(all[i]);
    return all;
  }();
  if (instruction_set.empty()) return tables.front();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].name == instruction_set) return tables[i];
  }
  throw InputError("instruction set '" + instruction_set + "' is not available here");
}

template const kernels::KernelTable<float>& table<float>(const std::string&);
template const kernels::KernelTable<double>& table<double>(const std::string&);

std::unique_ptr<kernels::Machine> make_machine() { return std::make_unique<CpuMachine>(); }

}  // namespace dpa4::cpu
