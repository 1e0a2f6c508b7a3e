// A depot in a file without a name (ScratchFile). A separate thread copies chunks through buffers aligned for
// the disk, several at once (BlockMover). For devices that share the host's memory.
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
  static constexpr int kSlots = 8;                               // chunks in flight
  static constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // bytes
  static constexpr std::int64_t kMemory = kSlots * (kChunk + kFileBlock);
  static constexpr std::int64_t kPinned = 8 * kChunk;  // more buffers, between a GPU and the file

  // `setting`: the name of the setting with the folder, for messages.
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
  // Copies like fetch() and put(), but the caller counts the bytes.
  Ticket move(Tensor tensor, std::int64_t at, bool put) { return start(tensor, at, put); }
  std::string way() const override { return way_; }

 private:
  struct Request {
    Ticket ticket;
    Tensor tensor;
    std::int64_t at;
    bool put;
    std::int64_t given = 0, done = 0;  // bytes handed to slots, and bytes that slots have copied
  };
  struct Slot {
    std::unique_ptr<std::byte, void (*)(void*)> buffer;
    Request part{};  // the request; the slot copies `bytes` of it from `first` on
    std::int64_t first = 0, bytes = 0;
    const BorrowedFile* theirs = nullptr;  // the borrowed file; null: the depot's own file
    std::int64_t skip = 0;                 // bytes in the buffer before the requested ones
    bool busy = false;
  };
  Ticket start(Tensor, std::int64_t at, bool put) override;
  void work();
  std::exception_ptr reason(std::exception_ptr thrown) const;
  void move_chunks(std::unique_lock<std::mutex>&);
  bool give(std::unique_lock<std::mutex>&);
  Transfer transfer_of(Slot&) const;
  void take(Slot&, std::unique_lock<std::mutex>&);
  Request* next();  // a request with chunks left; null: none may start now

  std::string folder_, setting_, way_;
  MoverKind kind_;
  std::optional<ScratchFile> file_;
  std::vector<Slot> slots_;
  std::unique_ptr<BlockMover> mover_;
  std::map<std::string, BorrowedFile> theirs_;  // by path
  std::mutex mutex_;
  std::condition_variable done_;
  std::deque<Request> requests_;  // unfinished requests, in the order of their calls
  Ticket last_ = 0;
  std::exception_ptr failed_;
  bool over_ = false;
  std::thread thread_;
};

// make_depot returns the depot of a residence, for devices that share the host's memory; null: the data stays
// on the device. planned_depot returns one that only counts, for NullOps.
std::shared_ptr<Depot> make_depot(const Residence&);
std::shared_ptr<Depot> planned_depot(const Residence&, Device);

}  // namespace ft
