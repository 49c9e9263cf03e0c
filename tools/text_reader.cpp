// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/text_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "src/base/error.h"

namespace dpa4::tools {
namespace {

/// A leading plus is usual in files and unknown to from_chars.
std::string_view without_plus(std::string_view word) {
  return word.size() > 1 && word[0] == '+' && word[1] != '-' ? word.substr(1) : word;
}

template <class T>
bool parse(std::string_view word, T& value) {
  const std::string_view text = without_plus(word);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

std::ifstream open_text_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(path + ": this is a folder, not a file");
  }
  std::ifstream in(path);
  if (!in) throw InputError(path + ": cannot open this file");
  if (in.peek() == std::ifstream::traits_type::eof())
    throw InputError(path + ": this file is empty");
  return in;
}

std::vector<std::string_view> split_words(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  std::vector<std::string_view> words;
  std::size_t begin = line.find_first_not_of(kBlank);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(kBlank, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlank, end);
  }
  return words;
}

bool TextReader::next(std::string& line) {
  if (!std::getline(in_, line)) return false;
  ++line_number_;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

void TextReader::fail(const std::string& message) const {
  throw InputError(path_ + ":" + std::to_string(line_number_) + ": " + message);
}

int TextReader::to_int(std::string_view word, const std::string& what) const {
  int value = 0;
  if (!parse(word, value)) {
    fail("'" + std::string(word) + "' is not a whole number (" + what + ")");
  }
  return value;
}

double TextReader::to_double(std::string_view word, const std::string& what) const {
  double value = 0;
  if (!parse(word, value)) fail("'" + std::string(word) + "' is not a number (" + what + ")");
  if (!std::isfinite(value)) {
    fail("'" + std::string(word) + "' is not a finite number (" + what + ")");
  }
  return value;
}

}  // namespace dpa4::tools
