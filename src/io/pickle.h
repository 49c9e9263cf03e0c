// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dpa4::io::pickle {

enum class Kind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kBytes,
  kList,   // Python lists
  kTuple,  // tuples, sets, torch.Size
  kDict,   // dicts and OrderedDicts
  kTensor,
  kStorage,
  kGlobal,  // a class or function, known only by its name
  kOpaque,  // an object of a foreign class: it was not built, only its class name is kept
  kMark,    // internal to the reader
};

struct List;
struct Dict;
struct Tensor;
struct Storage;
struct Global;

/// A Python object of a pickle: a small handle; what it refers to lives as long as its Document.
class Value {
 public:
  Value() : kind_(Kind::kNone), integer_(0) {}
  explicit Value(Kind kind) : kind_(kind), integer_(0) {}
  explicit Value(bool value) : kind_(Kind::kBool), integer_(value ? 1 : 0) {}
  explicit Value(std::int64_t value) : kind_(Kind::kInt), integer_(value) {}
  explicit Value(double value) : kind_(Kind::kFloat), real_(value) {}
  Value(Kind kind, std::string_view text)
      : kind_(kind), length_(static_cast<std::uint32_t>(text.size())), text_(text.data()) {}
  Value(Kind kind, List* list) : kind_(kind), list_(list) {}
  explicit Value(Dict* dict) : kind_(Kind::kDict), dict_(dict) {}
  explicit Value(const Tensor* tensor) : kind_(Kind::kTensor), tensor_(tensor) {}
  explicit Value(const Storage* storage) : kind_(Kind::kStorage), storage_(storage) {}
  Value(Kind kind, const Global* global) : kind_(kind), global_(global) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool boolean() const { return integer_ != 0; }
  std::int64_t integer() const { return integer_; }
  double real() const { return real_; }
  std::string_view text() const { return {text_, length_}; }
  std::span<const Value> items() const;  // kList, kTuple
  const Dict& dict() const { return *dict_; }
  const Tensor& tensor() const { return *tensor_; }
  const Storage& storage() const { return *storage_; }
  std::string global_name() const;  // kGlobal, kOpaque: "module.name"

 private:
  friend class Machine;
  Kind kind_;
  std::uint32_t length_ = 0;
  union {
    std::int64_t integer_;
    double real_;
    const char* text_;
    List* list_;
    Dict* dict_;
    const Tensor* tensor_;
    const Storage* storage_;
    const Global* global_;
  };
};

struct List {
  std::vector<Value> items;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;

  /// The value of a text key (the last one set), or null.
  const Value* find(std::string_view key) const;
};

struct Global {
  std::string_view module;
  std::string_view name;
};

enum class ScalarType : std::uint8_t {
  kBool,
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kUntyped,
};

std::size_t size_of(ScalarType type);
const char* name_of(ScalarType type);
bool is_floating(ScalarType type);

/// A block of numbers stored beside the pickle under `key`; nothing of it has been read.
struct Storage {
  ScalarType type = ScalarType::kUntyped;
  std::string_view key;
  std::int64_t numel = 0;  // elements; bytes for kUntyped
};

/// A strided view of a storage. All numbers are as in the file: nothing has been checked.
struct Tensor {
  const Storage* storage = nullptr;
  ScalarType type = ScalarType::kUntyped;
  std::int64_t offset = 0;  // in elements
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;
};

/// A parsed pickle with everything its values refer to.
class Document {
 public:
  explicit Document(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
  const Value& root() const { return root_; }

 private:
  friend class Machine;
  std::vector<char> bytes_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Tensor> tensors_;
  std::deque<Storage> storages_;
  std::deque<Global> globals_;
  Value root_;
};

/// Reads a pickle of protocol 2 to 5 as `torch.save` writes it. Nothing is imported, called or
/// executed: the only constructions understood are OrderedDict, torch's tensor rebuilding and plain
/// containers; every other class becomes an opaque value. Globals that reach for the system (os,
/// subprocess, eval, ...) are refused wherever they stand. Memory is proportional to bytes.size(),
/// nesting costs no stack. Throws InputError starting with `path`.
std::unique_ptr<Document> parse(std::vector<char> bytes, const std::string& path);

}  // namespace dpa4::io::pickle
