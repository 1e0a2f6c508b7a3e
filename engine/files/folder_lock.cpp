#include "engine/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ft {

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool FolderLock::is_of(const std::string& folder) const {
  if (fd_ < 0) return true;
  struct stat locked {
  }, named{};
  return ::fstat(fd_, &locked) == 0 && ::stat(folder.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
         locked.st_ino == named.st_ino;
}

bool FolderLock::take(const std::string& folder) {
  if (!is_of(folder)) ::close(std::exchange(fd_, -1));
  if (fd_ < 0) fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
  ::close(std::exchange(fd_, -1));
  return false;
}

}  // namespace ft
