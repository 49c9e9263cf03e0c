// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dpa4::model {

enum class Dtype { kFloat32, kFloat64, kInt64 };

/// An immutable, row-major array in host memory. Several tensors may share one storage.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(Dtype dtype, std::vector<std::int64_t> shape, std::shared_ptr<const std::byte[]> data)
      : dtype_(dtype), shape_(std::move(shape)), data_(std::move(data)) {}

  Dtype dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const {
    std::int64_t product = 1;
    for (std::int64_t extent : shape_) product *= extent;
    return product;
  }
  const void* data() const { return data_.get(); }

  /// The elements converted to Real (float or double), row-major.
  template <class Real>
  std::vector<Real> to() const {
    std::vector<Real> values(static_cast<std::size_t>(size()));
    switch (dtype_) {
      case Dtype::kFloat32:
        copy(static_cast<const float*>(data()), values);
        break;
      case Dtype::kFloat64:
        copy(static_cast<const double*>(data()), values);
        break;
      case Dtype::kInt64:
        copy(static_cast<const std::int64_t*>(data()), values);
        break;
    }
    return values;
  }

  /// A float64 tensor that owns a copy of `values`.
  template <class Real>
  static HostTensor from(const std::vector<Real>& values, std::vector<std::int64_t> shape);

 private:
  template <class From, class Real>
  static void copy(const From* from, std::vector<Real>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<Real>(from[i]);
  }

  Dtype dtype_ = Dtype::kFloat64;
  std::vector<std::int64_t> shape_;
  std::shared_ptr<const std::byte[]> data_;
};

template <class Real>
HostTensor HostTensor::from(const std::vector<Real>& values, std::vector<std::int64_t> shape) {
  static_assert(sizeof(Real) == 4 || sizeof(Real) == 8, "float or double");
  std::shared_ptr<std::byte[]> data(new std::byte[values.size() * sizeof(Real)]);
  auto* out = reinterpret_cast<Real*>(data.get());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return HostTensor(sizeof(Real) == 4 ? Dtype::kFloat32 : Dtype::kFloat64, std::move(shape), data);
}

}  // namespace dpa4::model
