// A world of one rank: it copies locally and sends nothing, so that callers need no case for one rank.
#pragma once
#include "engine/ops/ops.h"
#include "engine/ranks/communicator.h"

namespace ft {

class LocalCommunicator final : public Communicator {
 public:
  explicit LocalCommunicator(Ops& ops) : ops_(ops) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(Tensor all, Tensor mine) override { copy(all, mine); }
  void reduce_scatter(Tensor mine, Tensor all) override { copy(mine, all); }
  void all_reduce(Tensor) override {}
  void all_to_all(Tensor to, Tensor from) override { copy(to, from); }
  void send_receive(Tensor, int, Tensor, int) override { throw InternalError("a rank alone"); }
  void all_gather_host(std::span<std::byte>) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void transfer(std::span<std::byte>, int, int) override {}
  void barrier() override {}
  std::unique_ptr<Communicator> split(RankSubset) override {
    return std::make_unique<LocalCommunicator>(ops_);
  }

 private:
  void copy(Tensor y, Tensor x) {
    if (y.data != x.data) ops_.copy(y, x);
  }
  Ops& ops_;
};

}  // namespace ft
