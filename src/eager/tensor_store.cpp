// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/eager/tensor_store.h"

#include "src/base/error.h"

namespace dpa4::eager {
namespace {

at::Tensor to_tensor(const model::HostTensor& host) {
  const at::ScalarType types[] = {at::kFloat, at::kDouble, at::kLong};
  return at::from_blob(const_cast<void*>(host.data()), host.shape(),
                       at::TensorOptions().dtype(types[static_cast<int>(host.dtype())]));
}

}  // namespace

TensorStore::TensorStore(const model::Weights& weights, at::TensorOptions options)
    : options_(options) {
  auto tensors = std::make_shared<std::map<std::string, at::Tensor>>();
  for (const auto& [name, host] : weights.all()) {
    (*tensors)[name] = to_tensor(host).to(options, /*non_blocking=*/false, /*copy=*/true);
  }
  tensors_ = tensors;
}

TensorStore TensorStore::scope(const std::string& name) const {
  TensorStore inner = *this;
  inner.prefix_ = prefix_ + name + ".";
  return inner;
}

const at::Tensor& TensorStore::operator()(const std::string& name) const {
  const auto found = tensors_->find(prefix_ + name);
  if (found == tensors_->end()) {
    throw InternalError("dpa4 internal error: no weight '" + prefix_ + name + "'");
  }
  return found->second;
}

int64_t TensorStore::bytes() const {
  int64_t total = 0;
  for (const auto& [name, tensor] : *tensors_) total += tensor.nbytes();
  return total;
}

at::Tensor constant(const std::vector<double>& values, at::IntArrayRef shape,
                    at::TensorOptions options) {
  return at::from_blob(const_cast<double*>(values.data()), shape,
                       at::TensorOptions().dtype(at::kDouble))
      .to(options, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor index_tensor(const std::vector<int>& values, at::TensorOptions options) {
  return at::from_blob(const_cast<int*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::TensorOptions().dtype(at::kInt))
      .to(options.dtype(at::kLong), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace dpa4::eager
