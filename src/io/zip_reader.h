// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/io/byte_source.h"

namespace dpa4::io {

/// One file inside a zip archive.
struct ZipMember {
  std::string name;
  std::uint64_t header_offset = 0;
  std::uint64_t size = 0;
  std::uint64_t stored_size = 0;
  std::uint32_t crc = 0;  // 0: the writer computed none
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
};

/// Reads zip archives as `torch.save` writes them: members stored without compression, zip64 where
/// needed. Only the central directory is read at first; no size is believed before it has been
/// checked against the file, so memory stays proportional to what the file really holds. Every
/// defect is an InputError naming the file and the member.
class ZipReader {
 public:
  ZipReader(const ByteSource& source, std::string path);

  const std::map<std::string, ZipMember>& members() const { return members_; }
  const ZipMember* find(const std::string& name) const;

  /// Copies bytes [from, from + n) of a member; the checksum is not looked at.
  void read(const ZipMember& member, std::uint64_t from, void* to, std::size_t n) const;

  /// Reads a whole member into `to` (member.size bytes) and compares its checksum.
  void read_all(const ZipMember& member, void* to) const;

  /// The bytes of a whole member, checksum compared.
  std::vector<char> contents(const ZipMember& member) const;

  /// Compares the checksum of a member without keeping its bytes.
  void verify(const ZipMember& member) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_directory();
  void read_entry(const std::vector<std::uint8_t>& directory, std::size_t& at);
  std::uint64_t data_offset(const ZipMember& member) const;
  void compare_checksum(const ZipMember& member, std::uint32_t actual) const;

  const ByteSource& source_;
  std::string path_;
  std::map<std::string, ZipMember> members_;
};

/// CRC-32 of zip and PNG; start with 0 and feed the result back to continue.
std::uint32_t crc32(std::uint32_t crc, const void* data, std::size_t n);

}  // namespace dpa4::io
