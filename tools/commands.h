// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/logger.h"
#include "src/base/version.h"
#include "src/engine/engine.h"
#include "tools/structure_io.h"

namespace dpa4::tools {

/// What the shell sees.
enum ExitCode : int {
  kSuccess = 0,
  kCheckFailed = 1,   // `dpa4 check`: a result is outside the acceptance
  kBadInput = 2,      // a wrong option or file: one line says which
  kInternalError = 3  // a bug, or the machine ran out of memory
};

/// An option has a value that cannot be: the usage of the command follows the message.
class UsageError : public InputError {
 public:
  using InputError::InputError;
};

/// How a command runs a model, as typed.
struct RunOptions {
  std::string engine = "auto";
  std::string device = "auto";
  std::string precision = kDefaultIsFloat64 ? "float64" : "float32";
  std::string memory = "auto";
  std::string arithmetic = "auto";
  std::optional<int> cohort;  // unset: what suits the machine
  std::optional<std::string> head;
  bool ema = false;
};

/// Throws UsageError.
engine::EngineOptions to_engine_options(const RunOptions& options);

struct InfoOptions {
  std::string model;  // empty with `build`
  std::optional<std::string> head;
  bool json = false;
  bool build = false;
};

struct EvalOptions {
  std::string model;
  std::string structure;
  RunOptions run;
  std::string elements;
  std::string atom_style;
  std::string boundary;
  std::optional<double> charge;
  std::optional<double> spin;
  std::string fparam;
  bool json = false;
};

struct CheckOptions {
  std::vector<std::string> files;
  std::string model;  // empty: as each file says
  RunOptions run;
};

struct TuneOptions {
  std::string model;
  RunOptions run;
};

struct BenchOptions {
  std::vector<std::string> cases;  // PRESET:ATOMS or FILE.pt:ATOMS; empty: a table of presets
  RunOptions run;
  int repeat = 10;
  bool operations = false;
  bool compare_eager = false;
  std::string json;  // file to write
};

/// The commands. Results go to `out`, all else to `log`. Throw InputError.
ExitCode run_info(const InfoOptions& options, std::ostream& out, Logger& log);
ExitCode run_eval(const EvalOptions& options, std::ostream& out, Logger& log);
ExitCode run_tune(const TuneOptions& options, std::ostream& out, Logger& log);
ExitCode run_bench(const BenchOptions& options, std::ostream& out, Logger& log);
ExitCode run_check(const CheckOptions& options, std::ostream& out, Logger& log);

/// printf into a string.
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

}  // namespace dpa4::tools
