// The queue of a GPU's collectives, and a thread that notices when one does not end.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/cuda/gpu.h"
#include "engine/cuda/nccl/nccl.h"
#include "engine/ranks/mesh_communicator.h"

namespace ft::cuda {

class NcclQueue {
 public:
  using Ticket = Communicator::Ticket;

  // When there is a verdict about the ranks, everything that waits for the GPU's computation throws it.
  // narrow: number of elements in the memory for sums in the type of `wire`.
  NcclQueue(Gpu&, const Nccl&, std::unique_ptr<MeshCommunicator> hosts, double seconds, const Wire& wire = {},
            std::int64_t narrow = 0);
  ~NcclQueue();
  NcclQueue(const NcclQueue&) = delete;
  NcclQueue& operator=(const NcclQueue&) = delete;

  const Nccl& nccl() const { return nccl_; }
  MeshCommunicator& hosts() { return *hosts_; }
  cudaStream_t stream() const { return stream_; }
  double seconds() const { return seconds_; }
  const Wire& wire() const { return wire_; }
  // Memory of the wire's type on the GPU, which only collectives of this queue use.
  Tensor narrow() const { return {narrow_.get(), wire_.dtype, {elements_}}; }

  // Makes later work of the queue wait for everything computed before.
  void after_computation();
  // Names the next collective, for messages.
  void note(Collective what, const std::string& group = {}) { noted_ = hosts_->note(what, group); }
  // Marks all work given to the stream so far.
  Ticket mark();
  // Makes later computation wait for the marked work.
  void before_computation(Ticket);

  // Throws the verdict about the ranks if there is one, after it has ended all collectives: freeing memory
  // would wait for them.
  void look();
  // Throws a verdict about a lost rank that is not known (Watch::suspect_last).
  [[noreturn]] void accuse_last(Exit, const std::string& what);
  // Gives the hosts time to find a lost rank, from which most errors of NCCL follow: returns when there is a
  // verdict, or after two seconds.
  void give_hosts_time() const;

  // Watches collectives of `comm` until forget().
  void watch(NcclComm comm);
  void forget(NcclComm comm);
  // Ends all collectives. Returns when the queue is empty, after two seconds at most.
  void abandon();
  bool abandoned() const { return abandoned_; }

  // Counts bytes sent to other ranks.
  void count(std::int64_t bytes) { sent_ += bytes; }
  std::int64_t sent() const { return sent_; }

 private:
  struct Mark {
    Ticket ticket;
    cudaEvent_t over;
    std::uint32_t collective;  // number of the last collective before the mark
  };
  cudaEvent_t take_event();
  void run();
  bool moves();
  std::string error();

  Gpu& gpu_;
  const Nccl& nccl_;
  std::unique_ptr<MeshCommunicator> hosts_;
  const double seconds_;
  const Wire wire_;
  const std::int64_t elements_;
  Buffer narrow_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  std::int64_t sent_ = 0;
  std::uint32_t noted_ = 0;
  bool abandoned_ = false;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Mark> marks_;          // not known to be over, oldest first
  std::vector<cudaEvent_t> spare_;  // events
  std::vector<NcclComm> comms_;
  Ticket last_ = 0;
  Clock::time_point moved_at_;  // when the oldest mark became the oldest
  bool stop_ = false;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace ft::cuda
