// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/state_dict.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/io/options.h"

namespace dpa4::io {

namespace {

using pickle::Kind;
using pickle::ScalarType;
__extension__ using Wide = __int128;

constexpr const char* kAtomicModel = "atomic_model.";

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Dialect detect_dialect(const pickle::Dict& dict, const std::string& prefix,
                       const std::string& path) {
  bool pt = false;
  bool pt_expt = false;
  for (const auto& [key, value] : dict.entries) {
    if (!key.is(Kind::kText) || !starts_with(key.text(), prefix)) continue;
    pt = pt || ends_with(key.text(), ".matrix");
    pt_expt = pt_expt || ends_with(key.text(), ".w");
  }
  if (pt && pt_expt) {
    throw InputError(path +
                     ": its weights are named in two ways (.matrix of dp --pt and .w of "
                     "dp --pt-expt); write the checkpoint with one of them");
  }
  if (!pt && !pt_expt) throw InputError(path + ": it holds no weights below '" + prefix + "'");
  return pt_expt ? Dialect::kPtExpt : Dialect::kPt;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (std::int64_t extent : shape) out += (out.empty() ? "" : ", ") + std::to_string(extent);
  return "(" + out + ")";
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormal numbers: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::shared_ptr<std::byte[]> allocate(std::uint64_t bytes) {
  return std::shared_ptr<std::byte[]>(
      new std::byte[static_cast<std::size_t>(std::max<std::uint64_t>(bytes, 1))]);
}

std::shared_ptr<std::byte[]> widen(const std::vector<std::byte>& raw, std::uint64_t count,
                                   float (*convert)(std::uint16_t)) {
  std::shared_ptr<std::byte[]> data = allocate(count * sizeof(float));
  auto* out = reinterpret_cast<float*>(data.get());
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, raw.data() + i * sizeof bits, sizeof bits);
    out[i] = convert(bits);
  }
  return data;
}

template <class Real>
std::uint64_t first_not_finite(const void* data, std::uint64_t count) {
  const auto* values = static_cast<const Real*>(data);
  return static_cast<std::uint64_t>(
      std::find_if_not(values, values + count, [](Real x) { return std::isfinite(x); }) - values);
}

bool is_contiguous(const pickle::Tensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.stride[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// Copies a strided array, whose first element is at `from`, into row-major order.
void gather(const pickle::Tensor& tensor, std::size_t element, const std::byte* from,
            std::byte* to) {
  const std::size_t rank = tensor.shape.size();
  std::vector<std::int64_t> index(rank, 0);
  std::int64_t at = 0;
  for (;;) {
    std::memcpy(to, from + static_cast<std::size_t>(at) * element, element);
    to += element;
    std::size_t axis = rank;
    while (axis-- > 0) {
      at += tensor.stride[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      at -= tensor.stride[axis] * tensor.shape[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (rank == 0) return;
  }
}

/// pt_expt keeps its fitting net under `nets`, once for each of three attributes that share it.
constexpr std::array<std::string_view, 3> kFittingNets = {"fitting_net.nets._module_networks.",
                                                          "fitting_net.nets.networks.",
                                                          "fitting_net.nets._networks."};

}  // namespace

std::string canonical_name(const std::string& local, Dialect dialect) {
  if (dialect == Dialect::kPt) return local;
  std::string name = local;
  for (std::string_view net : kFittingNets) {
    if (!starts_with(name, net)) continue;
    name = "fitting_net.filter_layers.networks." + name.substr(net.size());
    const std::size_t layers = name.find(".hidden_layers.");
    const std::size_t leaf = name.rfind('.');
    if (layers != std::string::npos) name.insert(leaf, ".linear");
    break;
  }
  if (ends_with(name, ".w")) return name.substr(0, name.size() - 1) + "matrix";
  if (ends_with(name, ".b")) return name.substr(0, name.size() - 1) + "bias";
  return name;
}

bool is_derived(const std::string& name) {
  // clang-format off
  constexpr std::array<std::string_view, 30> kLeaves = {
      "expand_index", "balance_weight", "m0_idx", "pos_indices", "neg_indices",
      "kernel_compact_index", "kernel_dense_index", "coeff_index_m", "degree_index_m",
      "degree_index_full", "degree_index", "rotate_inv_rescale_full", "to_grid_mat",
      "from_grid_mat", "frame_values", "version_tensor", "mean", "stddev", "graph_lower_disabled",
      "type_mask", "out_std", "dens_force_rmsd", "min_nbor_dist", "_min_nbor_dist",
      "default_fparam_tensor", "_empty_tensor", "right_mult_proj", "basis", "pi_tensor",
      "gaussian_coeff"};
  // clang-format on
  // The spin modules of a model without active spin contribute nothing.
  constexpr std::array<std::string_view, 8> kModules = {
      "descriptor.wigner_calc.",           "descriptor.gie.",
      "descriptor.gie_zonal_wigner_calc.", "descriptor.inner_clamp.",
      "descriptor.bridging_switch.",       "inter_potential.",
      "descriptor.spin_embedding.",        "descriptor.env_seed_embedding.spin_scale"};
  const std::string_view leaf = std::string_view(name).substr(name.rfind('.') + 1);
  return std::find(kLeaves.begin(), kLeaves.end(), leaf) != kLeaves.end() ||
         std::any_of(kModules.begin(), kModules.end(),
                     [&](std::string_view module) { return starts_with(name, module); });
}

StateDict::StateDict(const pickle::Dict& dict, const std::string& branch, const std::string& path) {
  const std::string prefix = "model." + branch + ".";
  dialect_ = detect_dialect(dict, prefix, path);
  for (const auto& [key, value] : dict.entries) {
    if (!key.is(Kind::kText) || !starts_with(key.text(), prefix)) continue;
    insert(std::string(key.text()), std::string(key.text().substr(prefix.size())), value);
  }
}

void StateDict::insert(const std::string& key, const std::string& local,
                       const pickle::Value& value) {
  const std::string below =
      starts_with(local, kAtomicModel) ? local.substr(std::strlen(kAtomicModel)) : local;
  entries_.insert_or_assign(canonical_name(below, dialect_), Entry{key, value});
}

const StateDict::Entry* StateDict::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::set<std::string> StateDict::overlay(const pickle::Dict& dict, const std::string& branch) {
  std::set<std::string> replaced;
  for (const auto& [key, value] : dict.entries) {
    if (!key.is(Kind::kText)) continue;
    std::string local(key.text());
    for (const std::string& prefix :
         {"model." + branch + ".", branch + ".", std::string(kAtomicModel)}) {
      if (starts_with(local, prefix)) local = local.substr(prefix.size());
    }
    const std::string name = canonical_name(local, dialect_);
    if (entries_.count(name) == 0) continue;
    entries_[name] = Entry{"ema.model." + std::string(key.text()), value};
    replaced.insert(name);
  }
  return replaced;
}

TensorLoader::TensorLoader(const ZipReader& zip, std::string root, std::string path,
                           std::uint64_t file_bytes)
    : zip_(zip), root_(std::move(root)), path_(std::move(path)), budget_(4 * file_bytes) {}

void TensorLoader::fail(const std::string& key, const std::string& what) const {
  throw InputError(path_ + ": " + key + " " + what);
}

const pickle::Tensor& TensorLoader::tensor_of(const StateDict::Entry& entry) const {
  if (!entry.value.is(Kind::kTensor)) {
    fail(entry.key, "is " + describe(entry.value) + ", but a tensor is needed");
  }
  return entry.value.tensor();
}

std::vector<std::int64_t> TensorLoader::shape_of(const StateDict::Entry& entry) const {
  return tensor_of(entry).shape;
}

model::HostTensor TensorLoader::load(const StateDict::Entry& entry,
                                     const std::vector<std::int64_t>& shape) {
  const std::string& key = entry.key;
  const pickle::Tensor& tensor = tensor_of(entry);
  if (tensor.shape != shape) {
    fail(key, "has shape " + shape_text(tensor.shape) + ", but the model's options need " +
                  shape_text(shape));
  }
  const bool half = tensor.type == ScalarType::kFloat16 || tensor.type == ScalarType::kBFloat16;
  const bool wide = tensor.type == ScalarType::kFloat64;
  if (!half && !wide && tensor.type != ScalarType::kFloat32) {
    fail(key, std::string("holds numbers of type ") + pickle::name_of(tensor.type) +
                  ", but floating-point numbers are needed");
  }

  // An array that repeats elements of a smaller storage would grow without bound: parameters never
  // do.
  Wide count = 1;
  for (std::int64_t extent : shape) {
    count *= extent;
    if (extent < 0 || count > tensor.storage->numel) {
      fail(key, "is damaged: its storage has too few elements for its shape");
    }
  }
  const auto elements = static_cast<std::uint64_t>(count);
  const std::vector<std::byte> raw = read_elements(key, tensor, elements);

  std::shared_ptr<std::byte[]> data;
  if (half) {
    data =
        widen(raw, elements, tensor.type == ScalarType::kFloat16 ? half_to_float : bfloat_to_float);
  } else {
    data = allocate(raw.size());
    if (!raw.empty()) std::memcpy(data.get(), raw.data(), raw.size());
  }
  const std::uint64_t bad = wide ? first_not_finite<double>(data.get(), elements)
                                 : first_not_finite<float>(data.get(), elements);
  if (bad < elements) {
    fail(key, "holds a NaN or infinite number (element " + std::to_string(bad) +
                  "): the training diverged or the file is damaged");
  }
  return model::HostTensor(wide ? model::Dtype::kFloat64 : model::Dtype::kFloat32, shape,
                           std::move(data));
}

std::vector<std::byte> TensorLoader::read_elements(const std::string& key,
                                                   const pickle::Tensor& tensor,
                                                   std::uint64_t count) {
  const std::size_t element = pickle::size_of(tensor.type);
  const ZipMember* member = zip_.find(root_ + "data/" + std::string(tensor.storage->key));
  if (member == nullptr) {
    fail(key,
         "is missing: the archive has no member 'data/" + std::string(tensor.storage->key) + "'");
  }
  check_layout(key, tensor, *member, count);

  const std::uint64_t bytes = count * element;
  if (bytes > budget_) fail(key, "is damaged: the arrays together are larger than the file");
  budget_ -= bytes;
  std::vector<std::byte> raw(static_cast<std::size_t>(bytes));
  if (count == 0) return raw;

  const std::uint64_t first = static_cast<std::uint64_t>(tensor.offset) * element;
  const bool contiguous = is_contiguous(tensor);
  if (contiguous && bytes == member->size) {
    zip_.read_all(*member, raw.data());
    return raw;
  }
  if (verified_.insert(member->name).second) zip_.verify(*member);
  if (contiguous) {
    zip_.read(*member, first, raw.data(), raw.size());
    return raw;
  }
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    last += (tensor.shape[i] - 1) * tensor.stride[i];
  std::vector<std::byte> span((static_cast<std::size_t>(last) + 1) * element);
  zip_.read(*member, first, span.data(), span.size());
  gather(tensor, element, span.data(), raw.data());
  return raw;
}

void TensorLoader::check_layout(const std::string& key, const pickle::Tensor& tensor,
                                const ZipMember& member, std::uint64_t count) const {
  const Wide storage_bytes = static_cast<Wide>(tensor.storage->numel) *
                             static_cast<Wide>(pickle::size_of(tensor.storage->type));
  if (storage_bytes != static_cast<Wide>(member.size)) {
    fail(key, "is damaged: member '" + member.name + "' has " + std::to_string(member.size) +
                  " bytes, not the number announced");
  }
  bool ok = tensor.stride.size() == tensor.shape.size() && tensor.offset >= 0;
  Wide last = tensor.offset;
  for (std::size_t i = 0; ok && i < tensor.shape.size(); ++i) {
    ok = tensor.stride[i] >= 0 && (count == 0 || tensor.shape[i] == 1 || tensor.stride[i] > 0);
    last += (static_cast<Wide>(tensor.shape[i]) - 1) * tensor.stride[i];
  }
  const Wide element = static_cast<Wide>(pickle::size_of(tensor.type));
  if (!ok || (count > 0 && (last + 1) * element > storage_bytes)) {
    fail(key, "is damaged: it reaches beyond its storage");
  }
}

}  // namespace dpa4::io
