#include "engine/cuda/copies.h"

#include <cstdlib>
#include <cstring>

#include "engine/core/divide.h"
#include "engine/core/error.h"
#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

constexpr std::int64_t kPage = 4096;

}  // namespace

Copies::Events::Events() {
  for (cudaEvent_t& e : events_)
    check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "creating an event");
}

Copies::Events::~Events() {
  for (cudaEvent_t e : events_) cudaEventDestroy(e);
}

Copies::Ticket Copies::Events::record(cudaStream_t stream) {
  ++last_;
  if (last_ > kKept) check(cudaEventSynchronize(of(last_)), "a copy");
  check(cudaEventRecord(of(last_), stream), "a copy");
  return last_;
}

cudaEvent_t Copies::Events::find(Ticket t) { return t == 0 || t + kKept <= last_ ? nullptr : of(t); }

Copies::Copies(Gpu& gpu) : gpu_(gpu) {
  gpu_.use();
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

Copies::~Copies() { cudaStreamDestroy(stream_); }

Copies::Ticket Copies::computed() {
  gpu_.use();
  const std::lock_guard lock(mutex_);
  return computed_.record(gpu_.stream());
}

cudaEvent_t Copies::event_of(Events& events, Ticket t) {
  const std::lock_guard lock(mutex_);
  return events.find(t);
}

void Copies::after(Ticket computed) {
  gpu_.use();
  if (cudaEvent_t e = event_of(computed_, computed)) check(cudaStreamWaitEvent(stream_, e, 0), "a copy");
}

Copies::Ticket Copies::copy(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind) {
  gpu_.use();
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream_), "a copy");
  const std::lock_guard lock(mutex_);
  return copied_.record(stream_);
}

Copies::Ticket Copies::to_device(void* device, const void* host, std::int64_t bytes) {
  return copy(device, host, bytes, cudaMemcpyHostToDevice);
}
Copies::Ticket Copies::to_host(void* host, const void* device, std::int64_t bytes) {
  return copy(host, device, bytes, cudaMemcpyDeviceToHost);
}

void Copies::before_computation(Ticket copy) {
  gpu_.use();
  if (cudaEvent_t e = event_of(copied_, copy)) check(cudaStreamWaitEvent(gpu_.stream(), e, 0), "a copy");
}

void Copies::wait(Ticket copy) {
  gpu_.use();
  if (cudaEvent_t e = event_of(copied_, copy)) check(cudaEventSynchronize(e), "waiting for a copy");
}

void Copies::wait_all() {
  gpu_.use();
  check(cudaStreamSynchronize(stream_), "waiting for copies");
}

Buffer host_memory(std::int64_t bytes, bool pinned) {
  const auto size = static_cast<std::size_t>(round_up(bytes + 1, kPage));
  void* p = nullptr;
  if (!pinned)
    p = std::aligned_alloc(kPage, size);
  else if (cudaMallocHost(&p, size) != cudaSuccess)
    p = nullptr;
  if (!p)
    throw UserError(Exit::memory, str("the host has no ", bytes >> 20, " MiB of ", pinned ? "pinned " : "",
                                      "memory for offloaded data; ",
                                      pinned ? "pin_memory=false needs less of the kernel, " : "",
                                      "device nvme uses files"));
  std::memset(p, 0, size);
  if (!pinned) return {static_cast<std::byte*>(p), [](std::byte* q) { std::free(q); }};
  return {static_cast<std::byte*>(p), [](std::byte* q) { cudaFreeHost(q); }};
}

}  // namespace ft::cuda
