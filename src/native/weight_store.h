// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "src/model/weights.h"
#include "src/native/host_matrix.h"
#include "src/native/memory.h"

namespace dpa4::native {

/// Reads a model's weights and owns their copies in the machine's memory, rounded to Real.
template <class Real>
class WeightStore {
 public:
  WeightStore(const model::Weights& weights, kernels::Machine& machine)
      : weights_(&weights), machine_(&machine) {}

  const model::Weights& weights() const { return *weights_; }
  HostMatrix matrix(const std::string& name) const { return matrix_of(*weights_, name); }
  std::vector<double> list(const std::string& name) const { return list_of(*weights_, name); }
  bool contains(const std::string& name) const { return weights_->contains(name); }

  template <class T = Real>
  const T* upload(const std::vector<double>& values) {
    const std::vector<T> rounded(values.begin(), values.end());
    return upload_as_is(rounded);
  }
  template <class T>
  const T* upload_as_is(const std::vector<T>& values) {
    Memory<char> memory(*machine_);
    char* to = memory.reserve(static_cast<std::int64_t>(values.size() * sizeof(T)) + 1);
    machine_->upload(to, values.data(), values.size() * sizeof(T));
    owned_.push_back(std::move(memory));
    return reinterpret_cast<const T*>(to);
  }
  const Real* upload(const HostMatrix& matrix) { return upload(matrix.v); }

  /// Overwrites what `upload` returned with as many new values.
  template <class T>
  void replace(const T* uploaded, const std::vector<double>& values) {
    const std::vector<T> rounded(values.begin(), values.end());
    machine_->upload(const_cast<T*>(uploaded), rounded.data(), rounded.size() * sizeof(T));
  }

  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const Memory<char>& memory : owned_) total += memory.bytes();
    return total;
  }

  /// Ends the use of the caller's weights.
  void forget_weights() { weights_ = nullptr; }

 private:
  const model::Weights* weights_;
  kernels::Machine* machine_;
  std::vector<Memory<char>> owned_;
};

/// A linear map and its transpose, both row-major.
template <class Real>
struct Linear {
  int in = 0;
  int out = 0;
  const Real* w = nullptr;   // (in, out)
  const Real* wt = nullptr;  // (out, in)
};

template <class Real>
Linear<Real> make_linear(WeightStore<Real>& store, const HostMatrix& matrix) {
  return {matrix.rows, matrix.cols, store.upload(matrix), store.upload(matrix.transposed())};
}

/// The linear maps of degrees 0..lmax.
template <class Real>
struct DegreeLinear {
  int lmax = 0;
  int in = 0;
  int out = 0;
  const Real* w = nullptr;   // (L + 1, in, out)
  const Real* wt = nullptr;  // (L + 1, out, in)
};

template <class Real>
DegreeLinear<Real> make_degree_linear(WeightStore<Real>& store,
                                      const std::vector<HostMatrix>& by_degree) {
  std::vector<double> w, wt;
  for (const HostMatrix& matrix : by_degree) {
    const HostMatrix transposed = matrix.transposed();
    w.insert(w.end(), matrix.v.begin(), matrix.v.end());
    wt.insert(wt.end(), transposed.v.begin(), transposed.v.end());
  }
  return {static_cast<int>(by_degree.size()) - 1, by_degree[0].rows, by_degree[0].cols,
          store.upload(w), store.upload(wt)};
}

/// The matrices of a weight of shape (L + 1, in, out).
inline std::vector<HostMatrix> by_degree(const HostMatrix& stacked, int lmax) {
  std::vector<HostMatrix> result;
  const int in = stacked.rows / (lmax + 1);
  for (int l = 0; l <= lmax; ++l) result.push_back(stacked.row_range(l * in, in));
  return result;
}

}  // namespace dpa4::native
