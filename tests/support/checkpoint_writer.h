// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/model/weights.h"
#include "tests/support/pickle_writer.h"

namespace dpa4::testing {

/// A zip archive with stored members, in the given order.
std::vector<std::byte> zip_archive(
    const std::vector<std::pair<std::string, std::vector<char>>>& members);

/// Writes checkpoints the way torch.save does: arrays are added first, each with a storage of its
/// own, and appear in the object tree as what `add` returned.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::string root = "archive/") : root_(std::move(root)) {}

  /// A row-major array in a new storage. `storage_class` is for example "FloatStorage".
  Py add(const std::vector<float>& values, const std::vector<std::int64_t>& shape);
  Py add(const std::vector<double>& values, const std::vector<std::int64_t>& shape);
  Py add(const model::HostTensor& tensor);

  /// Bytes of any type, and a view of them.
  Py add_storage(std::vector<char> bytes, const std::string& storage_class, std::int64_t numel,
                 const std::string& location = "cpu");
  static Py view(const Py& storage, std::int64_t offset, const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& stride);

  /// The complete file.
  std::vector<std::byte> finish(const Py& tree, int protocol = 2) const;
  std::vector<std::byte> finish(std::vector<char> data_pkl) const;

 private:
  std::string root_;
  std::vector<std::vector<char>> storages_;
};

/// A small DPA4 model's options: two elements, one block, everything else as short as it gets.
Py tiny_params();

/// The state dict of one branch with random weights of the model that `params` describes.
Py tiny_state(CheckpointWriter& writer, const Py& params, const std::string& branch = "Default",
              std::uint64_t seed = 1);

/// A complete single-task checkpoint tree: {"model": {...}}.
Py tiny_tree(CheckpointWriter& writer, const Py& params);

/// The weights that tiny_state puts into the file.
model::Weights tiny_weights(const Py& params, std::uint64_t seed = 1);

}  // namespace dpa4::testing
