// SPDX-License-Identifier: GPL-2.0-or-later
#include "tools/reference_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "tools/structure_io.h"
#include "tools/text_reader.h"

namespace dpa4::tools {
namespace {

using Json = nlohmann::json;

/// A JSON value that knows where it stands, so that every error can say so.
class Node {
 public:
  Node(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(where_ + ": " + message);
  }

  bool has(const char* key) const {
    return json_.is_object() && json_.contains(key) && !json_.at(key).is_null();
  }

  Node at(const char* key) const {
    if (!json_.is_object()) fail("expected an object");
    if (!has(key)) fail("key '" + std::string(key) + "' is missing");
    return Node(json_.at(key), where_ + ": " + key);
  }

  std::vector<Node> items() const {
    if (!json_.is_array()) fail("expected a list");
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < json_.size(); ++i) {
      nodes.emplace_back(json_[i], where_ + "[" + std::to_string(i) + "]");
    }
    return nodes;
  }

  std::string text() const {
    if (!json_.is_string()) fail("expected a string");
    return json_.get<std::string>();
  }

  /// NaN and Infinity are no JSON: writers put null, which is no number here either.
  double number() const {
    if (!json_.is_number()) fail("expected a number");
    return json_.get<double>();
  }

  int integer() const {
    const bool whole = json_.is_number_integer();
    const std::int64_t value = whole ? json_.get<std::int64_t>() : -1;
    if (!whole || value < 0 || value > INT32_MAX) fail("expected a whole number from 0");
    return static_cast<int>(value);
  }

  /// All numbers of a list of lists of any depth, in order.
  std::vector<double> numbers() const {
    std::vector<double> values;
    append_numbers(json_, kDeepest, values);
    return values;
  }

  std::vector<double> numbers(std::size_t size) const {
    std::vector<double> values = numbers();
    if (values.size() != size) {
      fail("expected " + std::to_string(size) + " numbers, found " + std::to_string(values.size()));
    }
    return values;
  }

 private:
  static constexpr int kDeepest = 3;  // lists in lists; a file must not choose our stack's depth

  void append_numbers(const Json& json, int depth, std::vector<double>& values) const {
    if (json.is_number()) {
      values.push_back(json.get<double>());
    } else if (json.is_array() && depth > 0) {
      for (const Json& item : json) append_numbers(item, depth - 1, values);
    } else {
      fail("expected numbers");
    }
  }

  const Json& json_;
  std::string where_;
};

ReferenceResult parse_result(const Node& node, std::size_t n_atoms) {
  ReferenceResult result;
  if (node.has("n_edges")) result.n_edges = node.at("n_edges").integer();
  result.energy = node.at("energy").number();
  result.force = node.at("force").numbers(3 * n_atoms);
  result.virial = node.at("virial").numbers(9);
  if (node.has("atom_energy")) result.atom_energy = node.at("atom_energy").numbers(n_atoms);
  if (node.has("atom_virial")) result.atom_virial = node.at("atom_virial").numbers(9 * n_atoms);
  return result;
}

void parse_results(const Node& node, ReferenceFrame& frame) {
  const std::size_t n_atoms = frame.type.size();
  frame.float64 = parse_result(node.at("float64"), n_atoms);
  if (node.has("float32")) frame.float32 = parse_result(node.at("float32"), n_atoms);
}

graph::Cell parse_cell(const Node& frame) {
  if (!frame.has("cell")) return graph::Cell::open();
  const std::vector<double> numbers = frame.at("cell").numbers(9);
  std::array<std::array<double, 3>, 3> vectors{};
  for (int k = 0; k < 9; ++k) vectors[k / 3][k % 3] = numbers[k];
  return graph::Cell::periodic_3d(vectors);
}

ReferenceFrame parse_frame(const Node& node, const std::vector<std::string>& type_map,
                           std::size_t number) {
  ReferenceFrame frame;
  Structure& structure = frame.structure;
  structure.name = node.has("name") ? node.at("name").text() : "frame " + std::to_string(number);
  for (const Node& item : node.at("type").items()) {
    const int type = item.integer();
    if (type < 0 || type >= static_cast<int>(type_map.size()))
      item.fail("no such entry in type_map");
    frame.type.push_back(type);
    structure.element.push_back(type_map[type]);
  }
  structure.x = node.at("coord").numbers(3 * frame.type.size());
  structure.cell = parse_cell(node);
  if (node.has("fparam")) structure.fparam = node.at("fparam").numbers();
  if (node.has("aparam")) structure.aparam = node.at("aparam").numbers();
  if (node.has("charge_spin")) {
    const std::vector<double> values = node.at("charge_spin").numbers(2);
    structure.charge_spin = {values[0], values[1]};
  }
  parse_results(node, frame);
  return frame;
}

/// The start of a trajectory: the structure is in the data file beside the JSON file.
ReferenceFrame read_step0(const Node& root, const ReferenceFile& file) {
  StructureOptions options;
  options.elements = file.type_map;
  const std::string data_path =
      std::filesystem::path(file.path).replace_extension(".data").string();
  ReferenceFrame frame;
  frame.structure = read_structures(data_path, options).front();
  frame.structure.name = "step0";
  for (const std::string& element : frame.structure.element) {
    int type = 0;
    while (file.type_map[type] != element) ++type;
    frame.type.push_back(type);
  }
  parse_results(root.at("step0"), frame);
  if (root.has("n_edges") && !frame.float64.n_edges)
    frame.float64.n_edges = root.at("n_edges").integer();
  return frame;
}

Json parse_json(const std::string& path) {
  std::ifstream in = open_text_file(path);
  try {
    return Json::parse(in);
  } catch (const Json::exception& error) {
    // The library's own text starts with its name and an identifier of the error.
    const std::string text = error.what();
    const std::size_t begin = text.find("] ");
    throw InputError(path + ": not a JSON file: " +
                     (begin == std::string::npos ? text : text.substr(begin + 2)));
  }
}

}  // namespace

ReferenceFile read_reference_file(const std::string& path) {
  const Json json = parse_json(path);
  const Node root(json, path);
  ReferenceFile file;
  file.path = path;
  file.model = root.at("model").text();
  if (root.has("head")) file.head = root.at("head").text();
  file.rcut = root.at("rcut").number();
  for (const Node& item : root.at("type_map").items()) file.type_map.push_back(item.text());
  if (root.has("frames")) {
    for (const Node& item : root.at("frames").items()) {
      file.frames.push_back(parse_frame(item, file.type_map, file.frames.size() + 1));
    }
  } else if (root.has("step0")) {
    file.frames.push_back(read_step0(root, file));
  } else {
    root.fail("neither 'frames' nor 'step0': not a file of reference results");
  }
  if (file.frames.empty()) root.fail("'frames' is empty");
  return file;
}

std::string find_model(const ReferenceFile& file) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(file.path).parent_path();
  const fs::path name = file.model;
  const fs::path places[] = {folder / name, folder / name.filename(),
                             folder / "../../../potentials" / name.filename()};
  std::string tried;
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (fs::is_regular_file(place, ignored)) return place.lexically_normal().string();
    const std::string text = place.lexically_normal().string();
    if (tried.find("'" + text + "'") == std::string::npos) {
      tried += (tried.empty() ? "'" : ", '") + text + "'";
    }
  }
  throw InputError(file.path + ": its model is neither of " + tried + ": give it with --model");
}

}  // namespace dpa4::tools
