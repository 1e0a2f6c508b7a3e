// Copies blocks between files and memory, several at once, for one thread that starts transfers and waits for
// them. Uses io_uring or, if the kernel or the file system refuses that (ENOSYS, EPERM under seccomp,
// EINVAL), reads and writes in threads, with the same result. Short transfers continue where they ended;
// EINTR and EAGAIN are retried. Throws UserError (storage) on every other error, with the file's name, the
// position and the system's reason.
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
  bool put = false;  // write to the file, instead of reading from it
};

enum class MoverKind : std::uint8_t { any, uring, threads };

class BlockMover {
 public:
  static constexpr int kWoken = -1;

  virtual ~BlockMover() = default;  // returns when no transfer uses memory any more
  // Starts a transfer. The file and the memory belong to the mover until wait() returns `slot`.
  virtual void start(int slot, const Transfer&) = 0;
  // Returns a slot whose transfer is complete, or kWoken if there is none but wake() was called. Throws the
  // error of a failed transfer; only destruction may follow.
  virtual int wait() = 0;
  virtual void wake() = 0;  // from any thread
  virtual const char* name() const = 0;
};

// Makes a mover for `slots` transfers at once. `probe`, a file of at least one block, is read to test whether
// its file system allows io_uring. Null: MoverKind::uring was requested and is refused.
std::unique_ptr<BlockMover> make_block_mover(int slots, MoverKind, const BlockFile& probe);

// Null: io_uring is refused.
std::unique_ptr<BlockMover> make_uring_mover(int slots, const BlockFile& probe);
std::unique_ptr<BlockMover> make_thread_mover(int slots);

// The progress of one transfer.
class TransferProgress {
 public:
  TransferProgress() = default;
  explicit TransferProgress(const Transfer& t) : left_(t) {}
  // The part that is still to be copied.
  const Transfer& left() const { return left_; }
  // Takes the result of a system call on left(): bytes, or -errno. Returns true if bytes are left.
  bool take(std::int64_t result);

 private:
  [[noreturn]] void fail(int error) const;

  Transfer left_;
  int fruitless_ = 0;  // consecutive results without progress
};

}  // namespace ft
