// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace dpa4 {

/// Where the library's messages go. The caller decides (LAMMPS' log on rank 0, a terminal,
/// nowhere).
class Logger {
 public:
  virtual ~Logger() = default;
  virtual void info(const std::string& line) = 0;
  virtual void warning(const std::string& line) = 0;
};

/// Drops every message.
class NullLogger final : public Logger {
 public:
  void info(const std::string&) override {}
  void warning(const std::string&) override {}
};

}  // namespace dpa4
