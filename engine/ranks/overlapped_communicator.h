// Collectives beside the computation. A separate thread runs started works in the order of their calls, so
// that the order is the same on all ranks. A collective that is called directly waits for the works started
// before it.
#pragma once
#include "engine/ranks/communicator.h"
#include "engine/ranks/work_queue.h"

namespace ft {

class OverlappedCommunicator final : public Communicator {
 public:
  // inner: its results are ready when a call returns, or in the queue of the Ops. Its abandon() must end a
  // waiting collective.
  explicit OverlappedCommunicator(std::unique_ptr<Communicator> inner);
  ~OverlappedCommunicator() override;

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_gather(Tensor all, Tensor mine) override { idle().all_gather(all, mine); }
  void reduce_scatter(Tensor mine, Tensor all) override { idle().reduce_scatter(mine, all); }
  void all_reduce(Tensor x) override { idle().all_reduce(x); }
  void all_to_all(Tensor to, Tensor from) override { idle().all_to_all(to, from); }
  void send_receive(Tensor out, int to, Tensor in, int from) override {
    idle().send_receive(out, to, in, from);
  }
  void all_gather_host(std::span<std::byte> all) override { idle().all_gather_host(all); }
  void broadcast(std::span<std::byte> host, int root) override { idle().broadcast(host, root); }
  void transfer(std::span<std::byte> host, int from, int to) override { idle().transfer(host, from, to); }
  void barrier() override { idle().barrier(); }
  Ticket start(Work work) override;
  void finish(Ticket ticket) override;
  void abandon() override;
  std::unique_ptr<Communicator> split(RankSubset group) override;
  void at_step(std::int64_t step) override { inner_->at_step(step); }
  void enter(std::string_view what) override { idle().enter(what); }
  std::string via() const override { return inner_->via(); }
  std::int64_t memory() const override { return inner_->memory(); }
  std::int64_t sent() const override;  // waits for all works first

 private:
  OverlappedCommunicator(std::shared_ptr<WorkQueue> queue, std::unique_ptr<Communicator> inner);
  Communicator& idle();  // returns the inner communicator once all works are done

  std::shared_ptr<WorkQueue> queue_;  // shared with the communicators split off from this one
  std::unique_ptr<Communicator> inner_;
  bool whole_ = false;  // this one was not split off: it stops the queue
};

}  // namespace ft
