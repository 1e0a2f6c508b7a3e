// The collectives that training needs. Every rank calls them in the same order with the same sizes. Tensors
// are in the memory of the ranks' Ops; results are ready for the next call on the same Ops. Sums are f32 or
// wider, in an order that depends only on the sizes and ranks: all ranks, and all runs, get the same bits.
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

// A subset of a communicator's ranks.
struct RankSubset {
  std::vector<int> members;  // their order is the order of the new ranks; includes the own rank
  std::string name = {};     // for the message when one of them is lost: "the tensor group of ranks 2, 3"
  bool exact = false;        // f32 sums are sent in f32, even if the wire has 16 bits (wire.h)
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Gathers size() pieces of mine's size into `all`, in rank order. `mine` may be this rank's piece of `all`.
  virtual void all_gather(Tensor all, Tensor mine) = 0;
  // mine = this rank's piece of the sum of all ranks' `all`. `mine` may be a piece of `all`.
  virtual void reduce_scatter(Tensor mine, Tensor all) = 0;
  virtual void all_reduce(Tensor x) = 0;  // f32 or f64
  // Both tensors have size() pieces of one size, and share no memory. Rank r's piece rank() of `from` becomes
  // piece r of `to`.
  virtual void all_to_all(Tensor to, Tensor from) = 0;
  // Sends `out` to rank `to` and receives `in` from rank `from`; both are other ranks. An empty tensor:
  // sends, or receives, nothing. Only ranks that send or receive call it.
  virtual void send_receive(Tensor out, int to, Tensor in, int from) = 0;
  // For host memory, wherever the ranks compute. all: size() pieces in rank order. This rank's piece is
  // input, the others are received.
  virtual void all_gather_host(std::span<std::byte> all) = 0;
  virtual void broadcast(std::span<std::byte> host, int root) = 0;         // ids, counts, texts
  virtual void transfer(std::span<std::byte> host, int from, int to) = 0;  // to's host = from's
  virtual void barrier() = 0;

  // Starts collectives beside the computation. `work` is called with this communicator at any time before
  // finish() returns; until then the memory that it reads and writes belongs to it. Works and directly called
  // collectives run in the order of the calls. finish() rethrows an exception of the work. A communicator and
  // those split off from it have one order and one sequence of tickets: each finishes tickets of the others.
  using Work = std::function<void(Communicator&)>;
  using Ticket = std::uint64_t;
  virtual Ticket start(Work work) {  // default: runs it at once
    work(*this);
    return 0;
  }
  virtual void finish(Ticket) {}
  // Returns when no work uses memory any more. Only destruction may follow.
  virtual void abandon() {}

  // Makes a communicator of some of these ranks. Every rank calls it with its own group. The result must not
  // outlive this communicator.
  virtual std::unique_ptr<Communicator> split(RankSubset group) = 0;

  // The place in the program, for the message when a rank is lost: the step, and the name of the data that
  // the next collectives send.
  virtual void at_step(std::int64_t) {}
  virtual void enter(std::string_view) {}
  virtual std::string via() const { return ""; }     // the transport, for people: "TCP", "NCCL 2.28.9"
  virtual std::int64_t memory() const { return 0; }  // bytes of buffers, on the device of the Ops
  virtual std::int64_t sent() const { return 0; }    // bytes sent to other ranks so far, without headers
};

}  // namespace ft
