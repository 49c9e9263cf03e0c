// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/api/kernel_table.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"

/// One problem, solved by several backends and precisions and compared.
namespace dpa4::test {

/// Numbers of a problem, the same for every backend.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::vector<double> normal(std::int64_t n, double scale = 1, double mean = 0) {
    std::normal_distribution<double> values(mean, scale);
    std::vector<double> out(static_cast<std::size_t>(n));
    // Rounded to float, so that float and double get the same problem.
    for (double& v : out) v = static_cast<double>(static_cast<float>(values(engine_)));
    return out;
  }
  std::vector<double> uniform(std::int64_t n, double low, double high) {
    std::uniform_real_distribution<double> values(low, high);
    std::vector<double> out(static_cast<std::size_t>(n));
    for (double& v : out) v = static_cast<double>(static_cast<float>(values(engine_)));
    return out;
  }
  std::vector<int> integers(std::int64_t n, int end) {
    std::uniform_int_distribution<int> values(0, end - 1);
    std::vector<int> out(static_cast<std::size_t>(n));
    for (int& v : out) v = values(engine_);
    return out;
  }

 private:
  std::mt19937 engine_;
};

using Results = std::map<std::string, std::vector<double>>;

/// The transposed matrices of a batch, (batch, rows, columns).
inline std::vector<double> transpose(const std::vector<double>& x, int batch, int rows,
                                     int columns) {
  std::vector<double> y(x.size());
  const auto size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  for (std::size_t f = 0; f < static_cast<std::size_t>(batch); ++f) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
      for (std::size_t j = 0; j < static_cast<std::size_t>(columns); ++j) {
        y[f * size + j * static_cast<std::size_t>(rows) + i] =
            x[f * size + i * static_cast<std::size_t>(columns) + j];
      }
    }
  }
  return y;
}

/// The arrays of one run in the memory of a machine. Outputs start as NaN and are followed by a
/// margin that nobody may touch.
template <class Real_>
class Run {
 public:
  using Real = Real_;

  Run(kernels::Machine& machine, const kernels::KernelTable<Real>& table)
      : machine_(machine), table_(table) {}
  ~Run() {
    for (void* memory : owned_) machine_.release(memory);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const kernels::KernelTable<Real>& table() const { return table_; }
  kernels::Stream stream() { return machine_.stream(); }

  const Real* in(const std::vector<double>& values) { return input(convert<Real>(values)); }
  const double* in_double(const std::vector<double>& values) { return input(values); }
  const int* in(const std::vector<int>& values) { return input(values); }

  /// An array that must be written completely.
  Real* out(const std::string& name, std::int64_t size) {
    return output(name, std::vector<Real>(static_cast<std::size_t>(size), kPoison<Real>));
  }
  double* out_double(const std::string& name, std::int64_t size) {
    return output(name, std::vector<double>(static_cast<std::size_t>(size), kPoison<double>));
  }
  int* out_int(const std::string& name, std::int64_t size) {
    return output(name, std::vector<int>(static_cast<std::size_t>(size), -98765));
  }
  /// An array that is added to or partly written.
  Real* inout(const std::string& name, const std::vector<double>& values) {
    return output(name, convert<Real>(values));
  }
  double* inout_double(const std::string& name, const std::vector<double>& values) {
    return output(name, values);
  }
  /// Scratch, poisoned.
  Real* work(std::int64_t size) {
    const std::vector<Real> poison(static_cast<std::size_t>(size), kPoison<Real>);
    return upload(poison);
  }

  /// All outputs; fails the test where an input or a margin has changed.
  Results results() {
    machine_.synchronize();
    for (const auto& check : checks_) check();
    Results all;
    for (const auto& read : reads_) read(all);
    return all;
  }

 private:
  static constexpr std::size_t kMargin = 64;
  template <class T>
  static constexpr T kPoison = std::numeric_limits<T>::quiet_NaN();

  template <class T>
  static std::vector<T> convert(const std::vector<double>& values) {
    return std::vector<T>(values.begin(), values.end());
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    T* memory =
        static_cast<T*>(machine_.allocate(std::max<std::size_t>(values.size(), 1) * sizeof(T)));
    owned_.push_back(memory);
    machine_.upload(memory, values.data(), values.size() * sizeof(T));
    machine_.synchronize();
    return memory;
  }
  template <class T>
  std::vector<T> download(const T* memory, std::size_t size) {
    std::vector<T> values(size);
    machine_.download(values.data(), memory, size * sizeof(T));
    return values;
  }

  template <class T>
  const T* input(const std::vector<T>& values) {
    T* memory = upload(values);
    checks_.push_back([this, memory, values] {
      EXPECT_EQ(download(memory, values.size()), values) << "an input was written";
    });
    return memory;
  }

  template <class T>
  T* output(const std::string& name, std::vector<T> values) {
    const std::size_t size = values.size();
    values.resize(size + kMargin, T(-12345));
    T* memory = upload(values);
    reads_.push_back([this, name, memory, size](Results& all) {
      const std::vector<T> now = download(memory, size + kMargin);
      for (std::size_t i = size; i < now.size(); ++i) {
        ASSERT_EQ(now[i], T(-12345)) << name << " was written beyond its end";
      }
      all[name] = std::vector<double>(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(size));
    });
    return memory;
  }

  kernels::Machine& machine_;
  const kernels::KernelTable<Real>& table_;
  std::vector<void*> owned_;
  std::vector<std::function<void()>> checks_;
  std::vector<std::function<void(Results&)>> reads_;
};

/// Largest difference, relative to the largest expected number; infinite where one is not a number
/// and the other is.
inline double relative_error(const std::vector<double>& value, const std::vector<double>& exact) {
  if (value.size() != exact.size()) return std::numeric_limits<double>::infinity();
  double scale = 0, error = 0;
  for (double x : exact) {
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
  }
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(exact[i])) {
      if (!(value[i] == exact[i])) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double difference = std::abs(value[i] - exact[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    error = std::max(error, difference);
  }
  return scale > 0 ? error / scale : error;
}

/// Device 0, one for the whole program; null where there is none.
inline kernels::Machine* device() {
  static const std::unique_ptr<kernels::Machine> machine =
      cuda::device_count() > 0 ? cuda::make_machine(0) : nullptr;
  return machine.get();
}

#define DPA4_NEEDS_DEVICE()                                                   \
  if (::dpa4::test::device() == nullptr) {                                    \
    GTEST_SKIP() << "no CUDA device: " << ::dpa4::cuda::unavailable_reason(); \
  }                                                                           \
  static_assert(true)

template <class Real, class Problem>
Results solve(kernels::Machine& machine, const kernels::KernelTable<Real>& table,
              const Problem& problem) {
  Run<Real> run(machine, table);
  problem(run);
  return run.results();
}

/// Runs problem(run) on the processor and on the device. Double must agree to rounding: sums of a
/// few thousand terms in another order, 1e-12 of the largest number. Float may be at most twice as
/// far from the double result as the processor's float, and 32 roundings of the largest number: a
/// single result, or one of a few, may be right by luck on the processor.
template <class Problem>
void expect_same_as_cpu(const Problem& problem) {
  const std::unique_ptr<kernels::Machine> host = cpu::make_machine();
  const Results exact = solve<double>(*host, cpu::table<double>(), problem);
  const Results plain = solve<float>(*host, cpu::table<float>(), problem);
  const Results device_double = solve<double>(*device(), cuda::table<double>(), problem);
  const Results device_float = solve<float>(*device(), cuda::table<float>(), problem);
  ASSERT_FALSE(exact.empty());
  for (const auto& [name, values] : exact) {
    EXPECT_LE(relative_error(device_double.at(name), values), 1e-12) << name << ", double";
    const double allowed =
        2 * relative_error(plain.at(name), values) + 32 * std::numeric_limits<float>::epsilon();
    EXPECT_LE(relative_error(device_float.at(name), values), allowed) << name << ", float";
  }
  // The same input gives the same bits.
  const Results again = solve<float>(*device(), cuda::table<float>(), problem);
  for (const auto& [name, values] : device_float) {
    EXPECT_TRUE(std::equal(values.begin(), values.end(), again.at(name).begin(),
                           [](double a, double b) { return a == b || (a != a && b != b); }))
        << name << " differs between two runs";
  }
}

/// Random edges among a few nodes, the last node without any, in both orders.
struct Graph {
  int n_owned = 0, n_nodes = 0, n_edges = 0;
  std::vector<int> src, dst, dst_begin, by_src, src_begin;
  std::vector<double> vec;  // 0.5 to 6.5 Angstrom long

  Graph(int owned, int nodes, int edges, unsigned seed)
      : n_owned(owned), n_nodes(nodes), n_edges(edges) {
    Random random(seed);
    src = random.integers(edges, nodes > 1 ? nodes - 1 : 1);
    dst = random.integers(edges, owned > 1 ? owned - 1 : 1);
    std::sort(dst.begin(), dst.end());
    dst_begin = begins(dst, owned);
    by_src.resize(static_cast<std::size_t>(edges));
    for (int e = 0; e < edges; ++e) by_src[static_cast<std::size_t>(e)] = e;
    std::stable_sort(by_src.begin(), by_src.end(), [&](int a, int b) {
      return src[static_cast<std::size_t>(a)] < src[static_cast<std::size_t>(b)];
    });
    std::vector<int> sorted;
    for (int e : by_src) sorted.push_back(src[static_cast<std::size_t>(e)]);
    src_begin = begins(sorted, nodes);
    const std::vector<double> direction = random.normal(3 * static_cast<std::int64_t>(edges));
    const std::vector<double> length = random.uniform(edges, 0.5, 6.5);
    vec.resize(direction.size());
    for (std::size_t e = 0; e < length.size(); ++e) {
      const double* d = &direction[3 * e];
      const double norm = std::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) + 1e-12;
      for (std::size_t a = 0; a < 3; ++a) vec[3 * e + a] = d[a] / norm * length[e];
    }
  }

  static std::vector<int> begins(const std::vector<int>& sorted, int n) {
    std::vector<int> begin(static_cast<std::size_t>(n) + 1, 0);
    for (int key : sorted) ++begin[static_cast<std::size_t>(key) + 1];
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    return begin;
  }

  /// Positions [first, first + count) of the order by destination or by source.
  template <class R>
  kernels::EdgeSlice slice(R& run, bool sources, int first, int count) const {
    kernels::EdgeSlice edges;
    edges.first = first;
    edges.count = count;
    edges.order = sources ? run.in(by_src) : nullptr;
    edges.src = run.in(src);
    edges.dst = run.in(dst);
    edges.begin = run.in(sources ? src_begin : dst_begin);
    const auto node_of = [&](int position) {
      const auto at = static_cast<std::size_t>(position);
      return sources ? src[static_cast<std::size_t>(by_src[at])] : dst[at];
    };
    edges.node_first = count > 0 ? node_of(first) : 0;
    edges.node_count = count > 0 ? node_of(first + count - 1) - edges.node_first + 1 : 0;
    return edges;
  }
};

/// A part of the edges of a graph: all, or a piece that cuts nodes in two.
struct Part {
  int first, count;
  static std::vector<Part> of(int n_edges) {
    std::vector<Part> parts{{0, n_edges}};
    if (n_edges > 3) parts.push_back({n_edges / 3, n_edges / 2});
    return parts;
  }
};

/// Sizes that break tiles, warps and blocks.
inline const std::vector<int>& awkward_counts() {
  static const std::vector<int> counts{0, 1, 31, 32, 33, 4097};
  return counts;
}

/// Graph of n_edges edges whose nodes have some tens of them.
inline Graph graph_of(int n_edges, unsigned seed) {
  return n_edges > 100 ? Graph(61, 75, n_edges, seed) : Graph(7, 9, n_edges, seed);
}

}  // namespace dpa4::test
