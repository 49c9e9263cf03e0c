// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/logger.h"
#include "src/io/byte_source.h"
#include "src/model/model_config.h"
#include "src/model/weights.h"

namespace dpa4::io {

struct CheckpointOptions {
  std::optional<std::string> head;  // branch of a multi-task file; unset: the file's own default
  bool use_ema = false;             // take the averaged weights a training checkpoint carries
};

/// What a checkpoint file holds besides the model itself, for the log and for `dpa4 info`.
struct CheckpointInfo {
  std::string path;
  std::string dialect;             // "pt" or "pt_expt"
  std::vector<std::string> heads;  // branches of a multi-task file, empty for single task
  std::string head;                // the branch that was read
  std::string preset;              // name of the released shape this equals ("neo"), or empty
  std::int64_t n_parameters = 0;   // elements of all trainable arrays
  std::int64_t file_bytes = 0;
  bool has_ema = false;
  bool has_optimizer = false;
  bool lora_folded = false;
};

struct Checkpoint {
  model::ModelConfig config;
  model::Weights weights;
  CheckpointInfo info;
};

/// Reads a DPA4/SeZM training checkpoint. Nothing in the file is executed.
/// Throws InputError: one sentence naming the file, the key, its value and what would work.
Checkpoint read_checkpoint(const std::string& path, const CheckpointOptions& options, Logger& log);

/// The same for bytes that need not be a file; `path` only names them in messages.
Checkpoint read_checkpoint(const ByteSource& source, const std::string& path,
                           const CheckpointOptions& options, Logger& log);

}  // namespace dpa4::io
