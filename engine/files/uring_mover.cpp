// A BlockMover that uses io_uring: https://kernel.dk/io_uring.pdf
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/require.h"
#include "engine/files/block_mover.h"

namespace ft {
namespace {

class UringMover final : public BlockMover {
 public:
  explicit UringMover(int slots) : slots_(static_cast<std::size_t>(slots)) {
    const auto entries = static_cast<unsigned>(slots) + 1;  // all slots, and the read for wake()
    there_ = io_uring_queue_init(entries, &ring_, 0) == 0;
    if (there_) event_ = eventfd(0, EFD_CLOEXEC);
    if (event_ >= 0) listen();
  }
  // Waits for pending transfers before freeing memory, since the kernel may still write to it.
  ~UringMover() override {
    if (event_ >= 0) {
      wake();
      drain();
      close(event_);
    }
    if (there_) io_uring_queue_exit(&ring_);
  }

  // Returns true if the kernel has io_uring and can read this file with it.
  bool works(const BlockFile& file) {
    if (!there_ || event_ < 0) return false;
    const std::unique_ptr<std::byte, void (*)(void*)> block(
        static_cast<std::byte*>(std::aligned_alloc(kFileBlock, kFileBlock)), std::free);
    if (!block) return false;
    slots_[0] = TransferProgress({&file, 0, block.get(), kFileBlock, false});
    submit(0);
    Reaped got = reap();
    while (got.slot == kWoken) got = reap();
    return got.result == kFileBlock;
  }

  void start(int slot, const Transfer& t) override {
    slots_[static_cast<std::size_t>(slot)] = TransferProgress(t);
    submit(slot);
  }
  int wait() override {
    for (;;) {
      const Reaped got = reap();
      if (got.slot == kWoken) return listen(), kWoken;
      if (!slots_[static_cast<std::size_t>(got.slot)].take(got.result)) return got.slot;
      submit(got.slot);
    }
  }
  void wake() override {
    const std::uint64_t one = 1;
    while (write(event_, &one, sizeof one) < 0 && errno == EINTR) continue;
  }
  const char* name() const override { return "io_uring"; }

 private:
  struct Reaped {
    int slot;
    std::int64_t result;  // bytes, or -errno
  };

  void submit(int slot) {
    const Transfer& t = slots_[static_cast<std::size_t>(slot)].left();
    const auto place = static_cast<std::uint64_t>(t.at);
    const auto bytes = static_cast<unsigned>(t.bytes);
    give(slot, [&](io_uring_sqe* e) {
      if (t.put)
        io_uring_prep_write(e, t.file->fd, t.data, bytes, place);
      else
        io_uring_prep_read(e, t.file->fd, t.data, bytes, place);
    });
  }
  void listen() {
    give(kWoken, [&](io_uring_sqe* e) { io_uring_prep_read(e, event_, &calls_, sizeof calls_, 0); });
  }
  // Queues a transfer. If the kernel does not accept it now, the next reap() submits it again.
  void give(int slot, const auto& prepare) {
    io_uring_sqe* e = io_uring_get_sqe(&ring_);
    require(e != nullptr, "more transfers than slots");
    prepare(e);
    e->user_data = static_cast<std::uint64_t>(static_cast<std::int64_t>(slot));
    ++under_way_;
    io_uring_submit(&ring_);
  }
  // Waits for all transfers. If io_uring stopped working, closing the ring ends them.
  void drain() noexcept {
    try {
      while (under_way_ > 0) reap();
    } catch (const InternalError&) {
    }
  }
  Reaped reap() {
    io_uring_cqe* e = nullptr;
    while (io_uring_peek_cqe(&ring_, &e) != 0) {
      const int given = io_uring_submit_and_wait(&ring_, 1);
      require(given >= 0 || given == -EINTR || given == -EAGAIN || given == -EBUSY,
              "io_uring stopped working");
    }
    const Reaped got{static_cast<int>(static_cast<std::int64_t>(e->user_data)), e->res};
    io_uring_cqe_seen(&ring_, e);
    --under_way_;
    return got;
  }

  io_uring ring_{};
  bool there_ = false;
  int event_ = -1, under_way_ = 0;
  std::uint64_t calls_ = 0;
  std::vector<TransferProgress> slots_;
};

}  // namespace

std::unique_ptr<BlockMover> make_uring_mover(int slots, const BlockFile& probe) {
  auto mover = std::make_unique<UringMover>(slots);
  if (!mover->works(probe)) return nullptr;
  return mover;
}

}  // namespace ft
