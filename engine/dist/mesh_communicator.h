// Collectives between ranks on CPUs, over one TCP connection between each two. A sum is an all-to-all in
// pieces and an addition in rank order, in f32 (f64 for f64) whatever the type that travels, so that every
// rank, stage and run gets the same bits. docs/zero.md says why this is not Gloo.
#pragma once
#include "engine/dist/communicator.h"
#include "engine/dist/exchange.h"
#include "engine/ops/ops.h"

namespace ft {

class MeshCommunicator final : public Communicator {
 public:
  // ops: of a CPU. seconds: how long the others may be silent.
  MeshCommunicator(Ops& ops, Mesh mesh, double seconds);

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  void all_gather(Tensor all, Tensor mine) override;
  void reduce_scatter(Tensor mine, Tensor all) override;
  void all_reduce(Tensor x) override;
  void broadcast(std::span<std::byte> host, int root) override;
  void transfer(std::span<std::byte> host, int from, int to) override;
  void barrier() override;
  void at_step(std::int64_t step) override { exchange_.at_step(step); }
  void enter(std::string_view what) override { exchange_.enter(what); }
  std::int64_t memory() const override { return memory_of(size()); }

  static std::int64_t memory_of(int size) { return kPiece * (size - 1); }
  std::int64_t sent() const { return exchange_.sent(); }

 private:
  static constexpr std::int64_t kPiece = 1 << 20;  // bytes from each rank in a round of a sum

  struct Range {
    std::int64_t first = 0, count = 0;  // elements
  };
  // mine = the sum of everybody's elements ranges[rank()] of `all`.
  void sum(Collective, Tensor mine, Tensor all, const std::vector<Range>& ranges);
  void add_up(Tensor mine, Tensor own, std::int64_t piece);

  Ops& ops_;
  Exchange exchange_;
  Buffer arrived_;  // (size - 1, kPiece)
  std::vector<Parcel> parcels_;
  std::vector<Range> ranges_;
};

}  // namespace ft
