// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/io/pickle.h"
#include "src/io/zip_reader.h"
#include "src/model/host_tensor.h"

namespace dpa4::io {

/// The two ways training writes names: `dp --pt` (matrix, bias) and `dp --pt-expt` (w, b).
enum class Dialect { kPt, kPtExpt };

/// The arrays of one model in a checkpoint, by canonical name (src/model/weights.h). Nothing is
/// read yet.
class StateDict {
 public:
  struct Entry {
    std::string key;      // as the file spells it
    pickle::Value value;  // a tensor, unless the file is broken
  };

  /// Collects `model.<branch>.*` of the file's state dict.
  StateDict(const pickle::Dict& dict, const std::string& branch, const std::string& path);

  Dialect dialect() const { return dialect_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& name) const;

  /// Replaces arrays by those of the same name in `dict`, the averaged weights of a training
  /// checkpoint, and returns the names replaced. Entries that this model does not have are ignored.
  std::set<std::string> overlay(const pickle::Dict& dict, const std::string& branch);

 private:
  void insert(const std::string& key, const std::string& local, const pickle::Value& value);

  Dialect dialect_ = Dialect::kPt;
  std::map<std::string, Entry> entries_;
};

/// Canonical name of an array, from its name below `model.<branch>.atomic_model.`.
std::string canonical_name(const std::string& local, Dialect dialect);

/// True for arrays that are computed from the configuration and that we make ourselves.
bool is_derived(const std::string& canonical_name);

/// Copies arrays out of a checkpoint archive. All arrays together may not take much more memory
/// than the file has bytes.
class TensorLoader {
 public:
  /// `root` is the archive's folder with a trailing slash, or empty.
  TensorLoader(const ZipReader& zip, std::string root, std::string path, std::uint64_t file_bytes);

  /// The array of `entry`, which must have this shape, floating-point type and finite elements;
  /// float16 and bfloat16 become float32. Otherwise an InputError naming the key.
  model::HostTensor load(const StateDict::Entry& entry, const std::vector<std::int64_t>& shape);

  /// Shape of the array as the file gives it.
  std::vector<std::int64_t> shape_of(const StateDict::Entry& entry) const;

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;
  const pickle::Tensor& tensor_of(const StateDict::Entry& entry) const;
  std::vector<std::byte> read_elements(const std::string& key, const pickle::Tensor& tensor,
                                       std::uint64_t count);
  void check_layout(const std::string& key, const pickle::Tensor& tensor, const ZipMember& member,
                    std::uint64_t count) const;

  const ZipReader& zip_;
  std::string root_;
  std::string path_;
  std::uint64_t budget_;            // bytes that may still be allocated
  std::set<std::string> verified_;  // members whose checksum has been compared
};

}  // namespace dpa4::io
