#include "engine/zero/file_depot.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "engine/core/error.h"
#include "engine/zero/memory_depot.h"

namespace ft {
namespace {

std::unique_ptr<std::byte, void (*)(void*)> aligned_buffer(std::int64_t bytes) {
  void* memory = std::aligned_alloc(kFileBlock, static_cast<std::size_t>(bytes));
  if (!memory) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

std::shared_ptr<Depot> make_depot(const Residence& r) {
  if (r.home == Home::device) return nullptr;
  if (r.home == Home::host) return std::make_shared<MemoryDepot>();
  return std::make_shared<FileDepot>(r.folder, r.setting);
}

std::shared_ptr<Depot> planned_depot(const Residence& r, Device device) {
  if (r.home == Home::device) return nullptr;
  const bool bus = device.kind != Device::Kind::cpu;
  const std::int64_t buffers = FileDepot::kMemory + (bus ? FileDepot::kPinned : 0);
  return std::make_shared<PlannedDepot>(r.home == Home::file ? buffers : 0, r.home, bus);
}

FileDepot::~FileDepot() { abandon(); }

void FileDepot::open() {
  file_.emplace(folder_, std::max(size(), kBlock), setting_);
  for (int i = 0; i < kSlots; ++i) slots_.push_back({.buffer = aligned_buffer(kChunk + kFileBlock)});
  mover_ = make_block_mover(kSlots, kind_, file_->file());
  require(mover_ != nullptr, "io_uring is refused here");
  way_ = file_->way(*mover_);
  for (const Borrowed& b : borrowed()) theirs_.try_emplace(b.from.path, b.from.path, b.from.state);
  thread_ = std::thread([this] { work(); });
}

Depot::Ticket FileDepot::start(Tensor tensor, std::int64_t at, bool put) {
  require(tensor.dense() && (put ? at + tensor.bytes() <= size() : holds(at, tensor.bytes())),
          "outside of the depot");
  require(!put || at % kBlock == 0, "what is put begins with a block");
  const std::lock_guard lock(mutex_);
  requests_.push_back({++last_, tensor, at, put});
  mover_->wake();
  return last_;
}

void FileDepot::finish(Ticket ticket) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return failed_ || requests_.empty() || requests_.front().ticket > ticket; });
  if (failed_) std::rethrow_exception(failed_);
}

void FileDepot::abandon() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  mover_->wake();
  thread_.join();
  mover_.reset();
}

// Returns the first request with chunks left that may start. A request waits for earlier requests that
// overlap its bytes, unless both only read.
FileDepot::Request* FileDepot::next() {
  for (auto r = requests_.begin(); r != requests_.end(); ++r) {
    if (r->given == r->tensor.bytes()) continue;
    const std::int64_t end = r->at + r->tensor.bytes();
    const bool waits = std::any_of(requests_.begin(), r, [&](const Request& before) {
      return (before.put || r->put) && before.at < end && r->at < before.at + before.tensor.bytes();
    });
    if (!waits) return &*r;
  }
  return nullptr;
}

void FileDepot::work() {
  std::unique_lock lock(mutex_);
  try {
    move_chunks(lock);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    failed_ = reason(std::current_exception());
    done_.notify_all();
  }
}

void FileDepot::move_chunks(std::unique_lock<std::mutex>& lock) {
  while (!over_) {
    while (give(lock)) continue;
    lock.unlock();
    const int slot = mover_->wait();
    if (slot != BlockMover::kWoken) take(slots_[static_cast<std::size_t>(slot)], lock);
    if (!lock.owns_lock()) lock.lock();
  }
}

// Returns the error of a borrowed file that was truncated or written to meanwhile, since it explains any
// other error; otherwise `thrown`.
std::exception_ptr FileDepot::reason(std::exception_ptr thrown) const {
  try {
    for (const auto& [path, file] : theirs_) file.check();
    return thrown;
  } catch (const UserError&) {
    return std::current_exception();
  }
}

// Returns the transfer of the blocks that contain the slot's bytes.
Transfer FileDepot::transfer_of(Slot& slot) const {
  const std::int64_t at = slot.part.at + slot.first;
  const Borrowed* b = find_borrowed(at);
  const std::int64_t place = b ? b->from.at + at - b->at : at;
  slot.theirs = b ? &theirs_.at(b->from.path) : nullptr;
  slot.skip = place % kBlock;
  if (slot.theirs) return slot.theirs->around(place, slot.bytes, slot.buffer.get());
  return {&file_->file(), place - slot.skip, slot.buffer.get(), round_up(slot.skip + slot.bytes, kBlock),
          slot.part.put};
}

// Gives a free slot the next chunk. Padding a put() to the end of its block overwrites nothing: pieces begin
// at blocks.
bool FileDepot::give(std::unique_lock<std::mutex>& lock) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.busy; });
  Request* r = slot == slots_.end() || over_ ? nullptr : next();
  if (!r) return false;
  slot->first = r->given;
  slot->bytes = std::min(kChunk, r->tensor.bytes() - r->given);
  slot->busy = true;
  r->given += slot->bytes;
  slot->part = *r;
  lock.unlock();
  const Transfer t = transfer_of(*slot);
  if (t.put) {
    std::memcpy(slot->buffer.get(), slot->part.tensor.data + slot->first,
                static_cast<std::size_t>(slot->bytes));
    std::memset(slot->buffer.get() + slot->bytes, 0, static_cast<std::size_t>(t.bytes - slot->bytes));
  }
  mover_->start(static_cast<int>(slot - slots_.begin()), t);
  lock.lock();
  return true;
}

void FileDepot::take(Slot& slot, std::unique_lock<std::mutex>& lock) {
  if (slot.theirs) slot.theirs->check();
  if (!slot.part.put)
    std::memcpy(slot.part.tensor.data + slot.first, slot.buffer.get() + slot.skip,
                static_cast<std::size_t>(slot.bytes));
  lock.lock();
  slot.busy = false;
  const auto same = std::find_if(requests_.begin(), requests_.end(),
                                 [&](const Request& r) { return r.ticket == slot.part.ticket; });
  same->done += slot.bytes;
  while (!requests_.empty() && requests_.front().done == requests_.front().tensor.bytes())
    requests_.pop_front();
  done_.notify_all();
}

}  // namespace ft
