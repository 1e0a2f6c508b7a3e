// A world of many for the planner: as many ranks as the run will have, of which this one says nothing and
// hears nothing. With NullOps, which compute nothing either.
#pragma once
#include "engine/dist/communicator.h"

namespace ft {

class PlannedCommunicator final : public Communicator {
 public:
  PlannedCommunicator(int size, std::int64_t memory) : size_(size), memory_(memory) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  void all_gather(Tensor, Tensor) override {}
  void reduce_scatter(Tensor, Tensor) override {}
  void all_reduce(Tensor) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void transfer(std::span<std::byte>, int, int) override {}
  void barrier() override {}
  std::int64_t memory() const override { return memory_; }

 private:
  int size_;
  std::int64_t memory_;
};

}  // namespace ft
