#include "engine/files/block_mover.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "engine/files/file.h"

namespace ft {

void TransferProgress::fail(int error) const {
  throw UserError(Exit::storage,
                  str(left_.put ? "writing " : "reading ", left_.file->name, ", byte ", left_.at, ": ",
                      error ? system_error_text(error) : "the file ends there"));
}

// Records the result of a system call. A short transfer continues at a block boundary, as O_DIRECT requires.
bool TransferProgress::take(std::int64_t result) {
  constexpr int kMostFruitless = 1000;
  if (result == -EINTR) return true;
  if (result < 0 && result != -EAGAIN) fail(static_cast<int>(-result));
  if (result == 0) fail(left_.put ? ENOSPC : 0);
  const std::int64_t moved = result < 0              ? 0
                             : result == left_.bytes ? result
                                                     : result / kFileBlock * kFileBlock;
  fruitless_ = moved > 0 ? 0 : fruitless_ + 1;
  if (fruitless_ == kMostFruitless) fail(result < 0 ? EAGAIN : EIO);
  if (result == -EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  left_.at += moved;
  left_.data += moved;
  left_.bytes -= moved;
  return left_.bytes > 0;
}

std::unique_ptr<BlockMover> make_block_mover(int slots, MoverKind kind, const BlockFile& probe) {
  if (kind != MoverKind::threads)
    if (auto mover = make_uring_mover(slots, probe); mover || kind == MoverKind::uring) return mover;
  return make_thread_mover(slots);
}

}  // namespace ft
