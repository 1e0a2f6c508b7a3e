// A library that is preloaded into ft and simulates a faulty disk below its offload files. FT_FAULTS holds
// words:
//  read:N, write:N   the N-th read or write fails with EIO
//  short             each transfer moves only a part of the bytes, not in full blocks
//  slow:MS           each transfer takes some milliseconds longer
//  full              no room when a file is created
//  indirect          the file system refuses O_DIRECT
//  named             the file system has no files without a name
//  uring:ERRNO       the kernel refuses io_uring with this number
#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

namespace {

// Returns the number in "word:7"; 1 without a number; 0 if the word is absent.
int fault(const std::string& word) {
  const char* all = std::getenv("FT_FAULTS");
  std::istringstream in(all ? all : "");
  for (std::string one; in >> one;)
    if (one.substr(0, one.find(':')) == word)
      return one.find(':') == one.npos ? 1 : std::atoi(one.c_str() + one.find(':') + 1);
  return 0;
}

template <class F>
F* original(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

std::array<std::atomic<bool>, 1024> offload_files;

bool is_offload_file(int fd) { return fd >= 0 && fd < 1024 && offload_files[static_cast<std::size_t>(fd)]; }

int remember(int fd, int flags) {
  if (fd >= 0 && fd < 1024) offload_files[static_cast<std::size_t>(fd)] = (flags & O_TMPFILE) == O_TMPFILE;
  return fd;
}

std::atomic<int> reads, writes;

// Waits if the disk is slow. Returns true if this transfer fails.
bool fails(bool put) {
  if (const int ms = fault("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ++(put ? writes : reads) == fault(put ? "write" : "read");
}

std::size_t part_of(std::size_t bytes) { return fault("short") && bytes > 5000 ? bytes / 2 + 1000 : bytes; }

template <class F, class Data>
ssize_t transfer(const char* name, int fd, Data* data, std::size_t bytes, off_t at, bool put) {
  if (is_offload_file(fd)) {
    if (fails(put)) return errno = EIO, -1;
    bytes = part_of(bytes);
  }
  // O_DIRECT transfers only full blocks, so the size is rounded down.
  const std::size_t whole = bytes / 512 * 512;
  return original<F>(name)(fd, data, is_offload_file(fd) && whole > 0 ? whole : bytes, at);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = va_arg(rest, int);
  va_end(rest);
  if (fault("named") && (flags & O_TMPFILE) == O_TMPFILE) return errno = EOPNOTSUPP, -1;
  return remember(original<int(const char*, int, ...)>("open")(path, flags, mode), flags);
}

ssize_t pread(int fd, void* data, std::size_t bytes, off_t at) {
  return transfer<ssize_t(int, void*, std::size_t, off_t)>("pread", fd, data, bytes, at, false);
}
ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) {
  return transfer<ssize_t(int, const void*, std::size_t, off_t)>("pwrite", fd, data, bytes, at, true);
}

int posix_fallocate(int fd, off_t at, off_t bytes) {
  if (fault("full")) return ENOSPC;
  return original<int(int, off_t, off_t)>("posix_fallocate")(fd, at, bytes);
}

int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const auto flags = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
  if (command == F_SETFL && (flags & O_DIRECT) && fault("indirect")) return errno = EINVAL, -1;
  return original<int(int, int, ...)>("fcntl")(fd, command, argument);
}

int io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags) {
  if (const int refused = fault("uring")) return -refused;
  return original<int(unsigned, io_uring*, unsigned)>("io_uring_queue_init")(entries, ring, flags);
}

// Changes requests before the kernel sees them: they move fewer bytes or, to fail with EIO, access byte 0 of
// the process's memory.
int io_uring_submit(io_uring* ring) {
  static const int nothing = original<int(const char*, int, ...)>("open")("/proc/self/mem", O_RDWR, 0);
  for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; ++i) {
    io_uring_sqe& e = ring->sq.sqes[i & *ring->sq.kring_mask];
    if (!is_offload_file(e.fd)) continue;
    const bool put = e.opcode == IORING_OP_WRITE;
    e.len = static_cast<unsigned>(part_of(e.len)) / 512 * 512;
    if (fails(put)) e.fd = nothing, e.off = 0;
  }
  return original<int(io_uring*)>("io_uring_submit")(ring);
}

}  // extern "C"
