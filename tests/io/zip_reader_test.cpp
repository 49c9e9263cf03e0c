// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/zip_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "tests/support/checkpoint_writer.h"

namespace dpa4::io {
namespace {

using ::testing::HasSubstr;

std::vector<char> text(const std::string& value) { return {value.begin(), value.end()}; }

std::string read(const std::vector<std::byte>& bytes, const std::string& name) {
  const auto source = view_bytes(bytes);
  const ZipReader zip(*source, "model.pt");
  const ZipMember* member = zip.find(name);
  if (member == nullptr) return "(missing)";
  const std::vector<char> content = zip.contents(*member);
  return {content.begin(), content.end()};
}

std::string error_of(const std::vector<std::byte>& bytes, const std::string& name = "a/one") {
  try {
    return "accepted: " + read(bytes, name);
  } catch (const InputError& error) {
    return error.what();
  }
}

/// Overwrites a little-endian number.
void put(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    bytes.at(at + i) = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

const std::vector<std::byte> kArchive = dpa4::testing::zip_archive(
    {{"a/one", text("first")}, {"a/two", text("")}, {"a/three", text("third")}});
// Positions in kArchive: two members with a 30-byte header, name and content, then the directory.
constexpr std::size_t kFirstContent = 30 + 5;
constexpr std::size_t kDirectory = (30 + 5 + 5) + (30 + 5) + (30 + 7 + 5);
const std::size_t kEndRecord = kArchive.size() - 22;

TEST(Crc32, MatchesTheStandardCheckValue) {
  EXPECT_EQ(crc32(0, "123456789", 9), 0xcbf43926u);
  EXPECT_EQ(crc32(crc32(0, "12345", 5), "6789", 4), 0xcbf43926u);
  EXPECT_EQ(crc32(0, "", 0), 0u);
}

TEST(ZipReader, ReadsStoredMembers) {
  EXPECT_EQ(read(kArchive, "a/one"), "first");
  EXPECT_EQ(read(kArchive, "a/two"), "");
  EXPECT_EQ(read(kArchive, "a/three"), "third");
  EXPECT_EQ(read(kArchive, "a/four"), "(missing)");
}

TEST(ZipReader, ReadsPartOfAMember) {
  const auto source = view_bytes(kArchive);
  const ZipReader zip(*source, "model.pt");
  char middle[3] = {};
  zip.read(*zip.find("a/three"), 1, middle, 3);
  EXPECT_EQ(std::string(middle, 3), "hir");
}

TEST(ZipReader, FollowsZip64Records) {
  // Rebuild the end of the archive with zip64 records and 32-bit fields that only point to them.
  std::vector<std::byte> bytes = kArchive;
  const std::size_t directory_size = kEndRecord - kDirectory;
  std::vector<std::byte> end(bytes.begin() + static_cast<std::ptrdiff_t>(kEndRecord), bytes.end());
  bytes.resize(kEndRecord);
  std::vector<std::byte> end64(56 + 20);
  put(end64, 0, 0x06064b50, 4);
  put(end64, 4, 44, 8);
  put(end64, 24, 3, 8);
  put(end64, 32, 3, 8);
  put(end64, 40, directory_size, 8);
  put(end64, 48, kDirectory, 8);
  put(end64, 56, 0x07064b50, 4);
  put(end64, 64, kEndRecord, 8);
  bytes.insert(bytes.end(), end64.begin(), end64.end());
  put(end, 8, 0xffff, 2);
  put(end, 10, 0xffff, 2);
  put(end, 12, 0xffffffff, 4);
  put(end, 16, 0xffffffff, 4);
  bytes.insert(bytes.end(), end.begin(), end.end());
  EXPECT_EQ(read(bytes, "a/three"), "third");
}

TEST(ZipReader, AcceptsAnArchiveComment) {
  std::vector<std::byte> bytes = kArchive;
  put(bytes, bytes.size() - 2, 4, 2);
  bytes.resize(bytes.size() + 4, std::byte{'x'});
  EXPECT_EQ(read(bytes, "a/one"), "first");
}

TEST(ZipReader, NoticesDamagedContent) {
  std::vector<std::byte> bytes = kArchive;
  bytes[kFirstContent] ^= std::byte{1};
  EXPECT_THAT(error_of(bytes), HasSubstr("checksum of member 'a/one'"));
}

TEST(ZipReader, AcceptsArchivesWrittenWithoutChecksums) {
  std::vector<std::byte> bytes = kArchive;
  put(bytes, kDirectory + 16, 0, 4);
  EXPECT_EQ(read(bytes, "a/one"), "first");
}

TEST(ZipReader, NoticesACutOffFile) {
  for (std::size_t size : {std::size_t{0}, std::size_t{3}, kDirectory, kArchive.size() - 1}) {
    const std::vector<std::byte> bytes(kArchive.begin(),
                                       kArchive.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(error_of(bytes), HasSubstr("cut off")) << size;
  }
}

struct Change {
  const char* name;
  std::size_t at;
  std::uint64_t value;
  std::size_t n;
  const char* message;
};

class ChangedArchive : public ::testing::TestWithParam<Change> {};

TEST_P(ChangedArchive, IsRefused) {
  std::vector<std::byte> bytes = kArchive;
  put(bytes, GetParam().at, GetParam().value, GetParam().n);
  EXPECT_THAT(error_of(bytes), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, ChangedArchive,
    ::testing::Values(Change{"HugeSize", kDirectory + 24, 0xfffffff0, 4, "two different sizes"},
                      Change{"HugeStoredSize", kDirectory + 20, 0xfffffff0, 4, "outside the file"},
                      Change{"OffsetOutside", kDirectory + 42, 0x7fffffff, 4, "outside the file"},
                      Change{"OffsetOfAnotherMember", kDirectory + 42, 40, 4, "bad header"},
                      Change{"Deflated", kDirectory + 10, 8, 2, "compressed"},
                      Change{"Encrypted", kDirectory + 8, 1, 2, "encrypted"},
                      Change{"DirectorySignature", kDirectory, 0, 4, "bad directory entry"},
                      Change{"LongName", kDirectory + 28, 0xffff, 2, "bad directory entry"},
                      Change{"HeaderSignature", 0, 0, 4, "bad header"},
                      Change{"OtherNameInHeader", 30, 'b', 1, "bad header"},
                      Change{"HeaderExtraBeyondEnd", 28, 0xffff, 2, "bad header"},
                      Change{"TooManyEntries", kEndRecord + 10, 0xfff0, 2, "does not fit"},
                      Change{"DirectoryOutside", kEndRecord + 16, 0xfffffff0, 4, "does not fit"},
                      Change{"DirectoryTooLong", kEndRecord + 12, 0xfffffff0, 4, "does not fit"}),
    [](const auto& info) { return info.param.name; });

TEST(ZipReader, RefusesAMemberThatStandsTwice) {
  const auto bytes = dpa4::testing::zip_archive({{"a/one", text("x")}, {"a/one", text("y")}});
  EXPECT_THAT(error_of(bytes), HasSubstr("'a/one' twice"));
}

}  // namespace
}  // namespace dpa4::io
