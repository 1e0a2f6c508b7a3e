// Memory that is not the device's, where a ParameterStore keeps what it uses only now and then. Pieces are
// reserved, open() takes memory for them all, and from then on parts of them are moved beside the
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
#include "engine/files/stored_bytes.h"
#include "engine/zero/moved.h"

namespace ft {

class Ops;

// Where a kind of thing lives.
enum class Home : std::uint8_t { device, host, file };

class Depot {
 public:
  using Ticket = std::uint64_t;
  static constexpr std::int64_t kBlock =
      4096;  // bytes; a piece begins at a multiple of them, and so does what is put

  virtual ~Depot() = default;
  // Before open(): the offset of a piece, which begins as zeros.
  std::int64_t reserve(std::int64_t bytes) {
    const std::int64_t at = size_;
    size_ += round_up(bytes, kBlock);
    return at;
  }
  // The same of bytes that another file holds: they are fetched from there, and never put. A file that
  // changes meanwhile is an error with its name.
  virtual bool borrows() const { return false; }
  std::int64_t borrow(const StoredBytes& from, std::int64_t bytes) {
    const std::int64_t at = borrowed_.empty() ? kBorrowed : borrowed_.back().at + borrowed_.back().bytes;
    borrowed_.push_back({at, bytes, from});
    return at;
  }
  virtual void open() = 0;

  // Moves all of a dense tensor from or to offset `at`. The tensor belongs to the depot until finish() of the
  // ticket or of a later one; what it throws, finish() does. What touches the same bytes happens in the order
  // in which it was asked for.
  Ticket fetch(Tensor to, std::int64_t at) {
    fetched_ += to.bytes();
    return start(to, at, false);
  }
  Ticket put(std::int64_t at, Tensor from) {
    put_ += from.bytes();
    return start(from, at, true);
  }
  virtual void finish(Ticket) = 0;
  // Where the host's memory holds offset `at` for good, so that the host computes there; null: nowhere, what
  // it needs is fetched. What was put can be seen there, or fetched through for_host(), after land().
  virtual std::byte* in_place(std::int64_t /*at*/) { return nullptr; }
  virtual void land(Ticket) {}
  // The same pieces, moved from and to the host's memory.
  virtual Depot& for_host() { return *this; }
  // Returns when nothing touches a tensor any more; nothing but destruction may follow.
  virtual void abandon() {}

  std::int64_t size() const { return size_; }        // bytes of all pieces
  virtual Moved moved() const { return {}; }         // so far, by fetch() and put()
  virtual std::int64_t memory() const { return 0; }  // bytes of its own buffers, in the host's memory
  virtual Home home() const = 0;
  virtual std::string way() const { return ""; }  // how it moves, for people

 protected:
  static constexpr std::int64_t kBorrowed = std::int64_t{1}
                                            << 60;  // where the offsets of borrowed bytes begin
  struct Borrowed {
    std::int64_t at, bytes;
    StoredBytes from;
  };
  virtual Ticket start(Tensor, std::int64_t at, bool put) = 0;
  Moved by_file() const { return {.read = fetched_, .written = put_}; }
  Moved by_bus() const { return {.to_device = fetched_, .to_host = put_}; }
  const std::vector<Borrowed>& borrowed() const { return borrowed_; }
  // Null: the depot's own.
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
  std::atomic<std::int64_t> fetched_ = 0, put_ = 0;  // bytes; the host's thread asks too
};

// A depot for NullOps: it counts.
class PlannedDepot final : public Depot {
 public:
  // bus: between here and the device.
  explicit PlannedDepot(std::int64_t memory, Home home = Home::file, bool bus = false)
      : memory_(memory), home_(home), bus_(bus) {
    if (bus && home == Home::file) for_host_ = std::make_unique<PlannedDepot>(0);
  }
  bool borrows() const override { return home_ == Home::file; }
  void open() override {}
  void finish(Ticket) override {}
  std::byte* in_place(std::int64_t at) override {  // an address that is never read
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

// Where a kind of thing is to live. With Home::file a folder, and the setting that names it, for messages.
struct Residence {
  Home home = Home::device;
  std::string folder{}, setting{};
  bool pinned = true;  // host memory, for a GPU
};

// Where the parts of a store live; null: on the device.
struct Homes {
  std::shared_ptr<Depot> params;  // values; in an f32 run they are the masters as well
  std::shared_ptr<Depot> states;  // the optimizer's, masters of narrower values, gradients
  // Computes in the host's memory, in a thread of the store's: steps units beside the backward pass of others
  // and, for a device with memory of its own, whatever lives in `states`. Null: nothing is stepped so.
  std::shared_ptr<Ops> host;
};

}  // namespace ft
