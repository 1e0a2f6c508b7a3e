// Copies between a GPU and the host's memory on a stream of their own, beside the computation. A copy begins
// after what was queued for computation when it was asked for, and copies happen in order.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>

#include "engine/cuda/gpu.h"

namespace ft::cuda {

class Copies {
 public:
  using Ticket = std::uint64_t;  // 0: of no copy, which is over

  explicit Copies(Gpu&);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // What is queued for computation now.
  Ticket computed();
  // Any thread; after(): what comes next begins after that.
  void after(Ticket computed);
  Ticket to_device(void* device, const void* host, std::int64_t bytes);
  Ticket to_host(void* host, const void* device, std::int64_t bytes);
  // What is computed next comes after the copy. Does not wait.
  void before_computation(Ticket copy);
  void wait(Ticket copy);  // the host does
  void wait_all();

 private:
  // Events of the last so many; whoever needs another waits until the oldest is over.
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

// Bytes of the host's memory that the GPU copies from and to directly, or, not pinned, through the driver's
// own. Cleared. UserError(Exit::memory).
Buffer host_memory(std::int64_t bytes, bool pinned);

}  // namespace ft::cuda
