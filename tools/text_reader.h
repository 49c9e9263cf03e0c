// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <fstream>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace dpa4::tools {

/// Opens a file for reading. Throws InputError: it is missing, unreadable, a folder, or empty.
std::ifstream open_text_file(const std::string& path);

/// The words of a line, separated by white space.
std::vector<std::string_view> split_words(std::string_view line);

/// Lines of a text file with their numbers, and errors that name both.
class TextReader {
 public:
  TextReader(std::istream& in, std::string path) : in_(in), path_(std::move(path)) {}

  /// The next line, without its end (LF or CR LF). False at the end of the file.
  bool next(std::string& line);

  /// Throws InputError "FILE:LINE: message" for the line read last.
  [[noreturn]] void fail(const std::string& message) const;

  /// Whole words as numbers; anything else, and a number that is not finite, fails.
  int to_int(std::string_view word, const std::string& what) const;
  double to_double(std::string_view word, const std::string& what) const;

  int line_number() const { return line_number_; }

 private:
  std::istream& in_;
  std::string path_;
  int line_number_ = 0;
};

}  // namespace dpa4::tools
