#include "app/hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/write_all.h"

namespace ft::hub {

PartialFile::PartialFile(std::filesystem::path part) : part_(std::move(part)) {
  fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  struct stat info {};
  if (fd_ < 0 || ::fstat(fd_, &info) != 0) fail(errno);
  size_ = info.st_size;
}

PartialFile::~PartialFile() {
  if (fd_ >= 0) ::close(fd_);
}

void PartialFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), size_);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(put < 0 ? errno : ENOSPC);
    size_ += put;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void PartialFile::restart() {
  if (::unlink(part_.c_str()) != 0 && errno != ENOENT) fail(errno);
  ::close(fd_);
  fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0 && errno == EEXIST) fail_beside_another();
  if (fd_ < 0) fail(errno);
  size_ = 0;
}

void PartialFile::read(const std::function<void(std::string_view)>& take) const {
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < size_;) {
    const ssize_t got = ::pread(fd_, piece.data(), piece.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(got < 0 ? errno : EIO);
    take({piece.data(), static_cast<std::size_t>(got)});
    at += got;
  }
}

void PartialFile::commit(const std::filesystem::path& complete) {
  if (const int error = sync_all(fd_)) fail(error);
  const bool own = is_own();
  if (::close(std::exchange(fd_, -1)) != 0) fail(errno);
  if (own && std::rename(part_.c_str(), complete.c_str()) == 0)
    return sync_folder(complete.parent_path().string());
  if (own && errno != ENOENT) fail(errno);
  struct stat info {};
  const bool there = ::lstat(complete.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (!there || info.st_size != size_) fail_beside_another();
}

// Returns true if the part's name still stands for the open file.
bool PartialFile::is_own() const {
  struct stat own {};
  struct stat named {};
  if (::fstat(fd_, &own) != 0) fail(errno);
  return ::lstat(part_.c_str(), &named) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

void PartialFile::fail_beside_another() const {
  throw UserError(Exit::storage, str(part_.string(), ": another process writes it too; run this again"));
}

void PartialFile::fail(int error) const {
  throw UserError(Exit::storage, str(part_.string(), ": cannot be written: ", system_error_text(error)));
}

}  // namespace ft::hub
