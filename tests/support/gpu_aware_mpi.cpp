// SPDX-License-Identifier: GPL-2.0-or-later
// Makes any MPI one that takes pointers of the GPU, slowly, for `package kokkos gpu/aware on`:
//
//   mpiexec -n 2 env LD_PRELOAD=gpu_aware_mpi.so lmp -k on g 1 -sf kk -pk kokkos gpu/aware on ...
//
// Messages from and to memory of the device go through the host. With DPA4_DEVICE_MESSAGES in the
// environment a rank that has sent or received none fails at the end.
#include <dlfcn.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using Bytes = std::vector<char>;

/// A function of the CUDA driver, or null as long as nobody has loaded it.
template <class Function>
Function* driver_function(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver != nullptr ? reinterpret_cast<Function*>(dlsym(driver, name)) : nullptr;
}

bool is_on_device(const void* memory) {
  constexpr int kMemoryType = 2, kDevice = 2;
  auto* const attribute = driver_function<int(void*, int, std::uint64_t)>("cuPointerGetAttribute");
  int type = 0;
  return attribute != nullptr &&
         attribute(&type, kMemoryType, reinterpret_cast<std::uintptr_t>(memory)) == 0 &&
         type == kDevice;
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "gpu_aware_mpi: %s\n", what.c_str());
  std::abort();
}

long device_messages = 0;  // with something in them

void to_host(Bytes& to, const void* from) {
  auto* const copy = driver_function<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2");
  if (copy == nullptr || copy(to.data(), reinterpret_cast<std::uintptr_t>(from), to.size()) != 0) {
    fail("a message cannot be copied from the device");
  }
  ++device_messages;
}
void to_device(void* to, const Bytes& from) {
  auto* const copy =
      driver_function<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2");
  auto* const wait = driver_function<int()>("cuCtxSynchronize");  // no stream is ordered behind it
  if (copy == nullptr || wait == nullptr ||
      copy(reinterpret_cast<std::uintptr_t>(to), from.data(), from.size()) != 0 || wait() != 0) {
    fail("a message cannot be copied to the device");
  }
}

/// A message that is received on the host first.
struct Receipt {
  void* to = nullptr;
  Bytes bytes;
};

std::map<MPI_Request, Receipt>& receipts() {
  static std::map<MPI_Request, Receipt> all;
  return all;
}

/// Room for a message, with what is in the device's memory: a shorter one leaves the rest as it is.
Bytes bytes_of(const void* buffer, int count, MPI_Datatype type) {
  int size = 0;
  MPI_Type_size(type, &size);
  Bytes bytes(static_cast<std::size_t>(count) * static_cast<std::size_t>(size));
  if (!bytes.empty()) to_host(bytes, buffer);
  return bytes;
}

/// The request as it was before it was waited for has ended.
void finish(MPI_Request request) {
  const auto found = receipts().find(request);
  if (found == receipts().end()) return;
  if (!found->second.bytes.empty()) to_device(found->second.to, found->second.bytes);
  receipts().erase(found);
}

}  // namespace

extern "C" {

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  if (!is_on_device(buffer)) return PMPI_Send(buffer, count, type, to, tag, comm);
  const Bytes bytes = bytes_of(buffer, count, type);
  return PMPI_Send(bytes.data(), count, type, to, tag, comm);
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (!is_on_device(buffer)) return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
  Receipt receipt{buffer, bytes_of(buffer, count, type)};
  const int result = PMPI_Irecv(receipt.bytes.data(), count, type, from, tag, comm, request);
  receipts()[*request] = std::move(receipt);
  return result;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const MPI_Request before = *request;
  const int result = PMPI_Wait(request, status);
  finish(before);
  return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  const std::vector<MPI_Request> before(requests, requests + count);
  const int result = PMPI_Waitany(count, requests, index, status);
  if (*index >= 0 && *index < count) finish(before[static_cast<std::size_t>(*index)]);
  return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const std::vector<MPI_Request> before(requests, requests + count);
  const int result = PMPI_Waitall(count, requests, statuses);
  for (const MPI_Request request : before) finish(request);
  return result;
}

int MPI_Sendrecv(const void* sent, int sent_count, MPI_Datatype sent_type, int to, int sent_tag,
                 void* received, int received_count, MPI_Datatype received_type, int from,
                 int received_tag, MPI_Comm comm, MPI_Status* status) {
  Bytes out, in;
  const bool out_there = is_on_device(sent), in_there = is_on_device(received);
  if (out_there) out = bytes_of(sent, sent_count, sent_type);
  if (in_there) in = bytes_of(received, received_count, received_type);
  const int result = PMPI_Sendrecv(out_there ? out.data() : sent, sent_count, sent_type, to,
                                   sent_tag, in_there ? in.data() : received, received_count,
                                   received_type, from, received_tag, comm, status);
  if (in_there && !in.empty()) to_device(received, in);
  return result;
}

int MPI_Finalize() {
  if (std::getenv("DPA4_DEVICE_MESSAGES") != nullptr && device_messages == 0) {
    fail("no message went from or to the device's memory");
  }
  return PMPI_Finalize();
}

}  // extern "C"
