#include "engine/files/write_all.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ft {

int write_all(int fd, const void* data, std::int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto some = static_cast<std::size_t>(std::min<std::int64_t>(bytes, std::int64_t{1} << 30));
    const ssize_t put = ::write(fd, from, some);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : ENOSPC;
    from += put, bytes -= put;
  }
  return 0;
}

namespace {

int repeated(int (*sync)(int), int fd) {
  while (sync(fd) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

int sync_all(int fd) { return repeated(::fsync, fd); }

int sync_data(int fd) { return repeated(::fdatasync, fd); }

}  // namespace ft
