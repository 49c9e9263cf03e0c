// SPDX-License-Identifier: GPL-2.0-or-later
// A tool library for Kokkos: counts what is copied in the steps of dpa4/kk, and says so at the end.
//
//   KOKKOS_TOOLS_LIBS=libkokkos_transfers.so LD_PRELOAD=libkokkos_transfers.so lmp -k on -sf kk ...
//
// Kokkos reports its own copies. Preloaded, the library also sees those that the model makes
// through the CUDA runtime. With a GPU only copies between host and device count; without one all
// do, since the same calls would cross there. A step ends with the addition of the forces; a step
// in which the pair style numbers its atoms anew follows a rebuild of the neighbor list and is
// counted apart.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace {

struct Copies {
  std::int64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;

  void add(std::uint64_t size) {
    ++count;
    bytes += size;
    largest = std::max(largest, size);
  }
};

enum Source { kStyle, kModel, kLammps, kSources };

struct Steps {
  std::int64_t count = 0;
  std::array<Copies, kSources> copies;
  std::map<std::pair<std::string, std::uint64_t>, std::int64_t> large;  // more than kSmall bytes
};

constexpr std::uint64_t kSmall = 64;

class Counter {
 public:
  void kokkos_copy(const std::string& what, std::uint64_t size) {
    copy(in_style_ ? kStyle : kLammps, what, size);
  }
  void copy(Source source, const std::string& what, std::uint64_t size) {
    step_.copies[source].add(size);
    if (size > kSmall) ++step_.large[{what, size}];
  }
  void kernel_begins(std::string_view name) {
    ending_ = name == "dpa4_add_forces";
    if (name == "dpa4_rows_clear") rebuilding_ = true;
    // A step that is made again, since its edges had no room, begins with its edges.
    if (name == "dpa4_rows_clear" || name == "dpa4_read_types" || name == "edge_mark") {
      in_style_ = true;
    }
  }
  void kernel_ends() {
    if (ending_) end_step();
    ending_ = false;
  }
  /// The first step is left out: it also holds the setup of the run.
  void print() const {
    print("ordinary", ordinary_);
    print("rebuild", rebuild_);
  }

 private:
  void end_step() {
    if (!std::exchange(first_, false)) {
      Steps& sum = rebuilding_ ? rebuild_ : ordinary_;
      ++sum.count;
      for (int k = 0; k < kSources; ++k) {
        sum.copies[k].count += step_.copies[k].count;
        sum.copies[k].bytes += step_.copies[k].bytes;
        sum.copies[k].largest = std::max(sum.copies[k].largest, step_.copies[k].largest);
      }
      for (const auto& [what, count] : step_.large) sum.large[what] += count;
    }
    step_ = {};
    rebuilding_ = false;
    in_style_ = false;
  }

  static void print(const char* kind, const Steps& steps) {
    constexpr const char* kNames[kSources] = {"style", "model", "LAMMPS"};
    for (int k = 0; k < kSources; ++k) {
      const Copies& copies = steps.copies[k];
      std::printf("transfers %s %s: steps %lld copies %lld bytes %llu largest %llu\n", kind,
                  kNames[k], static_cast<long long>(steps.count),
                  static_cast<long long>(copies.count),
                  static_cast<unsigned long long>(copies.bytes),
                  static_cast<unsigned long long>(copies.largest));
    }
    constexpr std::size_t kMost = 8;
    std::size_t shown = 0;
    for (const auto& [what, count] : steps.large) {
      if (++shown > kMost) break;
      std::printf("transfers %s large: %s, %llu bytes, %lld times\n", kind, what.first.c_str(),
                  static_cast<unsigned long long>(what.second), static_cast<long long>(count));
    }
  }

  Steps step_, ordinary_, rebuild_;
  bool rebuilding_ = false;
  bool in_style_ = false;
  bool ending_ = false;
  bool first_ = true;
};

Counter& counter() {
  static Counter instance;
  return instance;
}

bool has_gpu = false;
bool in_kokkos_copy = false;
bool header_follows = false;  // that of an allocation, which Kokkos writes without saying so

/// The CUDA runtime's own function, which the one here hides.
template <class Function>
Function* runtime_function(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  for (const char* library : {"libcudart.so.13", "libcudart.so.12"}) {
    if (found != nullptr) break;
    // That of a plugin, which not everybody sees.
    if (void* runtime = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) found = dlsym(runtime, name);
  }
  return reinterpret_cast<Function*>(found);
}

/// Whether the memory is the device's; cudaPointerAttributes begins with the kind of memory.
bool is_on_device(const void* memory) {
  constexpr int kDevice = 2, kManaged = 3;
  static auto* const attributes_of =
      runtime_function<int(void*, const void*)>("cudaPointerGetAttributes");
  alignas(16) int attributes[64] = {};
  return attributes_of != nullptr && attributes_of(attributes, memory) == 0 &&
         (attributes[0] == kDevice || attributes[0] == kManaged);
}

void runtime_copies(const void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kHeaderBytes = 128;
  if (in_kokkos_copy || is_on_device(to) == is_on_device(from)) return;
  if (std::exchange(header_follows, false) && bytes == kHeaderBytes) return;
  counter().copy(kModel, is_on_device(to) ? "to the device" : "to the host", bytes);
}

}  // namespace

extern "C" {

struct SpaceHandle {
  char name[64];
};

void kokkosp_begin_parallel_for(const char* name, std::uint32_t, std::uint64_t*) {
  counter().kernel_begins(name);
}
void kokkosp_end_parallel_for(std::uint64_t) { counter().kernel_ends(); }

void kokkosp_allocate_data(SpaceHandle space, const char*, void*, std::uint64_t) {
  if (std::strcmp(space.name, "Cuda") == 0) has_gpu = header_follows = true;
}

void kokkosp_begin_deep_copy(SpaceHandle to, const char* to_name, const void*, SpaceHandle from,
                             const char* from_name, const void*, std::uint64_t size) {
  in_kokkos_copy = true;
  const bool crosses = (std::strcmp(to.name, "Cuda") == 0) != (std::strcmp(from.name, "Cuda") == 0);
  if (has_gpu && !crosses) return;
  counter().kokkos_copy(std::string(from.name) + " " + from_name + " -> " + to.name + " " + to_name,
                        size);
}
void kokkosp_end_deep_copy() { in_kokkos_copy = false; }

void kokkosp_finalize_library() { counter().print(); }

// ---- the CUDA runtime ---------------------------------------------------------------------------

int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
  static auto* const original =
      runtime_function<int(void*, const void*, std::size_t, int, void*)>("cudaMemcpyAsync");
  runtime_copies(to, from, bytes);
  return original(to, from, bytes, kind, stream);
}

int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  static auto* const original =
      runtime_function<int(void*, const void*, std::size_t, int)>("cudaMemcpy");
  runtime_copies(to, from, bytes);
  return original(to, from, bytes, kind);
}

}  // extern "C"
