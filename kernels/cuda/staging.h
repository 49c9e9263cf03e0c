// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/check.h"

namespace dpa4::cuda {

/// Uploads of large arrays that live in ordinary memory of the host: all threads copy a piece into
/// memory that the device can read while the piece before is on its way. The driver would do so
/// with one thread.
class Staging {
 public:
  Staging() = default;
  ~Staging() {
    for (Piece& piece : pieces_) {
      // The driver may be gone already when a program ends.
      if (piece.sent != nullptr) static_cast<void>(cudaEventDestroy(piece.sent));
      if (piece.memory != nullptr) static_cast<void>(cudaFreeHost(piece.memory));
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Enqueues the upload; `from` may be changed when this returns. False if nothing was done: the
  /// array is small or not in ordinary memory, or there is none that the device can read.
  bool upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    constexpr std::size_t kWorthwhile = std::size_t{1} << 20;
    if (bytes < kWorthwhile || !is_ordinary(from) || !make_pieces()) return false;
    for (std::size_t at = 0; at < bytes; at += kPiece) {
      Piece& piece = pieces_[next_];
      next_ = (next_ + 1) % pieces_.size();
      const std::size_t count = std::min(kPiece, bytes - at);
      DPA4_CUDA_TRY(cudaEventSynchronize(piece.sent));
      copy(piece.memory, static_cast<const char*>(from) + at, count);
      DPA4_CUDA_TRY(cudaMemcpyAsync(static_cast<char*>(to) + at, piece.memory, count,
                                    cudaMemcpyHostToDevice, stream));
      DPA4_CUDA_TRY(cudaEventRecord(piece.sent, stream));
    }
    return true;
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{4} << 20;
  struct Piece {
    char* memory = nullptr;
    cudaEvent_t sent = nullptr;  // its last upload is done; never recorded counts as done
  };

  static bool is_ordinary(const void* memory) {
    cudaPointerAttributes attributes;
    DPA4_CUDA_TRY(cudaPointerGetAttributes(&attributes, memory));
    return attributes.type == cudaMemoryTypeUnregistered;
  }

  bool make_pieces() {
    for (Piece& piece : pieces_) {
      if (piece.memory != nullptr) continue;
      void* memory = nullptr;
      if (cudaMallocHost(&memory, kPiece) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());  // handled: later calls must not see it
        return false;
      }
      DPA4_CUDA_TRY(cudaEventCreateWithFlags(&piece.sent, cudaEventDisableTiming));
      piece.memory = static_cast<char*>(memory);
    }
    return true;
  }

  static void copy(char* to, const char* from, std::size_t bytes) {
    constexpr std::size_t kPart = std::size_t{64} << 10;
    const std::int64_t parts = static_cast<std::int64_t>((bytes + kPart - 1) / kPart);
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * kPart;
      std::memcpy(to + at, from + at, std::min(kPart, bytes - at));
    }
  }

  std::array<Piece, 3> pieces_;
  std::size_t next_ = 0;
};

}  // namespace dpa4::cuda
