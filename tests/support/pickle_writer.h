// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dpa4::testing {

/// A Python object to be pickled. Enough of Python to write checkpoints, good and bad ones.
class Py {
 public:
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kList,
    kTuple,
    kDict,
    kGlobal,
    kCall,
    kPersistent
  };

  Py() = default;  // None
  Py(bool value) : kind(Kind::kBool), number(value ? 1 : 0) {}
  Py(int value) : kind(Kind::kInt), number(value) {}
  Py(std::int64_t value) : kind(Kind::kInt), number(value) {}
  Py(double value) : kind(Kind::kFloat), real(value) {}
  Py(const char* value) : kind(Kind::kText), text(value) {}
  Py(std::string value) : kind(Kind::kText), text(std::move(value)) {}

  static Py list(std::vector<Py> items = {}) { return Py(Kind::kList, std::move(items)); }
  static Py tuple(std::vector<Py> items = {}) { return Py(Kind::kTuple, std::move(items)); }
  static Py dict(const std::vector<std::pair<std::string, Py>>& entries = {});
  static Py ints(const std::vector<std::int64_t>& values);  // a tuple

  /// A class or function by name.
  static Py global(const std::string& module, const std::string& name);
  /// callee(*arguments)
  static Py call(Py callee, std::vector<Py> arguments);
  /// An object stored outside of the pickle.
  static Py persistent(std::vector<Py> id);

  /// The entry of a dict; made if missing.
  Py& operator[](const std::string& key);
  void erase(const std::string& key);

  Kind kind = Kind::kNone;
  std::int64_t number = 0;
  double real = 0;
  std::string text;    // text; name of a global
  std::string module;  // of a global
  std::vector<Py>
      items;  // of containers; key, value, key, value, ... of a dict; callee and arguments

 private:
  Py(Kind kind_, std::vector<Py> items_) : kind(kind_), items(std::move(items_)) {}
};

/// The pickle of an object, protocol 2 (as torch.save writes) to 5.
std::vector<char> pickle(const Py& object, int protocol = 2);

}  // namespace dpa4::testing
