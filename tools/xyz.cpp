// SPDX-License-Identifier: GPL-2.0-or-later
// XYZ files, plain and extended: the second line of a frame holds key=value pairs, of which
// Lattice, pbc and Properties are read (https://github.com/libAtoms/extxyz).
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "tools/structure_io.h"
#include "tools/text_reader.h"

namespace dpa4::tools {
namespace {

/// Where a frame's columns are.
struct Columns {
  int species = 0;
  int position = 1;
  int aparam = -1;
  int n_aparam = 0;
  int count = 4;
  bool exact = false;  // a plain XYZ line may hold more than it says
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// key=value pairs; a value with blanks stands in "", '', {} or [].
std::map<std::string, std::string> parse_comment(const TextReader& reader,
                                                 const std::string& line) {
  std::map<std::string, std::string> values;
  constexpr std::string_view kOpen = "\"'{[";
  constexpr std::string_view kClose = "\"'}]";
  std::size_t at = 0;
  while (true) {
    at = line.find_first_not_of(" \t", at);
    if (at == std::string::npos) return values;
    const std::size_t key_end = line.find_first_of(" \t=", at);
    const std::string key = lower(line.substr(at, key_end - at));
    if (key_end == std::string::npos || line[key_end] != '=') {
      at = key_end;  // a bare word: free text
      if (at == std::string::npos) return values;
      continue;
    }
    at = key_end + 1;
    const std::size_t kind = at < line.size() ? kOpen.find(line[at]) : std::string_view::npos;
    std::size_t end;
    if (kind != std::string_view::npos) {
      end = line.find(kClose[kind], at + 1);
      if (end == std::string::npos)
        reader.fail("the value of '" + key + "' has no closing quote or bracket");
      values[key] = line.substr(at + 1, end - at - 1);
      ++end;
    } else {
      end = std::min(line.find_first_of(" \t", at), line.size());
      values[key] = line.substr(at, end - at);
    }
    at = end;
  }
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// "species:S:1:pos:R:3:forces:R:3": name, kind, number of columns, and so on.
Columns parse_properties(const TextReader& reader, const std::string& text) {
  Columns columns;
  columns.species = columns.position = -1;
  columns.exact = true;
  int at = 0;
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() % 3 != 0) reader.fail("Properties is not a list of name:kind:columns");
  for (std::size_t k = 0; k < parts.size(); k += 3) {
    const std::string name = lower(parts[k]);
    const int width = reader.to_int(parts[k + 2], "columns of property '" + parts[k] + "'");
    if (width < 1) reader.fail("property '" + parts[k] + "' has no columns");
    if (name == "species") columns.species = at;
    if (name == "pos") {
      columns.position = at;
      if (width != 3) reader.fail("property 'pos' must have 3 columns");
    }
    if (name == "aparam") {
      columns.aparam = at;
      columns.n_aparam = width;
    }
    at += width;
  }
  columns.count = at;
  if (columns.species < 0) reader.fail("Properties has no 'species'");
  if (columns.position < 0) reader.fail("Properties has no 'pos'");
  return columns;
}

std::array<bool, 3> parse_pbc(const TextReader& reader, const std::string& text) {
  std::string spaced = text;
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  const auto words = split_words(spaced);
  std::array<bool, 3> periodic{};
  if (words.size() != 3) reader.fail("pbc must have three values, as in pbc=\"T T F\"");
  for (int d = 0; d < 3; ++d) {
    const std::string word = lower(std::string(words[d]));
    periodic[d] = word == "t" || word == "true" || word == "1";
    if (!periodic[d] && word != "f" && word != "false" && word != "0") {
      reader.fail("'" + std::string(words[d]) + "' in pbc is neither T nor F");
    }
  }
  return periodic;
}

graph::Cell parse_cell(const TextReader& reader, const std::map<std::string, std::string>& values) {
  graph::Cell cell;
  const auto lattice = values.find("lattice");
  if (lattice != values.end()) {
    std::string spaced = lattice->second;
    std::replace(spaced.begin(), spaced.end(), ',', ' ');
    const auto words = split_words(spaced);
    if (words.size() != 9) reader.fail("Lattice must have 9 numbers");
    for (int k = 0; k < 9; ++k) cell.vectors[k / 3][k % 3] = reader.to_double(words[k], "Lattice");
    cell.periodic = {true, true, true};
  }
  const auto pbc = values.find("pbc");
  if (pbc != values.end()) {
    cell.periodic = parse_pbc(reader, pbc->second);
    const bool any = cell.periodic[0] || cell.periodic[1] || cell.periodic[2];
    if (any && lattice == values.end()) reader.fail("pbc is periodic, but there is no Lattice");
  }
  return cell;
}

void read_atom(const TextReader& reader, const std::string& line, const Columns& columns,
               Structure& structure) {
  const auto words = split_words(line);
  const int n = static_cast<int>(words.size());
  if (n < columns.count || (columns.exact && n != columns.count)) {
    reader.fail("this line has " + std::to_string(n) + " columns instead of " +
                std::to_string(columns.count));
  }
  structure.element.emplace_back(words[columns.species]);
  for (int d = 0; d < 3; ++d) {
    structure.x.push_back(reader.to_double(words[columns.position + d], "position"));
  }
  for (int k = 0; k < columns.n_aparam; ++k) {
    structure.aparam.push_back(reader.to_double(words[columns.aparam + k], "aparam"));
  }
}

}  // namespace

std::vector<Structure> read_xyz(std::istream& in, const std::string& path,
                                const StructureOptions& options) {
  TextReader reader(in, path);
  std::vector<Structure> frames;
  std::string line;
  while (reader.next(line)) {
    const auto words = split_words(line);
    if (words.empty()) continue;  // blank lines between and after frames
    if (words.size() != 1) reader.fail("expected the number of atoms of the next frame");
    const int n_atoms = reader.to_int(words[0], "number of atoms");
    if (n_atoms < 0) reader.fail("the number of atoms is negative");

    Structure structure;
    structure.name = "frame " + std::to_string(frames.size() + 1);
    if (!reader.next(line))
      reader.fail("the file ends before the comment line of " + structure.name);
    const auto values = parse_comment(reader, line);
    structure.cell = parse_cell(reader, values);
    if (options.periodic) {
      structure.cell.periodic = *options.periodic;
      const bool any = (*options.periodic)[0] || (*options.periodic)[1] || (*options.periodic)[2];
      if (any && values.count("lattice") == 0) reader.fail("a periodic boundary needs a Lattice");
    }
    const auto properties = values.find("properties");
    const Columns columns =
        properties == values.end() ? Columns{} : parse_properties(reader, properties->second);
    for (int i = 0; i < n_atoms; ++i) {
      if (!reader.next(line)) {
        reader.fail("the file ends after " + std::to_string(i) + " of " + std::to_string(n_atoms) +
                    " atoms of " + structure.name);
      }
      read_atom(reader, line, columns, structure);
    }
    frames.push_back(std::move(structure));
  }
  if (frames.empty()) throw InputError(path + ": no frame in this file");
  return frames;
}

}  // namespace dpa4::tools
