// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/options.h"

#include <cmath>
#include <cstdio>

#include "src/base/error.h"

namespace dpa4::io {

namespace {

using pickle::Kind;
using pickle::Value;

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "'";
  for (char c : text.substr(0, kLongest)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kLongest ? "...'" : "'");
}

std::string describe_real(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.10g", value);
  return buffer;
}

std::string describe_item(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.boolean() ? "true" : "false";
    case Kind::kInt:
      return std::to_string(value.integer());
    case Kind::kFloat:
      return describe_real(value.real());
    case Kind::kText:
      return quote(value.text());
    case Kind::kBytes:
      return "(bytes)";
    case Kind::kList:
    case Kind::kTuple:
      return "(a list of " + std::to_string(value.items().size()) + ")";
    case Kind::kDict:
      return "(a dict)";
    case Kind::kTensor:
      return "(a tensor)";
    case Kind::kGlobal:
    case Kind::kOpaque:
      return "(an object of " + quote(value.global_name()) + ")";
    default:
      return "(?)";
  }
}

bool is_list(const Value& value) { return value.is(Kind::kList) || value.is(Kind::kTuple); }

std::string range_text(int low, int high) {
  return "an integer from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

std::string describe(const Value& value) {
  constexpr std::size_t kMost = 8;
  if (!is_list(value) || value.items().size() > kMost) return describe_item(value);
  std::string out;
  for (const Value& item : value.items()) out += (out.empty() ? "" : ", ") + describe_item(item);
  return "[" + out + "]";
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

const Value* Options::find(const std::string& key) const {
  if (dict_ == nullptr) return nullptr;
  const Value* value = dict_->find(key);
  return value == nullptr || value->is(Kind::kNone) ? nullptr : value;
}

std::string Options::name(const std::string& key) const {
  return section_.empty() ? key : section_ + "." + key;
}

void Options::refuse(const std::string& key, const std::string& why) const {
  const Value* value = dict_ == nullptr ? nullptr : dict_->find(key);
  throw InputError(path_ + ": " + name(key) + " = " +
                   (value == nullptr ? std::string("(its default)") : describe(*value)) + ": " +
                   why);
}

std::int64_t Options::as_integer(const std::string& key, const Value& value, int low, int high,
                                 const std::string& expected) const {
  std::int64_t number = 0;
  if (value.is(Kind::kInt) || value.is(Kind::kBool)) {
    number = value.integer();
  } else if (value.is(Kind::kFloat) && std::abs(value.real()) < 1e9 &&
             value.real() == std::floor(value.real())) {
    number = static_cast<std::int64_t>(value.real());
  } else {
    refuse(key, "expected " + expected);
  }
  if (number < low || number > high) refuse(key, "expected " + expected);
  return number;
}

int Options::integer(const std::string& key, int fallback, int low, int high) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  return static_cast<int>(as_integer(key, *value, low, high, range_text(low, high)));
}

bool Options::boolean(const std::string& key, bool fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is(Kind::kBool)) return value->boolean();
  if (value->is(Kind::kInt) && (value->integer() == 0 || value->integer() == 1))
    return value->integer() == 1;
  refuse(key, "expected true or false");
}

double Options::positive(const std::string& key, double fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  double number = 0;
  if (value->is(Kind::kFloat)) number = value->real();
  if (value->is(Kind::kInt)) number = static_cast<double>(value->integer());
  if (!(number > 0) || !std::isfinite(number)) refuse(key, "expected a positive number");
  return number;
}

std::string Options::text(const std::string& key, const std::string& fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is(Kind::kText)) refuse(key, "expected a text");
  return std::string(value->text());
}

std::optional<std::vector<int>> Options::integers(const std::string& key, int low, int high) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string expected = "a list, each entry " + range_text(low, high);
  if (!is_list(*value)) refuse(key, "expected " + expected);
  std::vector<int> numbers;
  for (const Value& item : value->items()) {
    numbers.push_back(static_cast<int>(as_integer(key, item, low, high, expected)));
  }
  return numbers;
}

std::optional<std::vector<double>> Options::reals(const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!is_list(*value)) refuse(key, "expected a list of numbers");
  std::vector<double> numbers;
  for (const Value& item : value->items()) {
    if (item.is(Kind::kFloat)) {
      numbers.push_back(item.real());
    } else if (item.is(Kind::kInt)) {
      numbers.push_back(static_cast<double>(item.integer()));
    } else {
      refuse(key, "expected a list of numbers");
    }
    if (!std::isfinite(numbers.back())) refuse(key, "expected finite numbers");
  }
  return numbers;
}

std::vector<std::string> Options::texts(const std::string& key) const {
  const Value* value = find(key);
  std::vector<std::string> list;
  if (value == nullptr) return list;
  if (!is_list(*value)) refuse(key, "expected a list of texts");
  for (const Value& item : value->items()) {
    if (!item.is(Kind::kText)) refuse(key, "expected a list of texts");
    list.emplace_back(item.text());
  }
  return list;
}

std::vector<std::pair<int, int>> Options::pairs(const std::string& key, int low, int high) const {
  const Value* value = find(key);
  std::vector<std::pair<int, int>> list;
  if (value == nullptr) return list;
  const std::string expected = "a list of pairs, each entry " + range_text(low, high);
  if (!is_list(*value)) refuse(key, "expected " + expected);
  for (const Value& item : value->items()) {
    if (!is_list(item) || item.items().size() != 2) refuse(key, "expected " + expected);
    list.emplace_back(static_cast<int>(as_integer(key, item.items()[0], low, high, expected)),
                      static_cast<int>(as_integer(key, item.items()[1], low, high, expected)));
  }
  return list;
}

std::vector<bool> Options::booleans(const std::string& key, const std::vector<bool>& fallback,
                                    bool allow_single) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  const std::size_t n = fallback.size();
  const std::string expected = std::string("expected ") + (allow_single ? "true, false or " : "") +
                               "a list of " + std::to_string(n) + " booleans";
  if (allow_single && value->is(Kind::kBool)) return std::vector<bool>(n, value->boolean());
  if (!is_list(*value) || value->items().size() != n) refuse(key, expected);
  std::vector<bool> flags;
  for (const Value& item : value->items()) {
    if (!item.is(Kind::kBool) &&
        !(item.is(Kind::kInt) && (item.integer() == 0 || item.integer() == 1))) {
      refuse(key, expected);
    }
    flags.push_back(item.boolean());
  }
  return flags;
}

Options Options::section(const std::string& key) const {
  const Value* value = find(key);
  if (value == nullptr) return Options(path_, name(key), nullptr);
  if (!value->is(Kind::kDict)) refuse(key, "expected a dict of options");
  return Options(path_, name(key), &value->dict());
}

}  // namespace dpa4::io
