// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace dpa4::base {
namespace {

// Around the widths that tiles and the serial limit have; 0 is a rank without atoms.
constexpr int kSizes[] = {0, 1, 2, 31, 32, 33, 511, 512, 513, 4097, 100003};

/// Sets the number of threads for one scope.
class ThreadCount {
 public:
  explicit ThreadCount(int n) : before_(omp_get_max_threads()) { omp_set_num_threads(n); }
  ~ThreadCount() { omp_set_num_threads(before_); }

 private:
  int before_;
};

std::vector<int> random_ints(int n, int below, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<int> values(n);
  for (int& value : values) value = static_cast<int>(engine() % below);
  return values;
}

class OnThreads : public testing::TestWithParam<int> {
 protected:
  ThreadCount threads_{GetParam()};
  Threads space_;
};

TEST_P(OnThreads, LoopVisitsEveryElementOnce) {
  for (const int n : kSizes) {
    std::vector<int> visits(n, 0);
    int* const out = visits.data();
    parallel_for(space_, "visit", n, [out](std::int64_t i) { ++out[i]; });
    EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), n) << n;
  }
}

TEST_P(OnThreads, ScanMatchesTheDefinition) {
  for (const int n : kSizes) {
    std::vector<int> counts = random_ints(n, 5, n);
    std::vector<int> expected(n + 1, 0);
    std::partial_sum(counts.begin(), counts.end(), expected.begin() + 1);
    counts.push_back(-12345);  // the total is output only
    exclusive_scan(space_, "scan", n, counts.data());
    EXPECT_EQ(counts, expected) << n;
  }
}

TEST_P(OnThreads, ScanInSixtyFourBitsGoesBeyondInt) {
  std::vector<std::int64_t> counts(5001, 1000000);
  exclusive_scan(space_, "scan", 5000, counts.data());
  EXPECT_EQ(counts[0], 0);
  EXPECT_EQ(counts[4999], std::int64_t{4999000000});
  EXPECT_EQ(counts[5000], std::int64_t{5000000000});
}

/// A scan whose counts are computed: place() sees what came before, once for every number.
struct Thirds {
  using Count = std::int64_t;
  std::int64_t* before;
  std::atomic<int>* calls;
  Count count(std::int64_t i) const { return i % 3; }
  void place(std::int64_t i, Count sum) const {
    before[i] = sum;
    ++calls[i];
  }
};

TEST_P(OnThreads, ScanOfComputedCountsPlacesEveryNumberOnce) {
  for (const int n : {0, 1, 511, 512, 513, 5000}) {
    std::vector<std::int64_t> before(n + 1, -1);
    std::vector<std::atomic<int>> calls(n + 1);
    scan_each(space_, "scan", n, Thirds{before.data(), calls.data()});
    std::int64_t sum = 0;
    for (int i = 0; i <= n; ++i) {
      EXPECT_EQ(before[i], sum) << i;
      EXPECT_EQ(calls[i], 1) << i;
      sum += i % 3;
    }
  }
}

struct ByValue {
  const int* value;
  bool operator()(int a, int b) const {
    if (value[a] != value[b]) return value[a] < value[b];
    return a < b;
  }
};

TEST_P(OnThreads, MergeSortGivesTheOrderOfAnyNumberOfAnyValues) {
  std::mt19937 engine(3);
  for (const int n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 100, 4099}) {
    // All alike, few different ones, all different, sorted already: what is sorted are numbers.
    for (const int n_values : {1, 3, n + 1}) {
      std::vector<int> value(n), numbers(n), scratch(n);
      for (int& v : value) v = static_cast<int>(engine() % n_values);
      std::iota(numbers.begin(), numbers.end(), 0);
      std::vector<int> expected = numbers;
      std::sort(expected.begin(), expected.end(), ByValue{value.data()});
      std::shuffle(numbers.begin(), numbers.end(), engine);
      merge_sort(space_, "sort", n, numbers.data(), scratch.data(), ByValue{value.data()});
      EXPECT_EQ(numbers, expected) << n << " of " << n_values;
      merge_sort(space_, "sort", n, numbers.data(), scratch.data(), ByValue{value.data()});
      EXPECT_EQ(numbers, expected) << n << " sorted ones";
    }
  }
}

TEST_P(OnThreads, GroupingIsAStableSort) {
  for (const int n : kSizes) {
    for (const int n_keys : {1, 7, 1000}) {
      const std::vector<int> keys = random_ints(n, n_keys, n + n_keys);
      std::vector<int> begin(n_keys + 1, -1), members(n, -1), cursor(n_keys);
      group_by_key(space_, "group", n, keys.data(), n_keys, begin.data(), members.data(),
                   cursor.data());

      std::vector<int> expected(n);
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(),
                       [&keys](int a, int b) { return keys[a] < keys[b]; });
      EXPECT_EQ(members, expected) << n << " elements, " << n_keys << " keys";
      for (int key = 0; key <= n_keys; ++key) {
        EXPECT_EQ(begin[key],
                  std::count_if(keys.begin(), keys.end(), [key](int k) { return k < key; }));
        if (n_keys == 1000 && key > 20) break;  // the counting above is quadratic
      }
    }
  }
}

TEST_P(OnThreads, GroupingWithoutKeysIsEmpty) {
  int begin = -1;
  group_by_key(space_, "group", 0, nullptr, 0, &begin, nullptr, nullptr);
  EXPECT_EQ(begin, 0);
}

INSTANTIATE_TEST_SUITE_P(, OnThreads, testing::Values(1, 2, 5),
                         [](const auto& info) { return std::to_string(info.param) + "_threads"; });

TEST(SortAscending, SortsAnyOrder) {
  for (const int n : {0, 1, 2, 3, 31, 32, 33, 1000}) {
    std::vector<int> values = random_ints(n, 1 + n / 2, n);  // with repeated values
    std::vector<int> expected = values;
    std::sort(expected.begin(), expected.end());
    detail::sort_ascending(values.data(), n);
    EXPECT_EQ(values, expected) << n;
    std::reverse(values.begin(), values.end());
    detail::sort_ascending(values.data(), n);
    EXPECT_EQ(values, expected) << n << " reversed";
  }
}

TEST(Buffer, GrowsAndThenStopsAllocating) {
  Buffer<double, Threads> buffer;
  EXPECT_EQ(buffer.bytes(), 0);
  double* const first = buffer.reserve(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  const std::int64_t bytes = buffer.bytes();
  EXPECT_GE(bytes, 8000);
  EXPECT_LE(bytes, 10000) << "room to grow must stay small";
  EXPECT_EQ(buffer.reserve(10), first);
  EXPECT_EQ(buffer.reserve(1000), first);
  EXPECT_EQ(buffer.bytes(), bytes);
  buffer.reserve(2000);
  EXPECT_GE(buffer.bytes(), 16000);
}

TEST(Buffer, MovesItsMemory) {
  Buffer<int, Threads> buffer;
  int* const data = buffer.reserve(4);
  data[3] = 7;
  Buffer<int, Threads> other = std::move(buffer);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(read_element(Threads{}, other.data() + 3), 7);
}

}  // namespace
}  // namespace dpa4::base
