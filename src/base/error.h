// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <stdexcept>
#include <string>

namespace dpa4 {

/// The user's input cannot be used: one sentence that names the file, key or command to change.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A precondition of our own code was broken: a bug in this project.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace base {

[[noreturn]] inline void fail_expectation(const char* condition, const char* file, int line) {
  throw InternalError(std::string("dpa4 internal error: expected ") + condition + " (" + file +
                      ":" + std::to_string(line) + ")");
}

}  // namespace base
}  // namespace dpa4

/// Throws InternalError unless `condition` holds; active in every build.
#define DPA4_EXPECTS(condition)       \
  ((condition) ? static_cast<void>(0) \
               : ::dpa4::base::fail_expectation(#condition, __FILE__, __LINE__))
