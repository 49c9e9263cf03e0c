// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/structure_io.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/error.h"

namespace dpa4::tools {
namespace {

using Vectors = std::array<std::array<double, 3>, 3>;
using Names = std::vector<std::string>;

Structure data(const std::string& text, const StructureOptions& options = {}) {
  std::istringstream in(text);
  return read_lammps_data(in, "file", options);
}

std::vector<Structure> xyz(const std::string& text, const StructureOptions& options = {}) {
  std::istringstream in(text);
  return read_xyz(in, "file", options);
}

template <class Read>
std::string error_of(Read&& read) {
  try {
    read();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string data_error(const std::string& text, const StructureOptions& options = {}) {
  return error_of([&] { data(text, options); });
}

std::string xyz_error(const std::string& text, const StructureOptions& options = {}) {
  return error_of([&] { xyz(text, options); });
}

StructureOptions with_elements(const Names& elements) {
  StructureOptions options;
  options.elements = elements;
  return options;
}

const std::string kHeader =
    "title, which may say anything: 3 atoms\n\n"
    "2 atoms\n"
    "2 atom types\n"
    "-1.0 2.0 xlo xhi  # a comment\n"
    "0 4 ylo yhi\n"
    "1e0 +6.0 zlo zhi\n";

TEST(LammpsData, ReadsAnAtomicFile) {
  const Structure s = data(kHeader +
                               "0.5 -0.25 1.5 xy xz yz\n\nMasses\n\n1 28.0855\n2 12.011\n\n"
                               "Atoms # atomic\n\n"
                               "7 2 0.1 0.2 0.3 0 -1 2\n"
                               "3 1 1.5 2.5 3.5\n\n"
                               "Velocities\n\n7 0 0 0\n3 1 1 1\n",
                           with_elements({"Si", "C"}));
  EXPECT_EQ(s.element, (Names{"Si", "C"})) << "ordered by ID";
  EXPECT_EQ(s.x, (std::vector<double>{1.5, 2.5, 3.5, 0.1, 0.2, 0.3}));
  EXPECT_EQ(s.cell.vectors, (Vectors{{{3, 0, 0}, {0.5, 4, 0}, {-0.25, 1.5, 5}}}));
  EXPECT_EQ(s.cell.periodic, (std::array<bool, 3>{true, true, true}));
}

TEST(LammpsData, KnowsTheColumnsOfEachStyle) {
  const std::string masses = "Masses\n\n1 28.0855 # Si\n2 12.011 # C\n\n";
  for (const auto& [style, atom] :
       {std::pair{"atomic", "1 2 1 2 3"}, std::pair{"charge", "1 2 -0.5 1 2 3"},
        std::pair{"molecular", "1 9 2 1 2 3"}, std::pair{"full", "1 9 2 -0.5 1 2 3"}}) {
    for (const char* images : {"", " 1 0 -1"}) {
      const std::string lines =
          std::string(atom) + images + "\n" + "2" + (atom + 1) + images + "\n";
      const Structure s = data(kHeader + masses + "Atoms # " + style + "\n\n" + lines);
      EXPECT_EQ(s.element, (Names{"C", "C"})) << style;
      EXPECT_EQ(s.x, (std::vector<double>{1, 2, 3, 1, 2, 3})) << style;
      EXPECT_EQ(data(kHeader + masses + "Atoms # " + style + "/kk\n\n" + lines).x, s.x) << style;
      StructureOptions options;
      options.atom_style = style;
      EXPECT_EQ(data(kHeader + masses + "Atoms\n\n" + lines, options).x, s.x) << style;
    }
  }
}

TEST(LammpsData, TakesElementsFromTypeLabels) {
  const Structure s =
      data(kHeader +
           "Atom Type Labels\n\n1 C\n2 Si\n\nMasses\n\nC 12.011 # X\nSi 28.0855 # Y\n\n"
           "Atoms # atomic\n\n1 Si 1 2 3\n2 1 4 5 6\n");
  EXPECT_EQ(s.element, (Names{"Si", "C"}));
}

TEST(LammpsData, ReadsAGeneralTriclinicCell) {
  const Structure s = data(
      "title\n1 atoms\n1 atom types\n1 2 3 avec\n-4 5 6 bvec\n7 -8 9 cvec\n0 0 0 abc origin\n"
      "\nAtoms # atomic\n\n1 1 0 0 0\n",
      with_elements({"Cu"}));
  EXPECT_EQ(s.cell.vectors, (Vectors{{{1, 2, 3}, {-4, 5, 6}, {7, -8, 9}}}));
}

TEST(LammpsData, SkipsMoleculesAndCoefficients) {
  const Structure s = data(
      "title\n1 atoms\n1 bonds\n2 angles\n1 atom types\n1 bond types\n2 extra bond per atom\n"
      "0 1 xlo xhi\n0 1 ylo yhi\n0 1 zlo zhi\n\nPair Coeffs # lj/cut\n\n1 0.1 3.0\n\nBond "
      "Coeffs\n\n1 5 1\n\n"
      "Atoms # full\n\n1 1 1 0.0 0.5 0.5 0.5\n\nBonds\n\n1 1 1 1\n\nAngles\n\n1 1 1 1 1\n",
      with_elements({"O"}));
  EXPECT_EQ(s.element, Names{"O"});
}

TEST(LammpsData, BoundaryAndWindowsLineEnds) {
  StructureOptions options = with_elements({"Si", "C"});
  options.periodic = {true, false, true};
  std::string text = kHeader + "Atoms # atomic\n\n1 1 0 0 0\n2 2 1 1 1\n";
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.insert(at, "\r");
  }
  const Structure s = data(text, options);
  EXPECT_EQ(s.cell.periodic, (std::array<bool, 3>{true, false, true}));
  EXPECT_EQ(s.n_atoms(), 2);
}

TEST(LammpsData, ErrorsNameTheLine) {
  const StructureOptions sic = with_elements({"Si", "C"});
  const std::string atoms = "Atoms # atomic\n\n";
  EXPECT_EQ(data_error(kHeader + atoms + "1 1 0 0 x\n", sic),
            "file:10: 'x' is not a number (position)");
  EXPECT_EQ(data_error(kHeader + atoms + "1 1 0 0 nan\n", sic),
            "file:10: 'nan' is not a finite number (position)");
  EXPECT_EQ(data_error(kHeader + atoms + "1.5 1 0 0 0\n", sic),
            "file:10: '1.5' is not a whole number (atom ID)");
  EXPECT_EQ(data_error(kHeader + atoms + "1 3 0 0 0\n", sic),
            "file:10: atom type 3 is outside 1..2");
  EXPECT_EQ(
      data_error(kHeader + atoms + "1 1 0 0\n", sic),
      "file:10: an atom of style 'atomic' has 5 columns, or 3 more with image flags; this line "
      "has 4");
  EXPECT_EQ(data_error(kHeader + "Atoms # dielectric\n\n1 1 0 0\n", sic),
            "file:8: atom style 'dielectric' is not one of atomic, charge, molecular, full");
  EXPECT_EQ(data_error(kHeader + "Atoms\n\n1 1 1 0 0 0\n", sic)
                .rfind("file:10: cannot tell the atom style", 0),
            0u);
  EXPECT_EQ(data_error(kHeader + "Atomz\n\n1 1 0 0 0\n", sic),
            "file:8: 'Atomz' is neither a header line nor a section of a LAMMPS data file");
  EXPECT_EQ(data_error("t\n1 atoms\n2 1 xlo xhi\n"),
            "file:3: the upper bound of the cell is not above the lower one");
  EXPECT_EQ(data_error("t\n0 atom types\n"), "file:2: the number of atom types must be at least 1");
  EXPECT_EQ(data_error("t\n99999999999 atoms\n"),
            "file:2: '99999999999' is not a whole number (number of atoms)");
}

TEST(LammpsData, ErrorsOfTheWholeFile) {
  const StructureOptions sic = with_elements({"Si", "C"});
  const std::string one = "Atoms # atomic\n\n1 1 0 0 0\n";
  EXPECT_EQ(data_error(kHeader + one, sic), "file: the header promises 2 atoms, the file has 1");
  EXPECT_EQ(data_error(kHeader + one + "1 2 1 1 1\n", sic), "file: atom ID 1 occurs twice");
  EXPECT_EQ(
      data_error(kHeader + one + "2 2 1 1 1\n"),
      "file: the file does not name the elements of its 2 atom types: give them in the order of "
      "the types, as in --elements Si,C");
  EXPECT_EQ(data_error(kHeader + one + "2 2 1 1 1\n", with_elements({"Si"})),
            "file: the file has 2 atom types, but 1 elements are given");
  EXPECT_EQ(data_error("t\n1 atoms\n1 atom types\n\n" + one, with_elements({"Si"})),
            "file: the header lacks a bound of the cell (xlo xhi, ylo yhi, zlo zhi)");
  EXPECT_EQ(data_error("title only\n"), "file: no line 'N atoms': this is no LAMMPS data file");
}

TEST(Xyz, ReadsExtendedFrames) {
  const auto frames = xyz(
      "2\nLattice=\"3 0 0 0.5 4 0 -1 0.25 5\" Properties=species:S:1:charge:R:1:pos:R:3:aparam:R:2 "
      "energy=-1.5 pbc=\"T F T\" note='a b'\n"
      "Si 0.5 1 2 3 0.1 0.2\nC -0.5 4 5 6 0.3 0.4\n"
      "1\nProperties=species:S:1:pos:R:3\nO 1e-3 -2 +3\n\n");
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].name, "frame 1");
  EXPECT_EQ(frames[0].element, (Names{"Si", "C"}));
  EXPECT_EQ(frames[0].x, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(frames[0].aparam, (std::vector<double>{0.1, 0.2, 0.3, 0.4}));
  EXPECT_EQ(frames[0].cell.vectors, (Vectors{{{3, 0, 0}, {0.5, 4, 0}, {-1, 0.25, 5}}}));
  EXPECT_EQ(frames[0].cell.periodic, (std::array<bool, 3>{true, false, true}));
  EXPECT_EQ(frames[1].element, Names{"O"});
  EXPECT_EQ(frames[1].x, (std::vector<double>{1e-3, -2, 3}));
  EXPECT_EQ(frames[1].cell.periodic, (std::array<bool, 3>{false, false, false}));
}

TEST(Xyz, ReadsPlainFrames) {
  const auto frames = xyz("1\nfree text, with = signs\nCu 1 2 3 0.1 0.2 0.3\n");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].x, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(frames[0].cell.periodic, (std::array<bool, 3>{false, false, false}));
}

TEST(Xyz, ALatticeAloneIsPeriodic) {
  const auto frames = xyz("1\nlattice={2 0 0 0 2 0 0 0 2}\nCu 0 0 0\n");
  EXPECT_EQ(frames[0].cell.periodic, (std::array<bool, 3>{true, true, true}));
  StructureOptions options;
  options.periodic = {false, false, true};
  EXPECT_EQ(xyz("1\nLattice=\"2 0 0 0 2 0 0 0 2\"\nCu 0 0 0\n", options)[0].cell.periodic,
            (std::array<bool, 3>{false, false, true}));
}

TEST(Xyz, ErrorsNameTheLine) {
  EXPECT_EQ(xyz_error(""), "file: no frame in this file");
  EXPECT_EQ(xyz_error("x\n"), "file:1: 'x' is not a whole number (number of atoms)");
  EXPECT_EQ(xyz_error("1 2\n"), "file:1: expected the number of atoms of the next frame");
  EXPECT_EQ(xyz_error("-1\n\n"), "file:1: the number of atoms is negative");
  EXPECT_EQ(xyz_error("2\n\nCu 0 0 0\n"), "file:3: the file ends after 1 of 2 atoms of frame 1");
  EXPECT_EQ(xyz_error("1\n\nCu 0 0\n"), "file:3: this line has 3 columns instead of 4");
  EXPECT_EQ(xyz_error("1\n\nCu 0 0 inf\n"), "file:3: 'inf' is not a finite number (position)");
  EXPECT_EQ(xyz_error("1\nLattice=\"1 0 0\"\nCu 0 0 0\n"), "file:2: Lattice must have 9 numbers");
  EXPECT_EQ(xyz_error("1\nLattice=\"1 0 0\nCu 0 0 0\n"),
            "file:2: the value of 'lattice' has no closing quote or bracket");
  EXPECT_EQ(xyz_error("1\npbc=\"T T T\"\nCu 0 0 0\n"),
            "file:2: pbc is periodic, but there is no Lattice");
  EXPECT_EQ(xyz_error("1\npbc=\"F F maybe\"\nCu 0 0 0\n"),
            "file:2: 'maybe' in pbc is neither T nor F");
  EXPECT_EQ(xyz_error("1\nProperties=species:S:1:pos:R:2\nCu 0 0\n"),
            "file:2: property 'pos' must have 3 columns");
  EXPECT_EQ(xyz_error("1\nProperties=pos:R:3\n0 0 0\n"), "file:2: Properties has no 'species'");
  EXPECT_EQ(xyz_error("1\nProperties=species:S:1:pos:R:3\nCu 0 0 0 0\n"),
            "file:3: this line has 5 columns instead of 4");
}

TEST(ReadStructures, SaysWhyAFileCannotBeRead) {
  EXPECT_EQ(error_of([] { read_structures("/nowhere/x.data", {}); }),
            "/nowhere/x.data: cannot open this file");
  EXPECT_EQ(error_of([] { read_structures("/", {}); }), "/: this is a folder, not a file");
}

/// Changes, drops or repeats a few characters.
std::string mutated(std::string text, std::mt19937& engine) {
  const std::string letters = "0123456789.-+eE #\n\t=\":,anifAtoms\0\xff";
  const int n_changes = 1 + static_cast<int>(engine() % 4);
  for (int k = 0; k < n_changes && !text.empty(); ++k) {
    const std::size_t at = engine() % text.size();
    switch (engine() % 4) {
      case 0:
        text[at] = letters[engine() % letters.size()];
        break;
      case 1:
        text.erase(at, 1 + engine() % 20);
        break;
      case 2:
        text.insert(at, text.substr(engine() % text.size(), engine() % 30));
        break;
      case 3:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST(Readers, BrokenFilesAreReadOrRefusedButNeverCrash) {
  const std::string valid_data = kHeader +
                                 "0.5 -0.25 1.5 xy xz yz\n\nAtom Type Labels\n\n1 Si\n2 C\n\n"
                                 "Masses\n\n1 28.0855 # Si\n2 12.011 # C\n\nAtoms # atomic\n\n"
                                 "7 2 0.1 0.2 0.3 0 -1 2\n3 1 1.5 2.5 3.5\n";
  const std::string valid_xyz =
      "2\nLattice=\"3 0 0 0.5 4 0 -1 0.25 5\" Properties=species:S:1:pos:R:3:aparam:R:2 pbc=\"T F "
      "T\"\n"
      "Si 1 2 3 0.1 0.2\nC 4 5 6 0.3 0.4\n1\nfree\nO 1 2 3\n";
  std::mt19937 engine(1);
  int n_refused = 0;
  constexpr int kFiles = 4000;
  for (int k = 0; k < kFiles; ++k) {
    const std::string text = mutated(k % 2 == 0 ? valid_data : valid_xyz, engine);
    try {
      const std::vector<Structure> frames = k % 2 == 0 ? std::vector{data(text)} : xyz(text);
      for (const Structure& frame : frames) {
        ASSERT_EQ(frame.x.size(), 3 * frame.element.size()) << text;
        for (const double value : frame.x) ASSERT_TRUE(std::isfinite(value)) << text;
      }
    } catch (const InputError& error) {
      ASSERT_EQ(std::string(error.what()).rfind("file:", 0), 0u) << error.what();
      ++n_refused;
    }
  }
  EXPECT_GT(n_refused, kFiles / 4);
  EXPECT_LT(n_refused, kFiles) << "some changes are harmless";
}

}  // namespace
}  // namespace dpa4::tools
