// SPDX-License-Identifier: GPL-2.0-or-later
#include "src/io/file_kind.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "src/base/error.h"

namespace dpa4::io {

namespace {

using std::string_view_literals::operator""sv;

constexpr const char* kUseCheckpoint =
    "use the training checkpoint itself (model.ckpt-N.pt, written by dp --pt train)";

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string_view first_bytes(const ByteSource& source, std::vector<char>& buffer) {
  constexpr std::uint64_t kEnough = 512;
  buffer.resize(static_cast<std::size_t>(std::min(source.size(), kEnough)));
  source.read(0, buffer.data(), buffer.size());
  return {buffer.data(), buffer.size()};
}

/// A TensorFlow GraphDef starts with field 1, a NodeDef, whose field 1 is the node's name and field
/// 2 its operation.
bool is_tensorflow_graph(std::string_view head) {
  std::size_t at = 1;
  if (head.empty() || head[0] != '\x0a') return false;
  while (at < head.size() && (head[at] & 0x80) != 0) ++at;  // length of the node
  if (at + 3 >= head.size() || head[at + 1] != '\x0a') return false;
  const auto name_length = static_cast<unsigned char>(head[at + 2]);
  const std::size_t name = at + 3;
  if (name_length == 0 || name_length > 127 || name + name_length >= head.size()) return false;
  const std::string_view text = head.substr(name, name_length);
  return head[name + name_length] == '\x12' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

/// safetensors: the length of a JSON header, then the header.
bool is_safetensors(std::string_view head, std::uint64_t file_size) {
  if (head.size() < 9 || head[8] != '{') return false;
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof length);
  return length >= 2 && length <= file_size - 8;
}

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t' || (c & 0x80) != 0;
  });
}

bool any_member(const ZipReader& zip, bool (*matches)(std::string_view)) {
  return std::any_of(zip.members().begin(), zip.members().end(),
                     [&](const auto& entry) { return matches(entry.first); });
}

/// Name of a member without the archive's root folder.
std::string_view below_root(std::string_view name) { return name.substr(name.find('/') + 1); }

}  // namespace

bool is_zip(const ByteSource& source) {
  std::vector<char> buffer;
  const std::string_view head = first_bytes(source, buffer);
  return starts_with(head, "PK\x03\x04"sv) || starts_with(head, "PK\x05\x06"sv);
}

std::string describe_other_file(const ByteSource& source) {
  std::vector<char> buffer;
  const std::string_view head = first_bytes(source, buffer);
  const std::string use = std::string("; ") + kUseCheckpoint;
  const bool torch_magic = head.size() > 14 && head[0] == '\x80' &&
                           head.substr(2, 12) == "\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;
  if (torch_magic) {
    return "this is a checkpoint in the old torch format (before torch 1.6, not a zip archive); "
           "load it "
           "with torch.load and save it again with torch.save";
  }
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return "this is a plain Python pickle, not a torch checkpoint" + use;
  }
  if (starts_with(head, "\x93NUMPY"sv))
    return "this is a NumPy array file (.npy), not a model" + use;
  if (starts_with(head, "\x89HDF\r\n\x1a\n"sv)) {
    return "this is an HDF5 file (a serialized .dp/.hlf model or a data set), not a torch "
           "checkpoint" +
           use;
  }
  if (starts_with(head,
                  "\x7f"
                  "ELF"sv))
    return "this is a program or a library, not a model" + use;
  if (starts_with(head, "\x1f\x8b"sv)) return "this file is compressed with gzip; unpack it first";
  if (starts_with(head,
                  "\xfd"
                  "7zXZ"sv))
    return "this file is compressed with xz; unpack it first";
  if (starts_with(head, "version https://git-lfs"sv)) {
    return "this is a Git LFS pointer, not the model itself; fetch the model with git lfs pull";
  }
  if (is_safetensors(head, source.size())) {
    return "this is a safetensors file: it holds weights but not the options of the model" + use;
  }
  if (is_tensorflow_graph(head)) {
    return "this is a frozen TensorFlow graph (.pb), a model of another kind and backend" + use;
  }
  if (starts_with(head, "<!DOCTYPE"sv) || starts_with(head, "<html"sv)) {
    return "this is a web page, probably an error page saved in place of the model" + use;
  }
  if (head.size() > 264 && head.substr(257, 5) == "ustar"sv) {
    return "this is a tar archive; unpack it first";
  }
  if (is_text(head)) return "this is a text file, not a torch checkpoint" + use;
  return "this is not a torch checkpoint: it is no zip archive and no other format known here" +
         use;
}

std::string find_object_tree(const ZipReader& zip, const std::string& path) {
  const std::string use = std::string("; ") + kUseCheckpoint;
  const auto is_torchscript = [](std::string_view name) {
    return below_root(name) == "constants.pkl" || starts_with(below_root(name), "code/");
  };
  if (any_member(zip, is_torchscript)) {
    throw InputError(path + ": this is a frozen TorchScript model (.pth), made for one program" +
                     use);
  }
  const auto is_exported = [](std::string_view name) {
    return name == "archive_format" || below_root(name) == "archive_format" ||
           name.find("aotinductor") != std::string_view::npos ||
           starts_with(below_root(name), "models/") ||
           below_root(name) == "serialized_exported_program.json";
  };
  if (any_member(zip, is_exported)) {
    throw InputError(
        path + ": this is a frozen, compiled model (.pt2), made for one kind of machine" + use);
  }

  std::vector<std::string> found;
  for (const auto& [name, member] : zip.members()) {
    if (name == "data.pkl" || (below_root(name) == "data.pkl" && name[0] != '/'))
      found.push_back(name);
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    throw InputError(path + ": damaged checkpoint: it holds " + std::to_string(found.size()) +
                     " object trees (data.pkl)");
  }
  if (any_member(zip, [](std::string_view name) { return ends_with(name, ".npy"); })) {
    throw InputError(path + ": this is a NumPy archive (.npz), not a model" + use);
  }
  throw InputError(path + ": this is a zip archive but no torch checkpoint (it has no data.pkl)" +
                   use);
}

}  // namespace dpa4::io
