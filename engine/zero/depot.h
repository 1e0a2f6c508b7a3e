// Memory outside the device, where a ParameterStore offloads data that it uses only now and then. The user
// reserves pieces, then open() allocates them all, and from then on parts of them are copied beside the
// computation.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/divide.h"
#include "engine/core/tensor.h"
#include "engine/files/safetensors/stored_bytes.h"
#include "engine/zero/moved.h"

namespace ft {

class Ops;

// Memory that holds one kind of data.
enum class Home : std::uint8_t { device, host, file };

class Depot {
 public:
  using Ticket = std::uint64_t;
  static constexpr std::int64_t kBlock =
      4096;  // bytes; every piece, and every put(), begins at a multiple of them

  virtual ~Depot() = default;
  // Call before open(). Returns the offset of a new piece, initially zeros.
  std::int64_t reserve(std::int64_t bytes) {
    const std::int64_t at = size_;
    size_ += round_up(bytes, kBlock);
    return at;
  }
  // Returns the offset of bytes in another file, which are fetched from that file and never put. A file that
  // changes meanwhile causes an error that names it.
  virtual bool borrows() const { return false; }
  std::int64_t borrow(const StoredBytes& from, std::int64_t bytes) {
    const std::int64_t at = borrowed_.empty() ? kBorrowed : borrowed_.back().at + borrowed_.back().bytes;
    borrowed_.push_back({at, bytes, from});
    return at;
  }
  virtual void open() = 0;

  // Copies all of a dense tensor from, or to, offset `at`. The tensor belongs to the depot until finish() of
  // this ticket or a later one, which rethrows an exception of the copy. Copies of overlapping bytes happen
  // in the order of the calls.
  Ticket fetch(Tensor to, std::int64_t at) {
    fetched_ += to.bytes();
    return start(to, at, false);
  }
  Ticket put(std::int64_t at, Tensor from) {
    put_ += from.bytes();
    return start(from, at, true);
  }
  virtual void finish(Ticket) = 0;
  // Returns the permanent host address of offset `at`, so that the host can compute there. Null: there is
  // none, the host must fetch the data. After land(ticket), data that was put is visible at that address and
  // to for_host().
  virtual std::byte* in_place(std::int64_t /*at*/) { return nullptr; }
  virtual void land(Ticket) {}
  // A view of these pieces for copies from and to host memory.
  virtual Depot& for_host() { return *this; }
  // Returns when no copy uses a tensor any more. Only destruction may follow.
  virtual void abandon() {}

  std::int64_t size() const { return size_; }        // bytes of all pieces
  virtual Moved moved() const { return {}; }         // so far, by fetch() and put()
  virtual std::int64_t memory() const { return 0; }  // bytes of the depot's buffers, in host memory
  virtual Home home() const = 0;
  virtual std::string way() const { return ""; }  // the means of copying, for people

 protected:
  static constexpr std::int64_t kBorrowed = std::int64_t{1} << 60;  // offset of the first borrowed byte
  struct Borrowed {
    std::int64_t at, bytes;
    StoredBytes from;
  };
  virtual Ticket start(Tensor, std::int64_t at, bool put) = 0;
  Moved by_file() const { return {.read = fetched_, .written = put_}; }
  Moved by_bus() const { return {.to_device = fetched_, .to_host = put_}; }
  const std::vector<Borrowed>& borrowed() const { return borrowed_; }
  // Returns null if offset `at` is in the depot's own memory.
  const Borrowed* find_borrowed(std::int64_t at) const {
    const auto after = std::upper_bound(borrowed_.begin(), borrowed_.end(), at,
                                        [](std::int64_t x, const Borrowed& b) { return x < b.at; });
    return after == borrowed_.begin() ? nullptr : &*(after - 1);
  }
  bool holds(std::int64_t at, std::int64_t bytes) const {
    const Borrowed* b = find_borrowed(at);
    return b ? at + bytes <= b->at + b->bytes : 0 <= at && at + bytes <= size_;
  }

 private:
  std::vector<Borrowed> borrowed_;
  std::int64_t size_ = 0;
  std::atomic<std::int64_t> fetched_ = 0, put_ = 0;  // bytes; atomic because the host's thread calls too
};

// A depot for NullOps: it only counts bytes.
class PlannedDepot final : public Depot {
 public:
  // bus: copies pass over a bus between the host and the device.
  explicit PlannedDepot(std::int64_t memory, Home home = Home::file, bool bus = false)
      : memory_(memory), home_(home), bus_(bus) {
    if (bus && home == Home::file) for_host_ = std::make_unique<PlannedDepot>(0);
  }
  bool borrows() const override { return home_ == Home::file; }
  void open() override {}
  void finish(Ticket) override {}
  std::byte* in_place(std::int64_t at) override {  // a dummy address, never read
    return home_ == Home::host ? reinterpret_cast<std::byte*>(kBlock + at) : nullptr;
  }
  Depot& for_host() override { return for_host_ ? *for_host_ : *this; }
  Moved moved() const override {
    return (home_ == Home::file ? by_file() : Moved{}) + (bus_ ? by_bus() : Moved{}) +
           (for_host_ ? for_host_->moved() : Moved{});
  }
  std::int64_t memory() const override { return memory_; }
  Home home() const override { return home_; }

 private:
  Ticket start(Tensor, std::int64_t, bool) override { return 0; }
  std::int64_t memory_;
  Home home_;
  bool bus_;
  std::unique_ptr<PlannedDepot> for_host_;
};

// The memory that one kind of data is to live in. For Home::file: the folder, and the setting that names it,
// for messages.
struct Residence {
  Home home = Home::device;
  std::string folder{}, setting{};
  bool pinned = true;  // for a GPU: pin the host memory
};

// The depots of a store. Null: on the device.
struct Homes {
  std::shared_ptr<Depot> params;  // values; in an f32 run also the masters
  std::shared_ptr<Depot> states;  // optimizer states, masters of narrower values, gradients
  // Ops that compute in host memory, on a thread of the store. They update units during the backward pass of
  // other units and, for a device with its own memory, all data in `states`. Null: the device updates
  // everything.
  std::shared_ptr<Ops> host;

  void each_depot(const auto& visit) const {
    for (Depot* depot : {params.get(), states.get()})
      if (depot) visit(*depot);
  }
};

}  // namespace ft
