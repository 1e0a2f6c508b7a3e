// A depot in a file without a name (ScratchFile), moved a chunk at a time through buffers that are aligned as
// the disk wants it, several at once (BlockMover), by a thread of its own. For devices whose memory is the
// host's.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/files/block_mover.h"
#include "engine/files/borrowed_file.h"
#include "engine/files/scratch_file.h"
#include "engine/ops/device.h"
#include "engine/zero/depot.h"

namespace ft {

class FileDepot final : public Depot {
 public:
  static constexpr int kSlots = 8;                               // chunks under way
  static constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // bytes
  static constexpr std::int64_t kMemory = kSlots * (kChunk + kFileBlock);
  static constexpr std::int64_t kPinned = 8 * kChunk;  // and these, between a GPU and the file

  // `setting`: where the folder's name comes from, for messages.
  FileDepot(std::string folder, std::string setting, MoverKind kind = MoverKind::any)
      : folder_(std::move(folder)), setting_(std::move(setting)), kind_(kind) {}
  ~FileDepot() override;

  bool borrows() const override { return true; }
  void open() override;
  void finish(Ticket) override;
  void abandon() override;
  std::int64_t memory() const override { return kMemory; }
  Home home() const override { return Home::file; }
  Moved moved() const override { return by_file(); }
  // As fetch() and put(), counted by who asks.
  Ticket move(Tensor tensor, std::int64_t at, bool put) { return start(tensor, at, put); }
  std::string way() const override { return way_; }

 private:
  struct Request {
    Ticket ticket;
    Tensor tensor;
    std::int64_t at;
    bool put;
    std::int64_t given = 0, done = 0;  // bytes: to slots, and by them
  };
  struct Slot {
    std::unique_ptr<std::byte, void (*)(void*)> buffer;
    Request part{};  // of `bytes` from `first`
    std::int64_t first = 0, bytes = 0;
    const BorrowedFile* theirs = nullptr;  // null: the depot's own
    std::int64_t skip = 0;                 // bytes of the buffer before those
    bool busy = false;
  };
  Ticket start(Tensor, std::int64_t at, bool put) override;
  void work();
  std::exception_ptr reason(std::exception_ptr thrown) const;
  void move_chunks(std::unique_lock<std::mutex>&);
  bool give(std::unique_lock<std::mutex>&);
  Transfer transfer_of(Slot&) const;
  void take(Slot&, std::unique_lock<std::mutex>&);
  Request* next();  // that has a chunk to be moved; null: none may begin now

  std::string folder_, setting_, way_;
  MoverKind kind_;
  std::optional<ScratchFile> file_;
  std::vector<Slot> slots_;
  std::unique_ptr<BlockMover> mover_;
  std::map<std::string, BorrowedFile> theirs_;  // by path
  std::mutex mutex_;
  std::condition_variable done_;
  std::deque<Request> requests_;  // not done, in the order in which they came
  Ticket last_ = 0;
  std::exception_ptr failed_;
  bool over_ = false;
  std::thread thread_;
};

// The depot of a residence, for devices whose memory is the host's; null: it is on the device. And one that
// only counts, for NullOps.
std::shared_ptr<Depot> make_depot(const Residence&);
std::shared_ptr<Depot> planned_depot(const Residence&, Device);

}  // namespace ft
