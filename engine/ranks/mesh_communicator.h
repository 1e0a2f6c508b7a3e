// Collectives between ranks on CPUs, over one TCP connection between each two. A sum is an all-to-all in
// pieces and an addition in rank order, in f32 (f64 for f64) whatever the type that travels, so that every
// rank, stage and run gets the same bits. Sums of f32 may travel in 16 bits (wire.h). docs/zero.md says why
// this is not Gloo.
#pragma once
#include <algorithm>
#include <limits>
#include <memory>

#include "engine/core/arena.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/exchange.h"
#include "engine/ranks/wire.h"

namespace ft {

class MeshCommunicator final : public Communicator {
 public:
  // ops: of a CPU. seconds: how long the others may be silent. bucket: elements of f32 added up at once; it
  // decides how large the buffers are, up to 1 MiB from each rank.
  static constexpr std::int64_t kAnyBucket = std::numeric_limits<std::int64_t>::max();
  MeshCommunicator(Ops& ops, Mesh mesh, double seconds, std::int64_t bucket = kAnyBucket, Wire wire = {});

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void all_gather(Tensor all, Tensor mine) override;
  void reduce_scatter(Tensor mine, Tensor all) override;
  void all_reduce(Tensor x) override;
  void all_to_all(Tensor to, Tensor from) override;
  void send_receive(Tensor out, int to, Tensor in, int from) override;
  void all_gather_host(std::span<std::byte> all) override;
  void broadcast(std::span<std::byte> host, int root) override;
  void transfer(std::span<std::byte> host, int from, int to) override;
  void barrier() override;
  void at_step(std::int64_t step) override { wires_->exchange.at_step(step); }
  void enter(std::string_view what) override { wires_->exchange.enter(what); }
  void abandon() override { wires_->exchange.shut(); }
  std::unique_ptr<Communicator> split(RankSubset group) override;
  std::string via() const override { return "TCP"; }
  std::int64_t memory() const override { return wires_->memory; }
  std::int64_t sent() const override { return wires_->exchange.sent(); }

  // For collectives that something else carries: see Exchange.
  std::uint32_t note(Collective what, const std::string& group) { return wires_->exchange.note(what, group); }
  const std::string& group() const { return series_.group; }
  Watch& watch() { return wires_->exchange.watch(); }

  static std::int64_t memory_of(int size, std::int64_t bucket = kAnyBucket) {
    return piece_of(size, bucket) * (size - 1);
  }

 private:
  struct Wires {  // shared with the communicators that were split off
    Wires(Ops& ops, Mesh mesh, double seconds, std::int64_t bucket, Wire wire);
    Exchange exchange;
    const Wire wire;
    const std::int64_t piece;     // bytes from each rank in a round of a sum
    const std::int64_t memory;    // bytes of `arrived`
    Buffer arrived;               // (size - 1, piece); in 16 bits half of a piece arrives, the rest leaves
    std::vector<Parcel> parcels;  // by rank of the whole world
  };
  struct Range {
    std::int64_t first = 0, count = 0;  // elements
    // At most `most` elements of it, from its element `from`.
    Range piece(std::int64_t from, std::int64_t most) const {
      return {first + std::min(from, count), std::clamp<std::int64_t>(count - from, 0, most)};
    }
  };
  static std::int64_t longest(const std::vector<Range>& ranges) {
    std::int64_t n = 0;
    for (const Range& r : ranges) n = std::max(n, r.count);
    return n;
  }
  static std::int64_t piece_of(int size, std::int64_t bucket) {
    constexpr std::int64_t kMost = 1 << 20, kAlign = 256;
    return std::clamp(std::min(bucket, kMost * size) / size * 4 / kAlign * kAlign, kAlign, kMost);
  }
  MeshCommunicator(std::shared_ptr<Wires> wires, RankSubset group);
  // mine = the sum of everybody's elements ranges[rank()] of `all`.
  void sum(Collective, Tensor mine, Tensor all, const std::vector<Range>& ranges);
  void add_up(Tensor mine, Tensor own, std::int64_t n);
  bool narrows(DType sum) const { return size() > 1 && !exact_ && wires_->wire.narrows(sum); }
  // The same of f32 in 16 bits, and the second half of an all_reduce: `mine` of each to everybody.
  void sum_narrow(Collective, Tensor mine, Tensor all, const std::vector<Range>& ranges);
  void gather_narrow(Collective, Tensor all, const std::vector<Range>& ranges);
  std::byte* arrival(int member) const;    // where a round's piece from another one is put
  std::byte* departure(int member) const;  // where the piece for it is made
  // Nothing to anybody, and what is to be said to and heard from a member.
  void clear_parcels();
  Parcel& parcel(int member) {
    return wires_->parcels[static_cast<std::size_t>(members_[static_cast<std::size_t>(member)])];
  }
  void exchange(Collective what) { wires_->exchange.run(what, wires_->parcels, series_); }

  std::shared_ptr<Wires> wires_;
  std::vector<int> members_;  // ranks of the whole world
  int rank_ = 0;              // among the members
  bool exact_ = false;        // see RankSubset
  Series series_;
  std::vector<Range> ranges_;
};

}  // namespace ft
