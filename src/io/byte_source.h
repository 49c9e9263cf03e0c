// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dpa4::io {

/// Bytes that can be read at any offset: a file, or memory in tests.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;

  /// Copies n bytes from `offset`; the caller stays within size(). Throws InputError if reading
  /// fails.
  virtual void read(std::uint64_t offset, void* to, std::size_t n) const = 0;
};

/// Opens a regular file. A missing, unreadable, empty or special file is an InputError that says
/// so.
std::unique_ptr<ByteSource> open_file(const std::string& path);

/// The given bytes, which must outlive the source.
std::unique_ptr<ByteSource> view_bytes(const std::vector<std::byte>& bytes);

}  // namespace dpa4::io
