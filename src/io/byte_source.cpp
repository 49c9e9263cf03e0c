// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/error.h"

namespace dpa4::io {

namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(int descriptor, std::uint64_t size, std::string path)
      : descriptor_(descriptor), size_(size), path_(std::move(path)) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(descriptor_); }

  std::uint64_t size() const override { return size_; }

  void read(std::uint64_t offset, void* to, std::size_t n) const override {
    DPA4_EXPECTS(offset <= size_ && n <= size_ - offset);
    auto* next = static_cast<char*>(to);
    while (n > 0) {
      const ssize_t got = ::pread(descriptor_, next, n, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw InputError(path_ + ": reading failed: " + std::strerror(errno));
      if (got == 0) throw InputError(path_ + ": the file became shorter while it was read");
      next += got;
      offset += static_cast<std::uint64_t>(got);
      n -= static_cast<std::size_t>(got);
    }
  }

 private:
  int descriptor_;
  std::uint64_t size_;
  std::string path_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, void* to, std::size_t n) const override {
    DPA4_EXPECTS(offset <= bytes_.size() && n <= bytes_.size() - offset);
    if (n > 0) std::memcpy(to, bytes_.data() + offset, n);
  }

 private:
  const std::vector<std::byte>& bytes_;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == ENOENT) throw InputError(path + ": no such file");
    if (errno == EACCES) throw InputError(path + ": no permission to read this file");
    throw InputError(path + ": cannot be opened: " + std::strerror(errno));
  }
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  auto source = std::make_unique<FileSource>(
      descriptor, known && status.st_size > 0 ? static_cast<std::uint64_t>(status.st_size) : 0,
      path);
  if (!known) throw InputError(path + ": cannot be examined: " + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) {
    throw InputError(path + ": is a directory; name the checkpoint file, for example " + path +
                     "/model.ckpt.pt");
  }
  if (!S_ISREG(status.st_mode)) throw InputError(path + ": is not a regular file");
  if (status.st_size == 0) throw InputError(path + ": the file is empty");
  return source;
}

std::unique_ptr<ByteSource> view_bytes(const std::vector<std::byte>& bytes) {
  return std::make_unique<MemorySource>(bytes);
}

}  // namespace dpa4::io
