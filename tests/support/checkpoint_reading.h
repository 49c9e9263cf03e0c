// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/logger.h"
#include "src/io/byte_source.h"
#include "src/io/checkpoint.h"

namespace dpa4::testing {

/// Keeps warnings for a test to look at.
class RecordingLogger final : public Logger {
 public:
  void info(const std::string&) override {}
  void warning(const std::string& line) override { warnings.push_back(line); }
  std::vector<std::string> warnings;
};

inline io::Checkpoint read_bytes(const std::vector<std::byte>& bytes,
                                 const io::CheckpointOptions& options = {}) {
  NullLogger log;
  return io::read_checkpoint(*io::view_bytes(bytes), "model.pt", options, log);
}

/// The sentence with which the bytes are refused, or "accepted".
inline std::string refusal_of(const std::vector<std::byte>& bytes,
                              const io::CheckpointOptions& options = {}) {
  try {
    read_bytes(bytes, options);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace dpa4::testing
