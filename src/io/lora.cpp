// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/lora.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/error.h"

namespace dpa4::io {

namespace {

/// Names of the two factors that adapt a weight.
struct Adapter {
  std::string a;
  std::string b;
  std::string scaling;
};

std::optional<Adapter> adapter_of(const std::string& weight) {
  const auto prefix = [&](std::string_view leaf) -> std::optional<std::string> {
    if (weight.size() <= leaf.size() || weight.substr(weight.size() - leaf.size()) != leaf)
      return {};
    return weight.substr(0, weight.size() - leaf.size());
  };
  if (const auto p = prefix("weight"))
    return Adapter{*p + "A_by_l", *p + "B_by_l", *p + "lora_scaling"};
  if (const auto p = prefix("weight_m0"))
    return Adapter{*p + "A_m0", *p + "B_m0", *p + "lora_scaling"};
  const std::size_t order = weight.rfind("weight_m.");
  if (order == std::string::npos) return {};
  const std::string p = weight.substr(0, order);
  const std::string k = weight.substr(order + 9);
  return Adapter{p + "A_m." + k, p + "B_m." + k, p + "lora_scaling"};
}

double load_scaling(const StateDict& state, TensorLoader& loader, const std::string& name) {
  const StateDict::Entry* entry = state.find(name);
  if (entry == nullptr) return 1.0;
  const std::vector<double> values = loader.load(*entry, loader.shape_of(*entry)).to<double>();
  if (values.size() != 1)
    throw InputError(loader.path() + ": " + entry->key + " is not one number");
  return values.front();
}

/// w[level, i, o] += scaling * sum_r a[level, r, i] b[level, o, r]
void add_product(std::vector<double>& w, const std::vector<double>& a, const std::vector<double>& b,
                 std::size_t levels, std::size_t in, std::size_t out, std::size_t rank,
                 double scaling) {
  for (std::size_t level = 0; level < levels; ++level) {
    for (std::size_t r = 0; r < rank; ++r) {
      for (std::size_t i = 0; i < in; ++i) {
        const double left = scaling * a[(level * rank + r) * in + i];
        double* row = &w[(level * in + i) * out];
        for (std::size_t o = 0; o < out; ++o) row[o] += left * b[(level * out + o) * rank + r];
      }
    }
  }
}

model::HostTensor in_type_of(const model::HostTensor& original, const std::vector<double>& values) {
  if (original.dtype() == model::Dtype::kFloat64)
    return model::HostTensor::from(values, original.shape());
  const std::vector<float> rounded(values.begin(), values.end());
  return model::HostTensor::from(rounded, original.shape());
}

}  // namespace

bool is_lora(const std::string& name) {
  const std::string leaf = name.substr(name.rfind('.') + 1);
  if (leaf == "A_by_l" || leaf == "B_by_l" || leaf == "A_m0" || leaf == "B_m0" ||
      leaf == "lora_scaling") {
    return true;
  }
  return name.find(".A_m.") != std::string::npos || name.find(".B_m.") != std::string::npos;
}

bool fold_lora(const StateDict& state, TensorLoader& loader,
               const std::vector<model::WeightSpec>& schema, model::Weights& weights) {
  bool folded = false;
  for (const model::WeightSpec& spec : schema) {
    const std::optional<Adapter> adapter = adapter_of(spec.name);
    const StateDict::Entry* a_entry = adapter ? state.find(adapter->a) : nullptr;
    if (a_entry == nullptr) continue;
    const StateDict::Entry* b_entry = state.find(adapter->b);
    if (b_entry == nullptr) {
      throw InputError(loader.path() + ": " + a_entry->key + " has no counterpart '" + adapter->b +
                       "'");
    }
    const bool by_degree = spec.shape.size() == 3;
    const std::vector<std::int64_t> a_shape = loader.shape_of(*a_entry);
    const std::int64_t rank = a_shape.size() == spec.shape.size() ? a_shape[by_degree ? 1 : 0] : 0;
    const std::int64_t levels = by_degree ? spec.shape[0] : 1;
    const std::int64_t in = spec.shape[by_degree ? 1 : 0];
    const std::int64_t out = spec.shape[by_degree ? 2 : 1];
    using Shape = std::vector<std::int64_t>;
    const auto a = loader.load(*a_entry, by_degree ? Shape{levels, rank, in} : Shape{rank, in});
    const auto b = loader.load(*b_entry, by_degree ? Shape{levels, out, rank} : Shape{out, rank});

    const model::HostTensor& base = weights.at(spec.name);
    std::vector<double> sum = base.to<double>();
    add_product(sum, a.to<double>(), b.to<double>(), static_cast<std::size_t>(levels),
                static_cast<std::size_t>(in), static_cast<std::size_t>(out),
                static_cast<std::size_t>(rank), load_scaling(state, loader, adapter->scaling));
    weights.set(spec.name, in_type_of(base, sum));
    folded = true;
  }
  return folded;
}

}  // namespace dpa4::io
