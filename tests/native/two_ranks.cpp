// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/native/two_ranks.h"

#include <barrier>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

namespace dpa4::native::testing {
namespace {

/// One rank's part of a structure.
struct Part {
  int n_owned = 0;
  std::vector<int> copies;  // row of each copy in the other rank
  std::vector<int> type, src, dst, dst_begin{0}, by_src, src_begin{0};
  std::vector<double> vec;

  model::Structure structure() const {
    const int n_nodes = n_owned + static_cast<int>(copies.size());
    const int n_edges = static_cast<int>(src.size());
    model::Structure result;
    result.type = {type.data(), n_nodes};
    result.edges.n_owned = n_owned;
    result.edges.n_nodes = n_nodes;
    result.edges.src = {src.data(), n_edges};
    result.edges.dst = {dst.data(), n_edges};
    result.edges.vec = {vec.data(), n_edges, 3};
    result.edges.dst_begin = {dst_begin.data(), n_owned + 1};
    result.edges.by_src = {by_src.data(), n_edges};
    result.edges.src_begin = {src_begin.data(), n_nodes + 1};
    return result;
  }
};

Part part_of(const model::Structure& whole, int first, int last) {
  Part part;
  part.n_owned = last - first;
  for (int i = first; i < last; ++i) part.type.push_back(whole.type(i));
  std::map<int, int> copy_of;
  for (int i = first; i < last; ++i) {
    for (int e = whole.edges.dst_begin(i); e < whole.edges.dst_begin(i + 1); ++e) {
      const int source = whole.edges.src(e);
      int row = source - first;
      if (source < first || source >= last) {
        const auto [found, is_new] =
            copy_of.try_emplace(source, part.n_owned + static_cast<int>(copy_of.size()));
        if (is_new) {
          part.copies.push_back(source < first ? source : source - last);
          part.type.push_back(whole.type(source));
        }
        row = found->second;
      }
      part.src.push_back(row);
      part.dst.push_back(i - first);
      for (int a = 0; a < 3; ++a) part.vec.push_back(whole.edges.vec(e, a));
    }
    part.dst_begin.push_back(static_cast<int>(part.src.size()));
  }
  const int n_nodes = part.n_owned + static_cast<int>(part.copies.size());
  for (int n = 0; n < n_nodes; ++n) {
    for (std::size_t e = 0; e < part.src.size(); ++e) {
      if (part.src[e] == n) part.by_src.push_back(static_cast<int>(e));
    }
    part.src_begin.push_back(static_cast<int>(part.by_src.size()));
  }
  return part;
}

/// What both ranks see.
struct Meeting {
  std::barrier<> barrier{2};
  model::NodeRows rows[2];
};

class ThreadHalo final : public model::HaloExchange {
 public:
  ThreadHalo(Meeting& meeting, int rank, const Part& mine, const Part& other)
      : meeting_(meeting), rank_(rank), mine_(mine), other_(other) {}

  bool active() const override { return true; }
  void reserve(int) override {}

  void forward(model::NodeRows rows) override {
    const model::NodeRows other = meet(rows);
    const std::size_t bytes = row_bytes(rows);
    for (std::size_t k = 0; k < mine_.copies.size(); ++k) {
      std::memcpy(row(rows, mine_.n_owned + static_cast<int>(k)), row(other, mine_.copies[k]),
                  bytes);
    }
    meeting_.barrier.arrive_and_wait();
  }

  void reverse(model::NodeRows rows) override {
    const model::NodeRows other = meet(rows);
    for (std::size_t k = 0; k < other_.copies.size(); ++k) {
      add(rows, other_.copies[k], other, other_.n_owned + static_cast<int>(k));
    }
    meeting_.barrier.arrive_and_wait();
    for (std::size_t k = 0; k < mine_.copies.size(); ++k) {
      std::memset(row(rows, mine_.n_owned + static_cast<int>(k)), 0, row_bytes(rows));
    }
    meeting_.barrier.arrive_and_wait();
  }

  bool any(bool condition) override { return condition; }

 private:
  static std::size_t element(const model::NodeRows& rows) {
    return rows.type == model::NodeRows::Type::kFloat32 ? sizeof(float) : sizeof(double);
  }
  static std::size_t row_bytes(const model::NodeRows& rows) {
    return static_cast<std::size_t>(rows.width) * element(rows);
  }
  static char* row(const model::NodeRows& rows, int n) {
    return static_cast<char*>(rows.data) + static_cast<std::size_t>(n) * row_bytes(rows);
  }
  template <class Real>
  static void add_as(void* to, const void* from, int width) {
    for (int c = 0; c < width; ++c) static_cast<Real*>(to)[c] += static_cast<const Real*>(from)[c];
  }
  static void add(const model::NodeRows& to, int n, const model::NodeRows& from, int m) {
    if (to.type == model::NodeRows::Type::kFloat32) {
      add_as<float>(row(to, n), row(from, m), to.width);
    } else {
      add_as<double>(row(to, n), row(from, m), to.width);
    }
  }
  /// The other rank's rows, once both are here.
  model::NodeRows meet(const model::NodeRows& rows) {
    meeting_.rows[rank_] = rows;
    meeting_.barrier.arrive_and_wait();
    return meeting_.rows[1 - rank_];
  }

  Meeting& meeting_;
  int rank_;
  const Part& mine_;
  const Part& other_;
};

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

model::Evaluation evaluate_on_two_ranks(model::Evaluator& first, model::Evaluator& second,
                                        const model::Structure& whole, int n_first) {
  const Part parts[2] = {part_of(whole, 0, n_first), part_of(whole, n_first, whole.edges.n_owned)};
  Meeting meeting;
  model::Evaluation results[2];
  const auto work = [&](int rank, model::Evaluator& evaluator) {
    ThreadHalo halo(meeting, rank, parts[rank], parts[1 - rank]);
    evaluator.evaluate(parts[rank].structure(), {}, halo, {true}, results[rank]);
  };
  std::thread other([&] { work(1, second); });
  work(0, first);
  other.join();
  model::Evaluation sum = results[0];
  sum.energy += results[1].energy;
  for (std::size_t k = 0; k < 9; ++k) sum.virial[k] += results[1].virial[k];
  append(sum.atom_energy, results[1].atom_energy);
  append(sum.force, results[1].force);
  append(sum.atom_virial, results[1].atom_virial);
  return sum;
}

}  // namespace dpa4::native::testing
