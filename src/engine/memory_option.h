// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace dpa4::engine {

/// Reads EvaluatorOptions::memory: "auto", "min", or a number of bytes, one at least, which may end
/// in K (or k), M, G or T, powers of 1024. Returns false if the text is none of these.
inline bool parse_memory(const std::string& text, std::optional<std::int64_t>& memory) {
  constexpr double kMost = 1e18;
  if (text == "auto" || text == "min") {
    memory = text == "auto" ? std::nullopt : std::optional<std::int64_t>(0);
    return true;
  }
  std::string digits = text;
  double unit = 1;
  const std::size_t power =
      text.empty() ? std::string::npos : std::string("KMGT").find(text.back());
  if (power != std::string::npos || (!text.empty() && text.back() == 'k')) {
    unit = power == std::string::npos ? 1024.0 : std::pow(1024.0, static_cast<double>(power + 1));
    digits.pop_back();
  }
  if (digits.empty() || digits.find_first_not_of("0123456789.") != std::string::npos) return false;
  char* end = nullptr;
  const double bytes = unit * std::strtod(digits.c_str(), &end);
  if (*end != '\0' || !(bytes >= 1) || bytes > kMost) return false;
  memory = static_cast<std::int64_t>(bytes);
  return true;
}

inline constexpr char kMemoryValues[] = "auto, min, or a number of bytes such as 512M or 16G";

}  // namespace dpa4::engine
