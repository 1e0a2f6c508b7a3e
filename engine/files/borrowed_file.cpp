#include "engine/files/borrowed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "engine/core/divide.h"
#include "engine/files/file.h"

namespace ft {
namespace {

// Returns whether O_DIRECT reads work: some file systems accept the flag and refuse the reads.
bool reads_directly(int fd) {
  constexpr auto kSize = static_cast<std::size_t>(kFileBlock);
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kSize, kSize), std::free);
  return block && ::pread(fd, block.get(), kSize, 0) >= 0;
}

}  // namespace

BorrowedFile::BorrowedFile(const std::string& path, const FileState& state)
    : state_(state), usual_{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), path} {
  if (usual_.fd < 0)
    throw UserError(Exit::input, str(printable(path), ": cannot be read: ", system_error_text(errno)));
  try {
    check();
  } catch (...) {
    ::close(usual_.fd);
    throw;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (fd < 0) return;
  if (state_of(fd) == state_ && reads_directly(fd))
    direct_ = {fd, path};
  else
    ::close(fd);
}

BorrowedFile::~BorrowedFile() {
  for (const int fd : {usual_.fd, direct_.fd})
    if (fd >= 0) ::close(fd);
}

Transfer BorrowedFile::around(std::int64_t at, std::int64_t bytes, std::byte* data) const {
  require(0 <= at && at + bytes <= state_.size, "outside of a file that is borrowed");
  const std::int64_t from = at / kFileBlock * kFileBlock, to = round_up(at + bytes, kFileBlock);
  const bool whole = to <= state_.size && direct_.fd >= 0;
  return {whole ? &direct_ : &usual_, from, data, std::min(to, state_.size) - from, false};
}

void BorrowedFile::check() const {
  if (state_of(usual_.fd) == state_) return;
  throw UserError(Exit::input, str(printable(usual_.name),
                                   ": has changed since this run opened it; the run reads frozen weights "
                                   "from it. Do not change the model's files during a run"));
}

}  // namespace ft
