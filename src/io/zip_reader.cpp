// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/zip_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/error.h"

namespace dpa4::io {

namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::size_t kLocalHeaderSize = 30;
constexpr std::size_t kCentralHeaderSize = 46;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kEnd64LocatorSize = 20;
constexpr std::size_t kMaxComment = 65535;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kFlagEncrypted = 1;

template <class Unsigned>
Unsigned little_endian(const std::uint8_t* bytes) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>(value | static_cast<Unsigned>(bytes[i]) << (8 * i));
  }
  return value;
}

std::uint16_t u16(const std::uint8_t* p) { return little_endian<std::uint16_t>(p); }
std::uint32_t u32(const std::uint8_t* p) { return little_endian<std::uint32_t>(p); }
std::uint64_t u64(const std::uint8_t* p) { return little_endian<std::uint64_t>(p); }

/// Where the central directory lies.
struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

/// Tables for eight bytes at a time ("slicing by 8").
struct CrcTables {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  constexpr CrcTables() {
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
      t[0][i] = crc;
    }
    for (std::size_t k = 1; k < 8; ++k) {
      for (std::size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
    }
  }
};
constexpr CrcTables kCrc;

}  // namespace

std::uint32_t crc32(std::uint32_t crc, const void* data, std::size_t n) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  const auto& t = kCrc.t;
  crc = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    const std::uint32_t low = crc ^ u32(p);
    crc = t[7][low & 0xff] ^ t[6][(low >> 8) & 0xff] ^ t[5][(low >> 16) & 0xff] ^ t[4][low >> 24] ^
          t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
  }
  for (; n > 0; --n, ++p) crc = (crc >> 8) ^ t[0][(crc ^ *p) & 0xff];
  return ~crc;
}

ZipReader::ZipReader(const ByteSource& source, std::string path)
    : source_(source), path_(std::move(path)) {
  read_directory();
}

void ZipReader::fail(const std::string& what) const { throw InputError(path_ + ": " + what); }

const ZipMember* ZipReader::find(const std::string& name) const {
  const auto found = members_.find(name);
  return found == members_.end() ? nullptr : &found->second;
}

void ZipReader::read_directory() {
  // The end record lies behind everything else, followed only by a comment of at most 64 KiB.
  const std::uint64_t size = source_.size();
  const auto tail_size = static_cast<std::size_t>(
      std::min<std::uint64_t>(size, kEndSize + kMaxComment + kEnd64LocatorSize));
  std::vector<std::uint8_t> tail(tail_size);
  const std::uint64_t tail_offset = size - tail_size;
  source_.read(tail_offset, tail.data(), tail_size);

  std::size_t end = tail_size;
  for (std::size_t back = kEndSize; back <= tail_size; ++back) {
    const std::uint8_t* p = &tail[tail_size - back];
    if (u32(p) == kEnd && u16(p + 20) == back - kEndSize) {
      end = tail_size - back;
      break;
    }
  }
  if (end == tail_size) {
    fail(
        "the file is cut off or damaged: the zip archive has no end record; copy the checkpoint "
        "again (" +
        std::to_string(size) + " bytes are here)");
  }

  Directory directory{u32(&tail[end + 16]), u32(&tail[end + 12]), u16(&tail[end + 10])};
  if (end >= kEnd64LocatorSize && u32(&tail[end - kEnd64LocatorSize]) == kEnd64Locator) {
    const std::uint64_t at = u64(&tail[end - kEnd64LocatorSize + 8]);
    if (at > size || size - at < kEnd64Size)
      fail("damaged zip archive: the zip64 end record lies outside");
    std::array<std::uint8_t, kEnd64Size> record;
    source_.read(at, record.data(), record.size());
    if (u32(record.data()) != kEnd64)
      fail("damaged zip archive: no zip64 end record where one is announced");
    directory = {u64(&record[48]), u64(&record[40]), u64(&record[32])};
  }
  if (directory.offset > size || directory.size > size - directory.offset ||
      directory.entries > directory.size / kCentralHeaderSize) {
    fail("damaged zip archive: its directory does not fit into the file");
  }

  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(directory.size));
  source_.read(directory.offset, bytes.data(), bytes.size());
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) read_entry(bytes, at);
}

void ZipReader::read_entry(const std::vector<std::uint8_t>& directory, std::size_t& at) {
  if (directory.size() - at < kCentralHeaderSize || u32(&directory[at]) != kCentralHeader) {
    fail("damaged zip archive: bad directory entry");
  }
  const std::uint8_t* p = &directory[at];
  const std::size_t name_size = u16(p + 28);
  const std::size_t extra_size = u16(p + 30);
  const std::size_t total = kCentralHeaderSize + name_size + extra_size + u16(p + 32);
  if (directory.size() - at < total) fail("damaged zip archive: bad directory entry");

  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(p + kCentralHeaderSize), name_size);
  member.flags = u16(p + 8);
  member.method = u16(p + 10);
  member.crc = u32(p + 16);
  member.stored_size = u32(p + 20);
  member.size = u32(p + 24);
  member.header_offset = u32(p + 42);

  // Fields that do not fit into 32 bits follow, in this order, in the zip64 extra record.
  const std::uint8_t* extra = p + kCentralHeaderSize + name_size;
  const std::uint8_t* const extra_end = extra + extra_size;
  while (extra_end - extra >= 4) {
    const std::uint16_t kind = u16(extra);
    const std::size_t length = u16(extra + 2);
    extra += 4;
    if (static_cast<std::size_t>(extra_end - extra) < length) break;
    if (kind == kZip64Extra) {
      const std::uint8_t* field = extra;
      for (std::uint64_t* value : {&member.size, &member.stored_size, &member.header_offset}) {
        if (*value != 0xffffffffu) continue;
        if (extra + length - field < 8) fail("damaged zip archive: bad zip64 record");
        *value = u64(field);
        field += 8;
      }
    }
    extra += length;
  }
  at += total;

  const std::uint64_t file_size = source_.size();
  if (member.header_offset > file_size || member.stored_size > file_size - member.header_offset) {
    fail("damaged or cut-off zip archive: member '" + member.name + "' lies outside the file");
  }
  if (member.method == 0 && member.stored_size != member.size) {
    fail("damaged zip archive: member '" + member.name + "' has two different sizes");
  }
  if (!members_.emplace(member.name, member).second) {
    fail("damaged zip archive: it holds member '" + member.name + "' twice");
  }
}

std::uint64_t ZipReader::data_offset(const ZipMember& member) const {
  if ((member.flags & kFlagEncrypted) != 0) fail("member '" + member.name + "' is encrypted");
  if (member.method != 0) {
    fail("member '" + member.name +
         "' is compressed, which torch.save never does; unpack the archive and save it with "
         "torch.save");
  }
  const std::string damaged = "damaged zip archive: bad header of member '" + member.name + "'";
  const std::uint64_t room = source_.size() - member.header_offset;
  if (room < kLocalHeaderSize + member.name.size()) fail(damaged);
  std::vector<std::uint8_t> header(kLocalHeaderSize + member.name.size());
  source_.read(member.header_offset, header.data(), header.size());
  const std::size_t name_size = u16(&header[26]);
  const std::size_t skip = kLocalHeaderSize + name_size + u16(&header[28]);
  if (u32(header.data()) != kLocalHeader || name_size != member.name.size() ||
      std::memcmp(&header[kLocalHeaderSize], member.name.data(), name_size) != 0 || skip > room ||
      member.size > room - skip) {
    fail(damaged);
  }
  return member.header_offset + skip;
}

void ZipReader::read(const ZipMember& member, std::uint64_t from, void* to, std::size_t n) const {
  DPA4_EXPECTS(from <= member.size && n <= member.size - from);
  source_.read(data_offset(member) + from, to, n);
}

void ZipReader::read_all(const ZipMember& member, void* to) const {
  const auto n = static_cast<std::size_t>(member.size);
  source_.read(data_offset(member), to, n);
  if (member.crc != 0) compare_checksum(member, crc32(0, to, n));
}

std::vector<char> ZipReader::contents(const ZipMember& member) const {
  data_offset(member);  // a size is believed only after this
  std::vector<char> bytes(static_cast<std::size_t>(member.size));
  read_all(member, bytes.data());
  return bytes;
}

void ZipReader::verify(const ZipMember& member) const {
  if (member.crc == 0) return;
  const std::uint64_t start = data_offset(member);
  std::vector<std::uint8_t> chunk(
      static_cast<std::size_t>(std::min<std::uint64_t>(member.size, 1u << 20)));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < member.size;) {
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), member.size - done));
    source_.read(start + done, chunk.data(), n);
    crc = crc32(crc, chunk.data(), n);
    done += n;
  }
  compare_checksum(member, crc);
}

void ZipReader::compare_checksum(const ZipMember& member, std::uint32_t actual) const {
  if (actual == member.crc) return;
  fail("the file is damaged: the checksum of member '" + member.name +
       "' does not match its bytes; copy the checkpoint again");
}

}  // namespace dpa4::io
