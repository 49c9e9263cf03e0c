// SPDX-License-Identifier: GPL-2.0-or-later
// A libFuzzer program. The first byte of an input chooses: a whole file, or the object tree
// (data.pkl) of an intact archive, so that mutations reach the unpickler and the options behind it.
//
//   io_fuzz_checkpoint CORPUS            (an empty folder, or one with checkpoints to start from)
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/base/error.h"
#include "tests/support/checkpoint_reading.h"
#include "tests/support/checkpoint_writer.h"

namespace {

using dpa4::testing::CheckpointWriter;

/// An archive with the arrays of a tiny model; only its object tree is missing.
const CheckpointWriter& tiny_archive() {
  static const CheckpointWriter writer = [] {
    CheckpointWriter made;
    dpa4::testing::tiny_tree(made, dpa4::testing::tiny_params());
    return made;
  }();
  return writer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> file;
  if (data[0] % 2 == 0) {
    file.resize(size - 1);
    if (size > 1) std::memcpy(file.data(), data + 1, size - 1);
  } else {
    const auto* tree = reinterpret_cast<const char*>(data) + 1;
    file = tiny_archive().finish(std::vector<char>(tree, tree + size - 1));
  }
  try {
    dpa4::testing::read_bytes(file);
  } catch (const dpa4::InputError&) {
    // The only exception a file may cause.
  }
  return 0;
}
