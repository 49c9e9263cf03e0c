// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/support/checkpoint_writer.h"

#include <cstring>

#include "src/io/config_reader.h"
#include "src/io/pickle.h"
#include "src/io/zip_reader.h"
#include "src/model/weight_schema.h"

namespace dpa4::testing {

namespace {

constexpr double kFormat = 1.2;

template <class Unsigned>
void append(std::vector<char>& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

/// The fields that a member's local header and its directory entry share.
void append_common_fields(std::vector<char>& out, const std::string& name,
                          const std::vector<char>& bytes) {
  append<std::uint16_t>(out, 0);  // flags
  append<std::uint16_t>(out, 0);  // stored
  append<std::uint32_t>(out, 0);  // time
  append<std::uint32_t>(out, io::crc32(0, bytes.data(), bytes.size()));
  append(out, static_cast<std::uint32_t>(bytes.size()));
  append(out, static_cast<std::uint32_t>(bytes.size()));
  append(out, static_cast<std::uint16_t>(name.size()));
  append<std::uint16_t>(out, 0);  // extra fields
}

model::ModelConfig config_of(const Py& params) {
  const auto document = io::pickle::parse(pickle(params), "params");
  return io::read_config(io::Options("params", "", &document->root().dict()), kFormat, 10000);
}

template <class Real>
std::vector<char> bytes_of(const std::vector<Real>& values) {
  std::vector<char> bytes(values.size() * sizeof(Real));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  return stride;
}

}  // namespace

std::vector<std::byte> zip_archive(
    const std::vector<std::pair<std::string, std::vector<char>>>& members) {
  std::vector<char> out;
  std::vector<char> directory;
  for (const auto& [name, bytes] : members) {
    const auto offset = static_cast<std::uint32_t>(out.size());
    append<std::uint32_t>(out, 0x04034b50);
    append<std::uint16_t>(out, 20);
    append_common_fields(out, name, bytes);
    out.insert(out.end(), name.begin(), name.end());
    out.insert(out.end(), bytes.begin(), bytes.end());

    append<std::uint32_t>(directory, 0x02014b50);
    append<std::uint32_t>(directory, 20u << 16 | 20u);
    append_common_fields(directory, name, bytes);
    append<std::uint16_t>(directory, 0);  // comment
    append<std::uint32_t>(directory, 0);  // disk, internal attributes
    append<std::uint32_t>(directory, 0);  // external attributes
    append(directory, offset);
    directory.insert(directory.end(), name.begin(), name.end());
  }
  const auto directory_offset = static_cast<std::uint32_t>(out.size());
  out.insert(out.end(), directory.begin(), directory.end());
  append<std::uint32_t>(out, 0x06054b50);
  append<std::uint32_t>(out, 0);
  append(out, static_cast<std::uint16_t>(members.size()));
  append(out, static_cast<std::uint16_t>(members.size()));
  append(out, static_cast<std::uint32_t>(directory.size()));
  append(out, directory_offset);
  append<std::uint16_t>(out, 0);
  std::vector<std::byte> result(out.size());
  std::memcpy(result.data(), out.data(), out.size());
  return result;
}

Py CheckpointWriter::add(const std::vector<float>& values, const std::vector<std::int64_t>& shape) {
  const Py storage =
      add_storage(bytes_of(values), "FloatStorage", static_cast<std::int64_t>(values.size()));
  return view(storage, 0, shape, row_major(shape));
}

Py CheckpointWriter::add(const std::vector<double>& values,
                         const std::vector<std::int64_t>& shape) {
  const Py storage =
      add_storage(bytes_of(values), "DoubleStorage", static_cast<std::int64_t>(values.size()));
  return view(storage, 0, shape, row_major(shape));
}

Py CheckpointWriter::add(const model::HostTensor& tensor) {
  if (tensor.dtype() == model::Dtype::kFloat64) return add(tensor.to<double>(), tensor.shape());
  return add(tensor.to<float>(), tensor.shape());
}

Py CheckpointWriter::add_storage(std::vector<char> bytes, const std::string& storage_class,
                                 std::int64_t numel, const std::string& location) {
  const std::string key = std::to_string(storages_.size());
  storages_.push_back(std::move(bytes));
  return Py::persistent({"storage", Py::global("torch", storage_class), key, location, numel});
}

Py CheckpointWriter::view(const Py& storage, std::int64_t offset,
                          const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& stride) {
  const Py no_hooks = Py::call(Py::global("collections", "OrderedDict"), {});
  return Py::call(Py::global("torch._utils", "_rebuild_tensor_v2"),
                  {storage, offset, Py::ints(shape), Py::ints(stride), false, no_hooks});
}

std::vector<std::byte> CheckpointWriter::finish(const Py& tree, int protocol) const {
  return finish(pickle(tree, protocol));
}

std::vector<std::byte> CheckpointWriter::finish(std::vector<char> data_pkl) const {
  std::vector<std::pair<std::string, std::vector<char>>> members;
  members.emplace_back(root_ + "data.pkl", std::move(data_pkl));
  members.emplace_back(root_ + "byteorder", std::vector<char>{'l', 'i', 't', 't', 'l', 'e'});
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    members.emplace_back(root_ + "data/" + std::to_string(i), storages_[i]);
  }
  members.emplace_back(root_ + "version", std::vector<char>{'3', '\n'});
  return zip_archive(members);
}

Py tiny_params() {
  return Py::dict({{"type", "dpa4"},
                   {"type_map", Py::list({"Si", "C"})},
                   {"descriptor", Py::dict({{"type", "dpa4"},
                                            {"channels", 4},
                                            {"n_radial", 3},
                                            {"lmax", 1},
                                            {"n_blocks", 1},
                                            {"mixing_layers", 2},
                                            {"rcut", 4.0},
                                            {"message_node_so3", true},
                                            {"ffn_neurons", 4}})},
                   {"fitting_net", Py::dict({{"type", "dpa4_ener"}, {"neuron", Py::list({4})}})}});
}

model::Weights tiny_weights(const Py& params, std::uint64_t seed) {
  return model::random_weights(config_of(params), seed);
}

Py tiny_state(CheckpointWriter& writer, const Py& params, const std::string& branch,
              std::uint64_t seed) {
  Py state = Py::dict();
  const std::string prefix = "model." + branch + ".atomic_model.";
  const model::Weights weights = tiny_weights(params, seed);
  for (const auto& [name, tensor] : weights.all()) {
    state[prefix + name] = writer.add(tensor);
  }
  state[prefix + "descriptor.version_tensor"] = writer.add(std::vector<double>{kFormat}, {});
  state[prefix + "out_std"] = writer.add(std::vector<double>{1, 1}, {1, 2, 1});
  return state;
}

Py tiny_tree(CheckpointWriter& writer, const Py& params) {
  Py state = tiny_state(writer, params);
  state["_extra_state"] =
      Py::dict({{"model_params", params}, {"train_infos", Py::dict({{"lr", 1e-3}})}});
  return Py::dict({{"model", state}});
}

}  // namespace dpa4::testing
