// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "src/base/error.h"

namespace dpa4::io::pickle {

namespace {

enum Opcode : std::uint8_t {
  kOpMark = '(',
  kOpStop = '.',
  kOpPop = '0',
  kOpPopMark = '1',
  kOpDup = '2',
  kOpBinBytes = 'B',
  kOpShortBinBytes = 'C',
  kOpBinFloat = 'G',
  kOpBinInt = 'J',
  kOpBinInt1 = 'K',
  kOpBinInt2 = 'M',
  kOpNone = 'N',
  kOpBinPersId = 'Q',
  kOpReduce = 'R',
  kOpBinString = 'T',
  kOpShortBinString = 'U',
  kOpBinUnicode = 'X',
  kOpAppend = 'a',
  kOpBuild = 'b',
  kOpGlobal = 'c',
  kOpDict = 'd',
  kOpAppends = 'e',
  kOpBinGet = 'h',
  kOpLongBinGet = 'j',
  kOpList = 'l',
  kOpBinPut = 'q',
  kOpLongBinPut = 'r',
  kOpSetItem = 's',
  kOpTuple = 't',
  kOpSetItems = 'u',
  kOpEmptyTuple = ')',
  kOpEmptyList = ']',
  kOpEmptyDict = '}',
  kOpProto = 0x80,
  kOpNewObj = 0x81,
  kOpTuple1 = 0x85,
  kOpTuple2 = 0x86,
  kOpTuple3 = 0x87,
  kOpNewTrue = 0x88,
  kOpNewFalse = 0x89,
  kOpLong1 = 0x8a,
  kOpLong4 = 0x8b,
  kOpShortBinUnicode = 0x8c,
  kOpBinUnicode8 = 0x8d,
  kOpBinBytes8 = 0x8e,
  kOpEmptySet = 0x8f,
  kOpAddItems = 0x90,
  kOpFrozenSet = 0x91,
  kOpNewObjEx = 0x92,
  kOpStackGlobal = 0x93,
  kOpMemoize = 0x94,
  kOpFrame = 0x95,
  kOpByteArray8 = 0x96,
};

/// Modules through which a pickle can do harm. We never call anything, so these could be skipped
/// like other foreign classes; a file that mentions them is an attack, and its user should know.
constexpr std::array<std::string_view, 46> kForbiddenModules = {"_posixsubprocess",
                                                                "_pyrepl",
                                                                "asyncio",
                                                                "bdb",
                                                                "code",
                                                                "codeop",
                                                                "commands",
                                                                "cProfile",
                                                                "ctypes",
                                                                "distutils",
                                                                "dis",
                                                                "ensurepip",
                                                                "ftplib",
                                                                "http",
                                                                "httplib",
                                                                "idlelib",
                                                                "imp",
                                                                "importlib",
                                                                "inspect",
                                                                "marshal",
                                                                "multiprocessing",
                                                                "nt",
                                                                "os",
                                                                "pdb",
                                                                "pip",
                                                                "pkgutil",
                                                                "popen2",
                                                                "posix",
                                                                "profile",
                                                                "pty",
                                                                "pickle",
                                                                "pydoc",
                                                                "requests",
                                                                "runpy",
                                                                "setuptools",
                                                                "shutil",
                                                                "signal",
                                                                "smtplib",
                                                                "socket",
                                                                "subprocess",
                                                                "sys",
                                                                "timeit",
                                                                "trace",
                                                                "urllib",
                                                                "webbrowser",
                                                                "zipimport"};
constexpr std::array<std::string_view, 5> kForbiddenPrefixes = {
    "torch.hub", "torch.utils.cpp_extension", "torch.utils.model_zoo", "torch._inductor",
    "numpy.testing"};
constexpr std::array<std::string_view, 13> kForbiddenNames = {"torch.load",
                                                              "torch.jit.load",
                                                              "torch.serialization.load",
                                                              "numpy.load",
                                                              "operator.attrgetter",
                                                              "operator.methodcaller",
                                                              "functools.partial",
                                                              "types.FunctionType",
                                                              "types.CodeType",
                                                              "io.open",
                                                              "_io.open",
                                                              "torch.storage._load_from_bytes",
                                                              "torch.ops.load_library"};
/// Builtins are refused except plain data types.
constexpr std::array<std::string_view, 15> kHarmlessBuiltins = {
    "bool", "bytearray", "bytes", "complex", "dict",  "float", "frozenset", "int",
    "list", "object",    "range", "set",     "slice", "str",   "tuple"};

template <std::size_t N>
bool any_of(const std::array<std::string_view, N>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool is_forbidden(std::string_view module, std::string_view name) {
  if (module == "builtins" || module == "__builtin__") return !any_of(kHarmlessBuiltins, name);
  if (any_of(kForbiddenModules, module.substr(0, module.find('.')))) return true;
  for (std::string_view prefix : kForbiddenPrefixes) {
    if (module.substr(0, prefix.size()) == prefix) return true;
  }
  return any_of(kForbiddenNames, std::string(module) + "." + std::string(name));
}

struct StorageClass {
  std::string_view name;
  ScalarType type;
};
constexpr std::array<StorageClass, 13> kStorageClasses = {{
    {"torch.FloatStorage", ScalarType::kFloat32},
    {"torch.DoubleStorage", ScalarType::kFloat64},
    {"torch.HalfStorage", ScalarType::kFloat16},
    {"torch.BFloat16Storage", ScalarType::kBFloat16},
    {"torch.LongStorage", ScalarType::kInt64},
    {"torch.IntStorage", ScalarType::kInt32},
    {"torch.ShortStorage", ScalarType::kInt16},
    {"torch.CharStorage", ScalarType::kInt8},
    {"torch.ByteStorage", ScalarType::kUint8},
    {"torch.BoolStorage", ScalarType::kBool},
    {"torch.UntypedStorage", ScalarType::kUntyped},
    {"torch.storage.UntypedStorage", ScalarType::kUntyped},
    {"torch.storage._UntypedStorage", ScalarType::kUntyped},
}};
constexpr std::array<StorageClass, 10> kDtypes = {{
    {"torch.float32", ScalarType::kFloat32},
    {"torch.float64", ScalarType::kFloat64},
    {"torch.float16", ScalarType::kFloat16},
    {"torch.bfloat16", ScalarType::kBFloat16},
    {"torch.int64", ScalarType::kInt64},
    {"torch.int32", ScalarType::kInt32},
    {"torch.int16", ScalarType::kInt16},
    {"torch.int8", ScalarType::kInt8},
    {"torch.uint8", ScalarType::kUint8},
    {"torch.bool", ScalarType::kBool},
}};

}  // namespace

std::span<const Value> Value::items() const { return list_->items; }

std::string Value::global_name() const {
  return std::string(global_->module) + "." + std::string(global_->name);
}

const Value* Dict::find(std::string_view key) const {
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->first.is(Kind::kText) && entry->first.text() == key) return &entry->second;
  }
  return nullptr;
}

std::size_t size_of(ScalarType type) {
  switch (type) {
    case ScalarType::kBool:
    case ScalarType::kUint8:
    case ScalarType::kInt8:
    case ScalarType::kUntyped:
      return 1;
    case ScalarType::kInt16:
    case ScalarType::kFloat16:
    case ScalarType::kBFloat16:
      return 2;
    case ScalarType::kInt32:
    case ScalarType::kFloat32:
      return 4;
    case ScalarType::kInt64:
    case ScalarType::kFloat64:
      return 8;
  }
  return 1;
}

const char* name_of(ScalarType type) {
  switch (type) {
    case ScalarType::kBool:
      return "bool";
    case ScalarType::kUint8:
      return "uint8";
    case ScalarType::kInt8:
      return "int8";
    case ScalarType::kInt16:
      return "int16";
    case ScalarType::kInt32:
      return "int32";
    case ScalarType::kInt64:
      return "int64";
    case ScalarType::kFloat16:
      return "float16";
    case ScalarType::kBFloat16:
      return "bfloat16";
    case ScalarType::kFloat32:
      return "float32";
    case ScalarType::kFloat64:
      return "float64";
    case ScalarType::kUntyped:
      return "bytes";
  }
  return "?";
}

bool is_floating(ScalarType type) {
  return type == ScalarType::kFloat16 || type == ScalarType::kBFloat16 ||
         type == ScalarType::kFloat32 || type == ScalarType::kFloat64;
}

/// The stack machine of the pickle format.
class Machine {
 public:
  Machine(Document& document, const std::string& path)
      : doc_(document), path_(path), at_(doc_.bytes_.data()), end_(at_ + doc_.bytes_.size()) {}

  void run() {
    if (end_ - at_ < 2 || static_cast<std::uint8_t>(*at_) != kOpProto) {
      fail("its object tree (data.pkl) is not a pickle");
    }
    while (!stopped_) step();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError(path_ + ": " + what); }
  [[noreturn]] void fail_damaged(const std::string& what) const {
    fail("the object tree (data.pkl) is damaged: " + what + " at byte " +
         std::to_string(at_ - doc_.bytes_.data()));
  }

  // ----- input

  std::string_view take(std::uint64_t n) {
    if (static_cast<std::uint64_t>(end_ - at_) < n) fail_damaged("it ends too early");
    const std::string_view piece(at_, static_cast<std::size_t>(n));
    at_ += n;
    return piece;
  }

  template <class Unsigned>
  Unsigned number() {
    const std::string_view piece = take(sizeof(Unsigned));
    Unsigned value = 0;
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
      value = static_cast<Unsigned>(
          value | static_cast<Unsigned>(static_cast<std::uint8_t>(piece[i])) << (8 * i));
    }
    return value;
  }

  std::string_view line() {
    const char* newline = static_cast<const char*>(std::memchr(at_, '\n', end_ - at_));
    if (newline == nullptr) fail_damaged("a name has no end");
    const std::string_view piece(at_, newline - at_);
    at_ = newline + 1;
    return piece;
  }

  std::string_view text(std::uint64_t n) {
    if (n > 0xffffffffu) fail_damaged("a text is longer than 4 GiB");
    return take(n);
  }

  double big_endian_double() {
    const std::string_view piece = take(8);
    std::uint64_t bits = 0;
    for (char byte : piece) bits = bits << 8 | static_cast<std::uint8_t>(byte);
    return std::bit_cast<double>(bits);
  }

  /// Integers beyond 64 bits have no use in a model; they stay opaque.
  Value long_integer(std::uint64_t n) {
    const std::string_view piece = take(n);
    if (n > 8) return Value(Kind::kOpaque, global("builtins", "int"));
    std::uint64_t bits = n > 0 && (piece[n - 1] & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = n; i-- > 0;) bits = bits << 8 | static_cast<std::uint8_t>(piece[i]);
    return Value(static_cast<std::int64_t>(bits));
  }

  // ----- stack and memo

  void push(Value value) { stack_.push_back(value); }

  Value pop() {
    if (stack_.empty() || stack_.back().is(Kind::kMark)) fail_damaged("its stack runs empty");
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }

  Value& top() {
    if (stack_.empty() || stack_.back().is(Kind::kMark)) fail_damaged("its stack runs empty");
    return stack_.back();
  }

  /// Removes everything above the last mark, and the mark.
  std::vector<Value> pop_to_mark() {
    if (marks_.empty()) fail_damaged("a mark is missing");
    const std::size_t first = marks_.back();
    marks_.pop_back();
    std::vector<Value> items(stack_.begin() + static_cast<std::ptrdiff_t>(first) + 1, stack_.end());
    stack_.resize(first);
    return items;
  }

  /// Writers number what they remember 0, 1, 2, ...; anything else is legal but rare.
  void remember(std::uint32_t index) {
    const Value value = top();
    if (index < memo_.size()) {
      memo_[index] = value;
    } else if (index == memo_.size()) {
      memo_.push_back(value);
    } else {
      sparse_memo_[index] = value;
    }
  }

  void recall(std::uint32_t index) {
    if (index < memo_.size()) {
      push(memo_[index]);
      return;
    }
    const auto found = sparse_memo_.find(index);
    if (found == sparse_memo_.end()) fail_damaged("it refers to an object that does not exist");
    push(found->second);
  }

  // ----- objects

  const Global* global(std::string_view module, std::string_view name) {
    doc_.globals_.push_back({module, name});
    return &doc_.globals_.back();
  }

  Value tuple(std::vector<Value> items) {
    doc_.lists_.push_back({std::move(items)});
    return Value(Kind::kTuple, &doc_.lists_.back());
  }

  Value empty_list() {
    doc_.lists_.emplace_back();
    return Value(Kind::kList, &doc_.lists_.back());
  }

  Value empty_dict() {
    doc_.dicts_.emplace_back();
    return Value(&doc_.dicts_.back());
  }

  void push_global(std::string_view module, std::string_view name) {
    constexpr std::size_t kLongest = 256;
    if (module.size() > kLongest || name.size() > kLongest)
      fail_damaged("a class name is too long");
    if (is_forbidden(module, name)) {
      fail("it holds a reference to '" + printable(module) + "." + printable(name) +
           "', which no model needs and which could run commands: do not use this file");
    }
    push(Value(Kind::kGlobal, global(module, name)));
  }

  static std::string printable(std::string_view text) {
    std::string out;
    for (char c : text) out += c >= ' ' && c <= '~' ? c : '?';
    return out;
  }

  void append(const Value& list, const Value& item) {
    if (list.is(Kind::kList) || list.is(Kind::kTuple)) {
      list.list_->items.push_back(item);
    } else if (!list.is(Kind::kOpaque)) {
      fail_damaged("an item is appended to something that is no list");
    }
  }

  void set_item(const Value& dict, const Value& key, const Value& value) {
    if (dict.is(Kind::kDict)) {
      dict.dict_->entries.emplace_back(key, value);
    } else if (!dict.is(Kind::kOpaque)) {
      fail_damaged("an entry is set in something that is no dict");
    }
  }

  /// What calling `callee(*arguments)` would give, if that is one of the few constructions we know.
  Value construct(const Value& callee, const Value& arguments) {
    if (!arguments.is(Kind::kTuple)) fail_damaged("a construction has no arguments");
    if (!callee.is(Kind::kGlobal)) {
      if (callee.is(Kind::kOpaque)) return callee;
      fail_damaged("something that is no class is constructed");
    }
    const std::string name = callee.global_name();
    const std::span<const Value> args = arguments.items();
    // Items arrive later, through SETITEMS; a list of pairs as argument is not what torch.save
    // writes.
    if (name == "collections.OrderedDict" && args.empty()) return empty_dict();
    if (is_tensor_builder(name)) return tensor(name, args);
    if (name == "torch._utils._rebuild_parameter" ||
        name == "torch._utils._rebuild_parameter_with_state") {
      if (!args.empty() && args[0].is(Kind::kTensor)) return args[0];
    }
    if (name == "torch._tensor._rebuild_from_type_v2" && args.size() >= 3 &&
        args[2].is(Kind::kTuple) && args[0].is(Kind::kGlobal) &&
        is_tensor_builder(args[0].global_name())) {
      return tensor(args[0].global_name(), args[2].items());
    }
    if (name == "torch.Size" && args.size() == 1 && args[0].is(Kind::kTuple)) return args[0];
    return Value(Kind::kOpaque, callee.global_);
  }

  static bool is_tensor_builder(const std::string& name) {
    return name == "torch._utils._rebuild_tensor_v2" || name == "torch._utils._rebuild_tensor" ||
           name == "torch._utils._rebuild_tensor_v3";
  }

  std::vector<std::int64_t> extents(const Value& value) {
    constexpr std::size_t kMaxRank = 16;
    std::vector<std::int64_t> numbers;
    if ((!value.is(Kind::kTuple) && !value.is(Kind::kList)) || value.items().size() > kMaxRank) {
      fail_damaged("a tensor has a bad shape");
    }
    for (const Value& item : value.items()) {
      if (!item.is(Kind::kInt)) fail_damaged("a tensor has a bad shape");
      numbers.push_back(item.integer());
    }
    return numbers;
  }

  Value tensor(const std::string& function, std::span<const Value> args) {
    if (args.size() < 4 || !args[0].is(Kind::kStorage) || !args[1].is(Kind::kInt)) {
      fail_damaged("a tensor is incomplete");
    }
    Tensor made;
    made.storage = &args[0].storage();
    made.type = made.storage->type;
    made.offset = args[1].integer();
    made.shape = extents(args[2]);
    made.stride = extents(args[3]);
    if (function == "torch._utils._rebuild_tensor_v3") {
      if (args.size() < 7 || !args[6].is(Kind::kGlobal)) fail_damaged("a tensor has no type");
      const auto found = std::find_if(
          kDtypes.begin(), kDtypes.end(),
          [&](const StorageClass& each) { return each.name == args[6].global_name(); });
      if (found == kDtypes.end()) return Value(Kind::kOpaque, args[6].global_);
      made.type = found->type;
    }
    doc_.tensors_.push_back(std::move(made));
    return Value(&doc_.tensors_.back());
  }

  /// ("storage", class, key, location, count); the location, e.g. "cuda:3", does not matter to us.
  Value persistent(const Value& id) {
    if (!id.is(Kind::kTuple) || id.items().size() < 5)
      fail_damaged("an external object is unknown");
    const std::span<const Value> parts = id.items();
    if (!parts[0].is(Kind::kText) || parts[0].text() != "storage" || !parts[1].is(Kind::kGlobal) ||
        !parts[2].is(Kind::kText) || !parts[4].is(Kind::kInt)) {
      fail_damaged("an external object is unknown");
    }
    const auto found =
        std::find_if(kStorageClasses.begin(), kStorageClasses.end(),
                     [&](const StorageClass& each) { return each.name == parts[1].global_name(); });
    // Exotic numbers (complex, quantized) may occur in parts of a checkpoint that nobody reads.
    const ScalarType type = found == kStorageClasses.end() ? ScalarType::kUntyped : found->type;
    doc_.storages_.push_back({type, parts[2].text(), parts[4].integer()});
    return Value(&doc_.storages_.back());
  }

  // ----- opcodes

  void step() {
    const auto opcode = number<std::uint8_t>();
    if (!scalar_opcode(opcode) && !memory_opcode(opcode) && !container_opcode(opcode) &&
        !item_opcode(opcode) && !object_opcode(opcode)) {
      fail_damaged("opcode " + std::to_string(opcode) + " is none that torch.save uses,");
    }
  }

  bool scalar_opcode(std::uint8_t opcode) {
    switch (opcode) {
      case kOpNone:
        push(Value());
        return true;
      case kOpNewTrue:
        push(Value(true));
        return true;
      case kOpNewFalse:
        push(Value(false));
        return true;
      case kOpBinInt:
        push(Value(std::int64_t{static_cast<std::int32_t>(number<std::uint32_t>())}));
        return true;
      case kOpBinInt1:
        push(Value(std::int64_t{number<std::uint8_t>()}));
        return true;
      case kOpBinInt2:
        push(Value(std::int64_t{number<std::uint16_t>()}));
        return true;
      case kOpLong1:
        push(long_integer(number<std::uint8_t>()));
        return true;
      case kOpLong4:
        push(long_integer(number<std::uint32_t>()));
        return true;
      case kOpBinFloat:
        push(Value(big_endian_double()));
        return true;
      case kOpShortBinString:
      case kOpShortBinUnicode:
        push(Value(Kind::kText, text(number<std::uint8_t>())));
        return true;
      case kOpBinString:
      case kOpBinUnicode:
        push(Value(Kind::kText, text(number<std::uint32_t>())));
        return true;
      case kOpBinUnicode8:
        push(Value(Kind::kText, text(number<std::uint64_t>())));
        return true;
      case kOpShortBinBytes:
        push(Value(Kind::kBytes, text(number<std::uint8_t>())));
        return true;
      case kOpBinBytes:
        push(Value(Kind::kBytes, text(number<std::uint32_t>())));
        return true;
      case kOpBinBytes8:
      case kOpByteArray8:
        push(Value(Kind::kBytes, text(number<std::uint64_t>())));
        return true;
      default:
        return false;
    }
  }

  bool memory_opcode(std::uint8_t opcode) {
    switch (opcode) {
      case kOpProto:
        if (const int version = number<std::uint8_t>(); version < 2 || version > 5) {
          fail("its object tree uses pickle protocol " + std::to_string(version) +
               "; 2 to 5 are read");
        }
        return true;
      case kOpFrame:
        number<std::uint64_t>();
        return true;
      case kOpStop:
        doc_.root_ = pop();
        stopped_ = true;
        return true;
      case kOpMark:
        marks_.push_back(stack_.size());
        stack_.push_back(Value(Kind::kMark));
        return true;
      case kOpPop:
        if (!stack_.empty() && stack_.back().is(Kind::kMark)) {
          pop_to_mark();
        } else {
          pop();
        }
        return true;
      case kOpPopMark:
        pop_to_mark();
        return true;
      case kOpDup:
        push(top());
        return true;
      case kOpBinPut:
        remember(number<std::uint8_t>());
        return true;
      case kOpLongBinPut:
        remember(number<std::uint32_t>());
        return true;
      case kOpMemoize:
        remember(static_cast<std::uint32_t>(memo_.size() + sparse_memo_.size()));
        return true;
      case kOpBinGet:
        recall(number<std::uint8_t>());
        return true;
      case kOpLongBinGet:
        recall(number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }

  bool container_opcode(std::uint8_t opcode) {
    switch (opcode) {
      case kOpEmptyTuple:
        push(tuple({}));
        return true;
      case kOpEmptySet:
        push(tuple({}));
        return true;
      case kOpEmptyList:
        push(empty_list());
        return true;
      case kOpEmptyDict:
        push(empty_dict());
        return true;
      case kOpTuple1:
        pop_into_tuple(1);
        return true;
      case kOpTuple2:
        pop_into_tuple(2);
        return true;
      case kOpTuple3:
        pop_into_tuple(3);
        return true;
      case kOpFrozenSet:
      case kOpTuple:
        push(tuple(pop_to_mark()));
        return true;
      case kOpList: {
        doc_.lists_.push_back({pop_to_mark()});
        push(Value(Kind::kList, &doc_.lists_.back()));
        return true;
      }
      case kOpDict: {
        const std::vector<Value> items = pop_to_mark();
        push(empty_dict());
        set_pairs(items);
        return true;
      }
      default:
        return false;
    }
  }

  bool item_opcode(std::uint8_t opcode) {
    switch (opcode) {
      case kOpAppend: {
        const Value item = pop();
        append(top(), item);
        return true;
      }
      case kOpAddItems:
      case kOpAppends: {
        const std::vector<Value> items = pop_to_mark();
        for (const Value& item : items) append(top(), item);
        return true;
      }
      case kOpSetItem: {
        const Value value = pop();
        const Value key = pop();
        set_item(top(), key, value);
        return true;
      }
      case kOpSetItems:
        set_pairs(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  void pop_into_tuple(std::size_t n) {
    std::vector<Value> items(n);
    for (std::size_t i = n; i-- > 0;) items[i] = pop();
    push(tuple(std::move(items)));
  }

  void set_pairs(const std::vector<Value>& items) {
    if (items.size() % 2 != 0) fail_damaged("a dict entry has no value");
    for (std::size_t i = 0; i < items.size(); i += 2) set_item(top(), items[i], items[i + 1]);
  }

  bool object_opcode(std::uint8_t opcode) {
    switch (opcode) {
      case kOpGlobal: {
        const std::string_view module = line();
        push_global(module, line());
        return true;
      }
      case kOpStackGlobal: {
        const Value name = pop();
        const Value module = pop();
        if (!name.is(Kind::kText) || !module.is(Kind::kText)) fail_damaged("a class has no name");
        push_global(module.text(), name.text());
        return true;
      }
      case kOpReduce:
      case kOpNewObj: {
        const Value arguments = pop();
        const Value callee = pop();
        push(construct(callee, arguments));
        return true;
      }
      case kOpNewObjEx: {
        pop();  // keyword arguments
        const Value arguments = pop();
        const Value callee = pop();
        push(construct(callee, arguments));
        return true;
      }
      case kOpBuild:
        pop();  // attributes of an object, e.g. the versions a state dict carries: not needed
        top();
        return true;
      case kOpBinPersId:
        push(persistent(pop()));
        return true;
      default:
        return false;
    }
  }

  Document& doc_;
  const std::string& path_;
  const char* at_;
  const char* end_;
  bool stopped_ = false;
  std::deque<Value> stack_;  // grows without copying: memory stays a small multiple of the pickle
  std::deque<std::size_t> marks_;  // positions of marks in stack_
  std::deque<Value> memo_;
  std::unordered_map<std::uint32_t, Value> sparse_memo_;
};

std::unique_ptr<Document> parse(std::vector<char> bytes, const std::string& path) {
  auto document = std::make_unique<Document>(std::move(bytes));
  Machine(*document, path).run();
  return document;
}

}  // namespace dpa4::io::pickle
