// SPDX-License-Identifier: GPL-2.0-or-later
// LAMMPS data files: https://docs.lammps.org/read_data.html. Sections other than those of atoms,
// masses and type labels are skipped.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "tools/structure_io.h"
#include "tools/text_reader.h"

namespace dpa4::tools {
namespace {

using Words = std::vector<std::string_view>;

/// Columns of the Atoms section before and after the type.
struct AtomStyle {
  const char* name;
  int type_column;
  int x_column;
};

constexpr AtomStyle kAtomStyles[] = {
    {"atomic", 1, 2}, {"charge", 1, 3}, {"molecular", 2, 3}, {"full", 2, 4}};

constexpr const char* kSections[] = {"Atoms",
                                     "Velocities",
                                     "Masses",
                                     "Atom Type Labels",
                                     "Bond Type Labels",
                                     "Angle Type Labels",
                                     "Dihedral Type Labels",
                                     "Improper Type Labels",
                                     "Bonds",
                                     "Angles",
                                     "Dihedrals",
                                     "Impropers",
                                     "Ellipsoids",
                                     "Lines",
                                     "Triangles",
                                     "Bodies",
                                     "Pair Coeffs",
                                     "PairIJ Coeffs",
                                     "Bond Coeffs",
                                     "Angle Coeffs",
                                     "Dihedral Coeffs",
                                     "Improper Coeffs",
                                     "BondBond Coeffs",
                                     "BondAngle Coeffs",
                                     "MiddleBondTorsion Coeffs",
                                     "EndBondTorsion Coeffs",
                                     "AngleTorsion Coeffs",
                                     "AngleAngleTorsion Coeffs",
                                     "BondBond13 Coeffs",
                                     "AngleAngle Coeffs"};

struct Atom {
  int id;
  int type;  // from 1
  std::array<double, 3> x;
};

bool is_element_symbol(std::string_view word) {
  if (word.empty() || word.size() > 2 || std::isupper(static_cast<unsigned char>(word[0])) == 0) {
    return false;
  }
  return word.size() == 1 || std::islower(static_cast<unsigned char>(word[1])) != 0;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : " ") + std::string(word);
  return text;
}

/// Reads one file; its members are what has been seen so far.
class DataReader {
 public:
  DataReader(std::istream& in, const std::string& path, const StructureOptions& options)
      : reader_(in, path), path_(path), options_(options) {}

  Structure read() {
    std::string line;
    if (!reader_.next(line)) reader_.fail("the file is empty");
    std::string section;  // empty: the header
    while (reader_.next(line)) {
      const std::size_t hash = line.find('#');
      const std::string_view content = std::string_view(line).substr(0, hash);
      const std::string_view comment =
          hash == std::string::npos ? std::string_view() : std::string_view(line).substr(hash + 1);
      const Words words = split_words(content);
      if (words.empty()) continue;
      if (is_section(joined(words))) {
        section = joined(words);
        if (section == "Atoms") start_atoms(comment);
      } else if (section.empty()) {
        read_header(words);
      } else {
        read_entry(section, words, split_words(comment));
      }
    }
    return finish();
  }

 private:
  static bool is_section(const std::string& text) {
    return std::find(std::begin(kSections), std::end(kSections), text) != std::end(kSections);
  }

  void read_header(const Words& words) {
    const std::size_t n = words.size();
    const auto ends = [&words, n](std::initializer_list<const char*> names) {
      return n >= names.size() &&
             std::equal(names.begin(), names.end(), words.end() - static_cast<int>(names.size()),
                        [](const char* name, std::string_view word) { return word == name; });
    };
    if (n == 2 && ends({"atoms"})) {
      n_atoms_ = reader_.to_int(words[0], "number of atoms");
      if (n_atoms_ < 0) reader_.fail("the number of atoms is negative");
    } else if (n == 3 && ends({"atom", "types"})) {
      n_types_ = reader_.to_int(words[0], "number of atom types");
      if (n_types_ < 1) reader_.fail("the number of atom types must be at least 1");
    } else if (n == 4 && ends({"xlo", "xhi"})) {
      read_bounds(0, words);
    } else if (n == 4 && ends({"ylo", "yhi"})) {
      read_bounds(1, words);
    } else if (n == 4 && ends({"zlo", "zhi"})) {
      read_bounds(2, words);
    } else if (n == 6 && ends({"xy", "xz", "yz"})) {
      cell_[1][0] = reader_.to_double(words[0], "xy");
      cell_[2][0] = reader_.to_double(words[1], "xz");
      cell_[2][1] = reader_.to_double(words[2], "yz");
    } else if (n == 4 && (ends({"avec"}) || ends({"bvec"}) || ends({"cvec"}))) {
      const int row = words[3][0] - 'a';
      for (int d = 0; d < 3; ++d) cell_[row][d] = reader_.to_double(words[d], "cell vector");
      bounds_seen_[row] = true;
    } else if (n == 5 && ends({"abc", "origin"})) {
      // Where the cell starts does not matter to what is computed.
    } else if (n == 1 || !(is_count(words[0]) || ends({"crossterms"}))) {
      reader_.fail("'" + joined(words) +
                   "' is neither a header line nor a section of a LAMMPS data file");
    }
  }

  static bool is_count(std::string_view word) {
    return std::all_of(word.begin(), word.end(),
                       [](unsigned char c) { return std::isdigit(c) != 0; });
  }

  void read_bounds(int d, const Words& words) {
    const double low = reader_.to_double(words[0], "lower bound of the cell");
    const double high = reader_.to_double(words[1], "upper bound of the cell");
    if (!(low < high)) reader_.fail("the upper bound of the cell is not above the lower one");
    cell_[d][d] = high - low;
    bounds_seen_[d] = true;
  }

  void start_atoms(std::string_view comment) {
    if (n_types_ == 0)
      reader_.fail("the header before the Atoms section has no line 'N atom types'");
    atoms_seen_ = true;
    const Words words = split_words(comment);
    std::string name = options_.atom_style;
    if (name.empty() && !words.empty()) name = std::string(words[0]);
    name = name.substr(0, name.find("/kk"));  // as the KOKKOS package writes it
    for (const AtomStyle& style : kAtomStyles) {
      if (name == style.name) style_ = &style;
    }
    if (style_ == nullptr && !name.empty()) {
      reader_.fail("atom style '" + name + "' is not one of atomic, charge, molecular, full");
    }
  }

  /// Without a style, the number of columns decides, unless two styles have as many.
  void guess_style(const Words& words) {
    if (style_ != nullptr) return;
    const std::size_t n = words.size();
    if (n == 5 || n == 8) {
      style_ = &kAtomStyles[0];
    } else if (n == 7 || n == 10) {
      style_ = &kAtomStyles[3];
    } else {
      reader_.fail(
          "cannot tell the atom style: write it behind the section's name, as in 'Atoms # charge', "
          "or give --atom-style (atomic, charge, molecular or full)");
    }
  }

  void read_entry(const std::string& section, const Words& words, const Words& comment) {
    if (section == "Atoms") {
      read_atom(words);
    } else if (section == "Masses") {
      const int type = type_of(words[0]);
      if (!comment.empty() && is_element_symbol(comment[0])) {
        mass_comment_[type] = std::string(comment[0]);
      }
    } else if (section == "Atom Type Labels") {
      if (words.size() != 2) reader_.fail("a line of Atom Type Labels is: type label");
      const int type = reader_.to_int(words[0], "atom type");
      label_[type] = std::string(words[1]);
    }
  }

  void read_atom(const Words& words) {
    guess_style(words);
    const std::size_t n_columns = static_cast<std::size_t>(style_->x_column) + 3;
    if (words.size() != n_columns && words.size() != n_columns + 3) {
      reader_.fail(
          "an atom of style '" + std::string(style_->name) + "' has " + std::to_string(n_columns) +
          " columns, or 3 more with image flags; this line has " + std::to_string(words.size()));
    }
    Atom atom{};
    atom.id = reader_.to_int(words[0], "atom ID");
    atom.type = type_of(words[style_->type_column]);
    for (int d = 0; d < 3; ++d)
      atom.x[d] = reader_.to_double(words[style_->x_column + d], "position");
    atoms_.push_back(atom);
  }

  /// A type is a number or, where the file has labels, a label.
  int type_of(std::string_view word) const {
    for (const auto& [type, label] : label_) {
      if (label == word) return type;
    }
    const int type = reader_.to_int(word, "atom type");
    if (type < 1 || type > n_types_) {
      reader_.fail("atom type " + std::to_string(type) + " is outside 1.." +
                   std::to_string(n_types_));
    }
    return type;
  }

  std::vector<std::string> type_elements() const {
    if (!options_.elements.empty()) {
      if (static_cast<int>(options_.elements.size()) != n_types_) {
        throw InputError(path_ + ": the file has " + std::to_string(n_types_) +
                         " atom types, but " + std::to_string(options_.elements.size()) +
                         " elements are given");
      }
      return options_.elements;
    }
    for (const std::map<int, std::string>* names : {&label_, &mass_comment_}) {
      std::vector<std::string> elements;
      for (int type = 1; type <= n_types_; ++type) {
        const auto found = names->find(type);
        if (found != names->end()) elements.push_back(found->second);
      }
      if (static_cast<int>(elements.size()) == n_types_) return elements;
    }
    throw InputError(path_ + ": the file does not name the elements of its " +
                     std::to_string(n_types_) +
                     " atom types: give them in the order of the types, as in --elements Si,C");
  }

  Structure finish() {
    if (n_atoms_ < 0) throw InputError(path_ + ": no line 'N atoms': this is no LAMMPS data file");
    if (!bounds_seen_[0] || !bounds_seen_[1] || !bounds_seen_[2]) {
      throw InputError(path_ +
                       ": the header lacks a bound of the cell (xlo xhi, ylo yhi, zlo zhi)");
    }
    if (static_cast<int>(atoms_.size()) != n_atoms_) {
      throw InputError(path_ + ": the header promises " + std::to_string(n_atoms_) +
                       " atoms, the file has " + std::to_string(atoms_.size()));
    }
    std::sort(atoms_.begin(), atoms_.end(),
              [](const Atom& a, const Atom& b) { return a.id < b.id; });
    for (std::size_t i = 1; i < atoms_.size(); ++i) {
      if (atoms_[i].id == atoms_[i - 1].id) {
        throw InputError(path_ + ": atom ID " + std::to_string(atoms_[i].id) + " occurs twice");
      }
    }
    Structure structure;
    structure.name = "frame 1";
    structure.cell.vectors = cell_;
    structure.cell.periodic = options_.periodic.value_or(std::array<bool, 3>{true, true, true});
    const std::vector<std::string> elements =
        n_atoms_ > 0 ? type_elements() : std::vector<std::string>();
    for (const Atom& atom : atoms_) {
      structure.element.push_back(elements[atom.type - 1]);
      structure.x.insert(structure.x.end(), atom.x.begin(), atom.x.end());
    }
    return structure;
  }

  TextReader reader_;
  const std::string& path_;
  const StructureOptions& options_;
  int n_atoms_ = -1;
  int n_types_ = 0;
  std::array<std::array<double, 3>, 3> cell_{};
  std::array<bool, 3> bounds_seen_{};
  bool atoms_seen_ = false;
  const AtomStyle* style_ = nullptr;
  std::vector<Atom> atoms_;
  std::map<int, std::string> label_;
  std::map<int, std::string> mass_comment_;
};

}  // namespace

Structure read_lammps_data(std::istream& in, const std::string& path,
                           const StructureOptions& options) {
  return DataReader(in, path, options).read();
}

}  // namespace dpa4::tools
