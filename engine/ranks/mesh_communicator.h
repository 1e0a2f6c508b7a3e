// Collectives between ranks on CPUs, over one TCP connection between each two. A sum is an all-to-all in
// pieces and an addition in rank order. The addition is in f32 (f64 for f64) whatever type is sent, so that
// every rank, stage and run gets the same bits. f32 sums may be sent in 16 bits (wire.h). docs/zero.md
// explains why this is not Gloo.
#pragma once
#include <algorithm>
#include <limits>
#include <memory>

#include "engine/core/arena.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/exchange.h"
#include "engine/ranks/seal.h"
#include "engine/ranks/wire.h"

namespace ft {

class MeshCommunicator final : public Communicator {
 public:
  // ops: a CPU's. seconds: how long the other ranks may be silent. bucket: f32 elements added up at once,
  // which decides the buffers' size, up to 1 MiB from each rank.
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
  std::string via() const override;
  std::int64_t memory() const override { return wires_->memory; }
  std::int64_t sent() const override { return wires_->exchange.sent(); }

  // For collectives over another transport: see Exchange.
  std::uint32_t note(Collective what, const std::string& group) { return wires_->exchange.note(what, group); }
  const std::string& group() const { return series_.group; }
  Watch& watch() { return wires_->exchange.watch(); }

  Encryption encryption() const { return wires_->exchange.encryption(); }

  static std::int64_t memory_of(int size, std::int64_t bucket = kAnyBucket,
                                Encryption encryption = Encryption::none) {
    return piece_of(size, bucket) * (size - 1) + seals_memory(encryption, size);
  }

 private:
  struct Wires {  // shared with the communicators split off from this one
    Wires(Ops& ops, Mesh mesh, double seconds, std::int64_t bucket, Wire wire);
    Exchange exchange;
    const Wire wire;
    const std::int64_t piece;     // bytes from each rank in a round of a sum
    const std::int64_t memory;    // bytes of `arrived`, and of the connections' seals
    Buffer arrived;               // (size - 1, piece); in 16 bits, one half receives and the other sends
    std::vector<Parcel> parcels;  // by rank of the world
  };
  struct Range {
    std::int64_t first = 0, count = 0;  // elements
    // Returns the part of at most `most` elements that begins at element `from` of the range.
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
  // mine = the sum of all ranks' elements ranges[rank()] of `all`.
  void sum(Collective, Tensor mine, Tensor all, const std::vector<Range>& ranges);
  void add_up(Tensor mine, Tensor own, std::int64_t n);
  bool narrows(DType sum) const { return size() > 1 && !exact_ && wires_->wire.narrows(sum); }
  // f32 sums in 16 bits, and the second half of an all_reduce, which sends each rank's range to all.
  void sum_narrow(Collective, Tensor mine, Tensor all, const std::vector<Range>& ranges);
  void gather_narrow(Collective, Tensor all, const std::vector<Range>& ranges);
  std::byte* arrival(int member) const;    // address of the round's received piece from another member
  std::byte* departure(int member) const;  // address of the piece to send to it
  // Clears all messages.
  void clear_parcels();
  // The messages to and from one member.
  Parcel& parcel(int member) {
    return wires_->parcels[static_cast<std::size_t>(members_[static_cast<std::size_t>(member)])];
  }
  void exchange(Collective what) { wires_->exchange.run(what, wires_->parcels, series_); }

  std::shared_ptr<Wires> wires_;
  std::vector<int> members_;  // their ranks in the world
  int rank_ = 0;              // index in members_
  bool exact_ = false;        // see RankSubset
  Series series_;
  std::vector<Range> ranges_;
};

}  // namespace ft
