// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/support/pickle_writer.h"

#include <bit>

namespace dpa4::testing {

namespace {

class Writer {
 public:
  explicit Writer(int protocol) : protocol_(protocol) {}

  std::vector<char> write(const Py& object) {
    byte(0x80);
    byte(protocol_);
    if (protocol_ >= 4) {
      byte(0x95);  // FRAME; its length is only a hint for buffering
      unsigned_number<std::uint64_t>(0);
    }
    value(object);
    byte('.');
    return out_;
  }

 private:
  void byte(int value) { out_.push_back(static_cast<char>(value)); }

  template <class Unsigned>
  void unsigned_number(Unsigned value) {
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i)
      byte(static_cast<int>(value >> (8 * i) & 0xff));
  }

  void text(const std::string& value) {
    if (protocol_ >= 4 && value.size() < 256) {
      byte(0x8c);
      byte(static_cast<int>(value.size()));
    } else {
      byte('X');
      unsigned_number(static_cast<std::uint32_t>(value.size()));
    }
    out_.insert(out_.end(), value.begin(), value.end());
    memoize();
  }

  void memoize() {
    if (protocol_ >= 4) {
      byte(0x94);
    } else {
      byte('r');
      unsigned_number(next_memo_);
    }
    ++next_memo_;
  }

  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      byte('K');
      byte(static_cast<int>(value));
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      byte('J');
      unsigned_number(static_cast<std::uint32_t>(value));
    } else {
      byte(0x8a);
      byte(8);
      unsigned_number(static_cast<std::uint64_t>(value));
    }
  }

  void real(double value) {
    byte('G');
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int i = 7; i >= 0; --i) byte(static_cast<int>(bits >> (8 * i) & 0xff));
  }

  void marked(const std::vector<Py>& items, int closing) {
    byte('(');
    for (const Py& item : items) value(item);
    byte(closing);
  }

  void tuple(const std::vector<Py>& items, std::size_t first) {
    const std::size_t n = items.size() - first;
    if (n == 0) {
      byte(')');
      return;
    }
    if (n > 3) byte('(');
    for (std::size_t i = first; i < items.size(); ++i) value(items[i]);
    byte(n > 3 ? 't' : 0x84 + static_cast<int>(n));
    memoize();
  }

  void global(const Py& object) {
    if (protocol_ >= 4) {
      text(object.module);
      text(object.text);
      byte(0x93);
    } else {
      byte('c');
      for (const std::string& line : {object.module, object.text}) {
        out_.insert(out_.end(), line.begin(), line.end());
        byte('\n');
      }
    }
    memoize();
  }

  void value(const Py& object) {
    switch (object.kind) {
      case Py::Kind::kNone:
        byte('N');
        break;
      case Py::Kind::kBool:
        byte(object.number != 0 ? 0x88 : 0x89);
        break;
      case Py::Kind::kInt:
        integer(object.number);
        break;
      case Py::Kind::kFloat:
        real(object.real);
        break;
      case Py::Kind::kText:
        text(object.text);
        break;
      case Py::Kind::kList:
        byte(']');
        memoize();
        marked(object.items, 'e');
        break;
      case Py::Kind::kTuple:
        tuple(object.items, 0);
        break;
      case Py::Kind::kDict:
        byte('}');
        memoize();
        marked(object.items, 'u');
        break;
      case Py::Kind::kGlobal:
        global(object);
        break;
      case Py::Kind::kCall:
        value(object.items[0]);
        tuple(object.items, 1);
        byte('R');
        memoize();
        break;
      case Py::Kind::kPersistent:
        tuple(object.items, 0);
        byte('Q');
        break;
    }
  }

  int protocol_;
  std::uint32_t next_memo_ = 0;
  std::vector<char> out_;
};

}  // namespace

Py Py::dict(const std::vector<std::pair<std::string, Py>>& entries) {
  Py object(Kind::kDict, {});
  for (const auto& [key, value] : entries) object[key] = value;
  return object;
}

Py Py::ints(const std::vector<std::int64_t>& values) {
  Py object(Kind::kTuple, {});
  for (std::int64_t value : values) object.items.emplace_back(value);
  return object;
}

Py Py::global(const std::string& module, const std::string& name) {
  Py object(Kind::kGlobal, {});
  object.module = module;
  object.text = name;
  return object;
}

Py Py::call(Py callee, std::vector<Py> arguments) {
  arguments.insert(arguments.begin(), std::move(callee));
  return Py(Kind::kCall, std::move(arguments));
}

Py Py::persistent(std::vector<Py> id) { return Py(Kind::kPersistent, std::move(id)); }

Py& Py::operator[](const std::string& key) {
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].text == key) return items[i + 1];
  }
  items.emplace_back(key);
  items.emplace_back();
  return items.back();
}

void Py::erase(const std::string& key) {
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].text != key) continue;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(i),
                items.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    return;
  }
}

std::vector<char> pickle(const Py& object, int protocol) { return Writer(protocol).write(object); }

}  // namespace dpa4::testing
