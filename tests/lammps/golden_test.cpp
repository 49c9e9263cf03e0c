// SPDX-License-Identifier: GPL-2.0-or-later
// Every golden model through LAMMPS: small cells in which atoms are neighbors of their own images,
// on several ranks. Each option of the network exchanges its rows in its own places.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/lammps_driver.h"

namespace dpa4::test {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;  // rows

const std::string kGolden = DPA4_SOURCE_DIR "/tests/data/golden/";

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

Vector scaled(const Vector& a, double factor) {
  return {factor * a[0], factor * a[1], factor * a[2]};
}

/// The axes of LAMMPS' frame in the frame of the cell: a along x, b in the xy plane, c towards +z.
Matrix lammps_axes(const Matrix& cell) {
  const Vector x = scaled(cell[0], 1 / std::sqrt(dot(cell[0], cell[0])));
  const Vector normal = cross(cell[0], cell[1]);
  const double sign = dot(normal, cell[2]) < 0 ? -1 : 1;
  const Vector z = scaled(normal, sign / std::sqrt(dot(normal, normal)));
  const Vector along = scaled(x, dot(x, cell[1]));
  Vector y{cell[1][0] - along[0], cell[1][1] - along[1], cell[1][2] - along[2]};
  y = scaled(y, 1 / std::sqrt(dot(y, y)));
  return {x, y, z};
}

Vector rotated(const Matrix& axes, const Vector& v) {
  return {dot(axes[0], v), dot(axes[1], v), dot(axes[2], v)};
}

/// axes w axes^T
std::array<double, 9> rotated(const Matrix& axes, const double* w) {
  std::array<double, 9> result{};
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      for (int c = 0; c < 3; ++c) {
        for (int d = 0; d < 3; ++d) {
          result[3 * a + b] += axes[a][c] * w[3 * c + d] * axes[b][d];
        }
      }
    }
  }
  return result;
}

/// The image of r in a cell of LAMMPS' orientation: row k has no component along axes after k.
Vector moved_into(const Matrix& cell, const Vector& r) {
  Vector rest = r;  // r without its multiples of c, then b, then a
  Vector image = r;
  for (int k = 2; k >= 0; --k) {
    const double fraction = rest[k] / cell[k][k];
    for (int axis = 0; axis < 3; ++axis) {
      rest[axis] -= fraction * cell[k][axis];
      image[axis] -= std::floor(fraction) * cell[k][axis];
    }
  }
  return image;
}

void append_numbers(const nlohmann::json& json, std::vector<double>& values) {
  if (!json.is_array()) {
    values.push_back(json.get<double>());
    return;
  }
  for (const nlohmann::json& entry : json) append_numbers(entry, values);
}

std::vector<double> numbers(const nlohmann::json& json) {
  std::vector<double> values;
  append_numbers(json, values);
  return values;
}

/// Commands that make a frame's cell and atoms, IDs in the frame's order, in LAMMPS' orientation.
/// Frames without a cell get open boundaries far away.
std::string frame_commands(const nlohmann::json& frame, Matrix& axes) {
  const std::vector<double> x = numbers(frame.at("coord"));
  const std::vector<int> type = frame.at("type");
  axes = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  std::ostringstream out;
  out.precision(17);
  out << "units metal\natom_modify map array\nbox tilt large\n";
  Matrix cell{};
  const bool periodic = !frame.at("cell").is_null();
  if (periodic) {
    const std::vector<double> rows = numbers(frame.at("cell"));
    for (int k = 0; k < 9; ++k) cell[k / 3][k % 3] = rows[k];
    axes = lammps_axes(cell);
    for (Vector& row : cell) row = rotated(axes, row);
    out << "region box prism 0 " << cell[0][0] << " 0 " << cell[1][1] << " 0 " << cell[2][2] << " "
        << cell[1][0] << " " << cell[2][0] << " " << cell[2][1] << " units box\n";
  } else {
    out << "boundary f f f\nregion box block -80 80 -80 80 -80 80 units box\n";
  }
  out << "create_box 3 box\nmass * 20.0\n";
  for (std::size_t n = 0; n < type.size(); ++n) {
    Vector r = rotated(axes, {x[3 * n], x[3 * n + 1], x[3 * n + 2]});
    if (periodic) r = moved_into(cell, r);
    out << "create_atoms " << type[n] + 1 << " single " << r[0] << " " << r[1] << " " << r[2]
        << " units box\n";
  }
  return out.str();
}

/// Keywords of the pair style; per-atom conditions are set as a property of the atoms before.
std::string conditions_of(const nlohmann::json& frame) {
  std::ostringstream out;
  out.precision(17);
  for (const char* name : {"fparam", "charge_spin"}) {
    if (!frame.contains(name) || frame.at(name).is_null()) continue;
    out << " " << name;
    for (double value : numbers(frame.at(name))) out << " " << value;
  }
  if (frame.contains("aparam") && !frame.at("aparam").is_null()) out << " aparam_from_compute own";
  return out.str();
}

/// The commands that give each atom its aparam, one value an atom.
std::string aparam_commands(const nlohmann::json& frame) {
  if (!frame.contains("aparam") || frame.at("aparam").is_null()) return "";
  std::ostringstream out;
  out.precision(17);
  out << "fix own all property/atom d_aparam ghost no\ncompute own all property/atom d_aparam\n";
  const std::vector<double> values = numbers(frame.at("aparam"));
  for (std::size_t n = 0; n < values.size(); ++n) {
    out << "set atom " << n + 1 << " d_aparam " << values[n] << "\n";
  }
  return out.str();
}

/// 1e-9 absolute and relative: the acceptance of float64 arithmetic.
void expect_close(double actual, double expected, const std::string& what) {
  EXPECT_NEAR(actual, expected, 1e-9 * (1 + std::abs(expected))) << what;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void expect_values(const std::string& engine);
};

TEST_P(Golden, ModelGivesItsValuesWithTheEngineChosen) { expect_values("auto"); }

TEST_P(Golden, ModelGivesItsValuesWithTheEagerEngine) { expect_values("eager"); }

void Golden::expect_values(const std::string& engine) {
  std::ifstream file(kGolden + GetParam() + ".json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const nlohmann::json& frame : golden.at("frames")) {
    SCOPED_TRACE(frame.at("name").get<std::string>());
    Matrix axes;
    std::string elements;
    for (const auto& element : golden.at("type_map")) elements += " " + element.get<std::string>();
    Lammps lammps;
    lammps.commands("plugin load " DPA4PLUGIN_PATH "\n" + frame_commands(frame, axes) +
                    aparam_commands(frame) + "neighbor 0.5 bin\npair_style dpa4 engine " + engine +
                    " device " DPA4_TEST_DEVICE " precision float64" + conditions_of(frame) +
                    "\npair_coeff * * " + kGolden + GetParam() + ".pt" + elements + "\n");
    lammps.watch(true);
    lammps.commands("run 0");
    const Snapshot atoms = lammps.snapshot();

    const nlohmann::json& expected = frame.at("float64");
    const std::vector<double> force = numbers(expected.at("force"));
    const std::vector<double> atom_energy = numbers(expected.at("atom_energy"));
    const std::vector<double> atom_virial = numbers(expected.at("atom_virial"));
    ASSERT_EQ(atoms.f.size(), force.size());
    const double energy = expected.at("energy");
    EXPECT_NEAR(atoms.energy, energy, 1e-10 * std::abs(energy));
    for (int n = 0; n < atoms.n_atoms(); ++n) {
      const std::string atom = " of atom " + std::to_string(n);
      expect_close(atoms.atom_energy[n], atom_energy[n], "energy" + atom);
      const Vector f = rotated(axes, {force[3 * n], force[3 * n + 1], force[3 * n + 2]});
      for (int k = 0; k < 3; ++k) expect_close(atoms.f[3 * n + k], f[k], "force" + atom);
      const std::array<double, 9> w = rotated(axes, atom_virial.data() + 9 * n);
      static constexpr int kOrder[9] = {0, 4, 8, 3, 6, 7, 1, 2, 5};  // w[force, position]
      for (int k = 0; k < 9; ++k) {
        expect_close(atoms.centroid_virial[9 * n + k], w[kOrder[k]], "virial" + atom);
      }
    }
    const std::array<double, 9> w = rotated(axes, numbers(expected.at("virial")).data());
    // Symmetric up to 1e-13 where the network is exactly equivariant, and up to 1e-6 where
    // constants stored in float32 make it less so.
    static constexpr int kUpper[6] = {0, 4, 8, 1, 2, 5};
    static constexpr int kLower[6] = {0, 4, 8, 3, 6, 7};
    for (int k = 0; k < 6; ++k) {
      expect_close(atoms.virial[k], 0.5 * (w[kUpper[k]] + w[kLower[k]]), "virial");
    }
  }
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (entry.path().extension() == ".json") {
      names.push_back(entry.path().stem());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dpa4::test
