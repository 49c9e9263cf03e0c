// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/structure_io.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string_view>

#include "src/base/error.h"
#include "tools/text_reader.h"

namespace dpa4::tools {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_count(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Only an XYZ file starts with a bare number; the first line of a data file is a title.
bool starts_like_xyz(std::istream& in) {
  std::string line;
  std::getline(in, line);
  const auto words = split_words(line);
  in.clear();
  in.seekg(0);
  return words.size() == 1 && is_count(words[0]);
}

}  // namespace

std::vector<Structure> read_structures(const std::string& path, const StructureOptions& options) {
  std::ifstream in = open_text_file(path);
  const bool named_xyz = ends_with(path, ".xyz") || ends_with(path, ".extxyz");
  const bool named_data = ends_with(path, ".data") || ends_with(path, ".lmp");
  if (named_xyz || (!named_data && starts_like_xyz(in))) return read_xyz(in, path, options);
  return {read_lammps_data(in, path, options)};
}

}  // namespace dpa4::tools
