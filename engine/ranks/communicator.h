// The collectives that training needs. Every rank calls them in the same order with the same sizes. Tensors
// are where the ranks' Ops compute; results are ready for the next call on the same Ops. Sums are f32 or
// wider, in an order that depends on the sizes and ranks only: all ranks, and all runs, get the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"

namespace ft {

// Some of the ranks of a communicator.
struct RankSubset {
  std::vector<int> members;  // in this order, the own rank among them
  std::string name = {};     // for the message when one of them is lost: "the tensor group of ranks 2, 3"
  bool exact = false;        // sums of f32 travel as they are, also where others travel in 16 bits (wire.h)
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // all: size() pieces of mine's size, in rank order. `mine` may be this rank's piece of `all`.
  virtual void all_gather(Tensor all, Tensor mine) = 0;
  // mine = this rank's piece of the sum of everybody's `all`. `mine` may be a piece of `all`.
  virtual void reduce_scatter(Tensor mine, Tensor all) = 0;
  virtual void all_reduce(Tensor x) = 0;  // f32 or f64
  // Both have size() pieces of one size: piece r of `to` is what rank r has for this one, piece rank() of its
  // `from`. They have no memory in common.
  virtual void all_to_all(Tensor to, Tensor from) = 0;
  // `out` to rank `to`, while `in` comes from rank `from`, neither of them this one; an empty tensor: nothing
  // goes, or comes. Only ranks that send or receive call it.
  virtual void send_receive(Tensor out, int to, Tensor in, int from) = 0;
  // For host memory, wherever the ranks compute. all: size() pieces in rank order; this rank's is given, the
  // others arrive.
  virtual void all_gather_host(std::span<std::byte> all) = 0;
  virtual void broadcast(std::span<std::byte> host, int root) = 0;         // ids, counts, texts
  virtual void transfer(std::span<std::byte> host, int from, int to) = 0;  // to's host = from's
  virtual void barrier() = 0;

  // Collectives beside the computation: `work` is given this communicator and may begin at any time until
  // finish() returns; what it reads and writes belongs to it until then. Works, and collectives that are
  // called directly, happen in the order in which they were given. What a work throws, finish() does.
  using Work = std::function<void(Communicator&)>;
  using Ticket = std::uint64_t;
  virtual Ticket start(Work work) {  // here: at once
    work(*this);
    return 0;
  }
  virtual void finish(Ticket) {}
  // Returns when no work touches memory any more; nothing but destruction may follow.
  virtual void abandon() {}

  // Some of these ranks as a world of their own. Every rank calls with its own group. Must not outlive this
  // communicator.
  virtual std::unique_ptr<Communicator> split(RankSubset group) = 0;

  // The place in the program, for the message when a rank is lost: the step, and what the next collectives
  // move.
  virtual void at_step(std::int64_t) {}
  virtual void enter(std::string_view) {}
  virtual std::string via() const { return ""; }     // how the ranks talk, for people: "TCP", "NCCL 2.28.9"
  virtual std::int64_t memory() const { return 0; }  // bytes of its own buffers, on the device of the Ops
  virtual std::int64_t sent() const { return 0; }    // bytes to other ranks, headers not counted, so far
};

}  // namespace ft
