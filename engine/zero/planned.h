// A communicator of many ranks for the planner: it has the run's size and counts the bytes that this rank
// would send, but sends and receives nothing. For NullOps, which compute nothing either.
#pragma once
#include <algorithm>

#include "engine/ranks/communicator.h"

namespace ft {

class PlannedCommunicator final : public Communicator {
 public:
  // wire: the type in which f32 sums are sent.
  PlannedCommunicator(int size, std::int64_t memory, DType wire = DType::f32, int rank = 0)
      : size_(size), rank_(rank), memory_(memory), wire_(wire) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_gather(Tensor, Tensor mine) override { *sent_ += mine.bytes() * (size_ - 1); }
  void reduce_scatter(Tensor mine, Tensor all) override {
    *sent_ += (all.numel() - mine.numel()) * sum_size(all);
  }
  void all_reduce(Tensor x) override {  // sends its part to all ranks, and each rank's part to that rank
    const std::int64_t own = x.numel() * (rank_ + 1) / size_ - x.numel() * rank_ / size_;
    *sent_ += (x.numel() - own + own * (size_ - 1)) * sum_size(x);
  }
  void all_to_all(Tensor to, Tensor) override { *sent_ += to.bytes() / size_ * (size_ - 1); }
  void send_receive(Tensor out, int, Tensor, int) override { *sent_ += out ? out.bytes() : 0; }
  void all_gather_host(std::span<std::byte> all) override {
    *sent_ += static_cast<std::int64_t>(all.size()) / size_ * (size_ - 1);
  }
  void broadcast(std::span<std::byte> host, int root) override {
    if (root == rank_) *sent_ += static_cast<std::int64_t>(host.size()) * (size_ - 1);
  }
  void transfer(std::span<std::byte> host, int from, int to) override {
    if (from == rank_ && to != rank_) *sent_ += static_cast<std::int64_t>(host.size());
  }
  void barrier() override {}
  std::unique_ptr<Communicator> split(RankSubset group) override {
    const auto own = std::find(group.members.begin(), group.members.end(), rank_);
    auto part = std::make_unique<PlannedCommunicator>(static_cast<int>(group.members.size()), memory_,
                                                      group.exact ? DType::f32 : wire_,
                                                      static_cast<int>(own - group.members.begin()));
    part->sent_ = sent_;
    return part;
  }
  std::int64_t memory() const override { return memory_; }
  std::int64_t sent() const override { return *sent_; }

 private:
  std::int64_t sum_size(const Tensor& x) const { return size_of(x.dtype == DType::f32 ? wire_ : x.dtype); }

  int size_, rank_;
  std::int64_t memory_;
  DType wire_;
  std::shared_ptr<std::int64_t> sent_ = std::make_shared<std::int64_t>(0);  // shared with split-off ones
};

}  // namespace ft
