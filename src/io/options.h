// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/io/pickle.h"

namespace dpa4::io {

/// A value for a message: short, one level deep, printable.
std::string describe(const pickle::Value& value);

/// Text in lower case, as option values are compared.
std::string lower(std::string_view text);

/// One dictionary of options of a checkpoint, for example the descriptor's. A key that is absent or
/// None takes its default. A value of the wrong type or out of range is an InputError that names
/// the file, the key, the value and what would work.
class Options {
 public:
  /// `section` is the prefix of keys in messages, for example "descriptor". A null dict: all
  /// defaults.
  Options(std::string path, std::string section, const pickle::Dict* dict)
      : path_(std::move(path)), section_(std::move(section)), dict_(dict) {}

  /// The value, or null if it is absent or None.
  const pickle::Value* find(const std::string& key) const;
  bool has_key(const std::string& key) const {
    return dict_ != nullptr && dict_->find(key) != nullptr;
  }

  int integer(const std::string& key, int fallback, int low, int high) const;
  bool boolean(const std::string& key, bool fallback) const;
  double positive(const std::string& key, double fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;

  std::optional<std::vector<int>> integers(const std::string& key, int low, int high) const;
  std::optional<std::vector<double>> reals(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<std::pair<int, int>> pairs(const std::string& key, int low, int high) const;

  /// One boolean for all, or a list of exactly `n`.
  std::vector<bool> booleans(const std::string& key, const std::vector<bool>& fallback,
                             bool allow_single) const;

  /// A nested dictionary; absent means all defaults.
  Options section(const std::string& key) const;

  const std::string& path() const { return path_; }
  const pickle::Dict* dict() const { return dict_; }

  /// "PATH: section.key = value: why"
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const;

 private:
  std::string name(const std::string& key) const;
  std::int64_t as_integer(const std::string& key, const pickle::Value& value, int low, int high,
                          const std::string& expected) const;

  std::string path_;
  std::string section_;
  const pickle::Dict* dict_;
};

}  // namespace dpa4::io
