// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/support/lammps_reference.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace dpa4::test {
namespace {

template <class Range>
void append_numbers(const nlohmann::json& json, Range add) {
  if (json.is_array()) {
    for (const nlohmann::json& entry : json) append_numbers(entry, add);
  } else {
    add(json.get<double>());
  }
}

std::vector<double> flattened(const nlohmann::json& json) {
  std::vector<double> values;
  append_numbers(json, [&](double value) { values.push_back(value); });
  return values;
}

template <std::size_t kSize>
std::array<double, kSize> fixed(const nlohmann::json& json) {
  const std::vector<double> values = flattened(json);
  if (values.size() != kSize) throw std::runtime_error("reference file: wrong number of values");
  std::array<double, kSize> result;
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

ReferenceResult read_result(const nlohmann::json& json) {
  return {json.at("energy"), flattened(json.at("atom_energy")), flattened(json.at("force")),
          fixed<9>(json.at("virial"))};
}

}  // namespace

Reference read_reference(const std::string& name) {
  const std::string root = DPA4_SOURCE_DIR;
  std::ifstream file(root + "/tests/data/reference/" + name + ".json");
  const nlohmann::json json = nlohmann::json::parse(file);
  Reference reference;
  reference.name = name;
  reference.data_file = root + "/tests/data/reference/" + name + ".data";
  reference.model_file = root + "/potentials/" + name + ".pt";
  for (const auto& element : json.at("type_map")) {
    reference.elements += " " + element.get<std::string>();
  }
  reference.timestep = json.at("timestep");
  reference.float64 = read_result(json.at("step0").at("float64"));
  reference.float32 = read_result(json.at("step0").at("float32"));
  for (const nlohmann::json& line : json.at("thermo_float64")) {
    reference.thermo.push_back(
        {line.at("pe"), line.at("ke"), line.at("etotal"), fixed<6>(line.at("press"))});
  }
  return reference;
}

std::vector<ThermoLine> thermo_lines(const std::string& log) {
  std::vector<ThermoLine> lines;
  std::istringstream stream(log);
  bool inside = false;
  for (std::string text; std::getline(stream, text);) {
    std::istringstream words(text);
    std::string first;
    words >> first;
    if (first == "Step") {
      inside = true;
    } else if (first == "Loop") {
      inside = false;
    } else if (inside) {
      ThermoLine line;
      words >> line.pe >> line.ke >> line.etotal;
      for (double& value : line.pressure) words >> value;
      if (words) lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace dpa4::test
