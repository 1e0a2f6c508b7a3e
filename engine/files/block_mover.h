// Moves whole blocks between files and memory, several at once, for one thread that starts transfers and
// waits for them. io_uring does it, and where the kernel or the file system refuses that (ENOSYS, EPERM under
// seccomp, EINVAL), reads and writes in threads do: the same bytes. Short transfers go on where they ended,
// EINTR and EAGAIN are tried again; every other error is Exit::storage with the file's name, the place in it
// and the system's reason.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ft {

inline constexpr std::int64_t kFileBlock = 4096;  // bytes; offsets, sizes and addresses are multiples

struct BlockFile {
  int fd = -1;
  std::string name;  // for messages
};

struct Transfer {
  const BlockFile* file = nullptr;
  std::int64_t at = 0;  // bytes
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool put = false;  // into the file
};

enum class MoverKind : std::uint8_t { any, uring, threads };

class BlockMover {
 public:
  static constexpr int kWoken = -1;

  virtual ~BlockMover() = default;  // returns when nothing touches memory any more
  // The file and the memory are the mover's until wait() returns `slot`.
  virtual void start(int slot, const Transfer&) = 0;
  // A slot whose transfer is complete; kWoken: none, but wake() was called. Throws what a transfer failed
  // with; nothing but destruction may follow.
  virtual int wait() = 0;
  virtual void wake() = 0;  // from any thread
  virtual const char* name() const = 0;
};

// For `slots` transfers at once. `probe`, a file of at least one block, is read to see whether its file
// system takes part; null: with MoverKind::uring, it was refused.
std::unique_ptr<BlockMover> make_block_mover(int slots, MoverKind, const BlockFile& probe);

// Null: refused.
std::unique_ptr<BlockMover> make_uring_mover(int slots, const BlockFile& probe);
std::unique_ptr<BlockMover> make_thread_mover(int slots);

// Where a transfer stands.
class TransferProgress {
 public:
  TransferProgress() = default;
  explicit TransferProgress(const Transfer& t) : left_(t) {}
  // What is still to be moved.
  const Transfer& left() const { return left_; }
  // The system has moved `result` bytes of what was left, or says -errno. Whether something is left.
  bool take(std::int64_t result);

 private:
  [[noreturn]] void fail(int error) const;

  Transfer left_;
  int fruitless_ = 0;  // times in a row
};

}  // namespace ft
