// Copies between a GPU and the host's memory, on a separate stream next to the computation. A copy begins
// after the work that was queued for computation when the copy was requested. Copies run in order.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>

#include "engine/cuda/gpu.h"

namespace ft::cuda {

class Copies {
 public:
  using Ticket = std::uint64_t;  // 0: no copy; counts as finished

  explicit Copies(Gpu&);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Marks the work that is queued for computation now.
  Ticket computed();
  // May be called by any thread. after(): later copies begin after the marked work.
  void after(Ticket computed);
  Ticket to_device(void* device, const void* host, std::int64_t bytes);
  Ticket to_host(void* host, const void* device, std::int64_t bytes);
  // Makes later computation wait for the copy; the caller does not wait.
  void before_computation(Ticket copy);
  void wait(Ticket copy);  // blocks the caller
  void wait_all();

 private:
  // Events of the last kKept tickets; a request for another one waits until the oldest is over.
  class Events {
   public:
    Events();
    ~Events();
    Ticket record(cudaStream_t);
    cudaEvent_t find(Ticket);  // null: it is over

   private:
    static constexpr Ticket kKept = 256;
    cudaEvent_t& of(Ticket t) { return events_[t % kKept]; }
    std::array<cudaEvent_t, kKept> events_{};
    Ticket last_ = 0;
  };
  Ticket copy(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind);
  cudaEvent_t event_of(Events&, Ticket);

  Gpu& gpu_;
  cudaStream_t stream_ = nullptr;
  std::mutex mutex_;  // of the events
  Events computed_, copied_;
};

// Memory of the host. pinned: the GPU copies from and to it directly; otherwise copies go through the
// driver's own buffers. Cleared. Throws UserError (memory) if there is not enough.
Buffer host_memory(std::int64_t bytes, bool pinned);

}  // namespace ft::cuda
