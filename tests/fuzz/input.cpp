#include "tests/fuzz/input.h"

#include <fcntl.h>
#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine/core/error.h"

namespace ft::fuzz {
namespace {

namespace fs = std::filesystem;

// Bytes that are allocated now, and the most since an input began. libFuzzer has no limit that depends on the
// input's size.
std::atomic<std::int64_t> held{0}, most{0};

void on_malloc(const volatile void*, std::size_t bytes) {
  const std::int64_t now = held += static_cast<std::int64_t>(bytes);
  std::int64_t before = most;
  while (before < now && !most.compare_exchange_weak(before, now)) {
  }
}

void on_free(const volatile void* p) {
  if (p) held -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(p));
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

bool is_for_inputs(Exit code) {
  return code == Exit::config || code == Exit::input || code == Exit::checkpoint || code == Exit::numeric ||
         code == Exit::mismatch || code == Exit::peer_lost;
}

void write_all_of(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put <= 0) fail("the input cannot be written to memory");
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace

MemoryFile::MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", 0)) { write_all_of(fd_, bytes); }

MemoryFile::~MemoryFile() { ::close(fd_); }

MemoryFolder::MemoryFolder() : path_("/dev/shm/ft-fuzz-XXXXXX") {
  if (!::mkdtemp(path_.data())) fail("/dev/shm cannot be written");
}

MemoryFolder::~MemoryFolder() {
  std::error_code none;
  fs::remove_all(path_, none);
}

std::string MemoryFolder::write(const std::string& name, std::string_view bytes) const {
  const std::string path = *this / name;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  write_all_of(fd, bytes);
  ::close(fd);
  return path;
}

void MemoryFolder::clear() const {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(path_, none)) fs::remove_all(entry.path(), none);
}

void read_within(std::size_t size, const std::function<void()>& read, Room room) {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (installed == 0) fail("memory cannot be counted");
  const std::int64_t before = held;
  most = before;
  try {
    read();
  } catch (const UserError& e) {
    if (std::string_view(e.what()).empty() || !is_for_inputs(e.code))
      fail(str("an input is refused with exit code ", static_cast<int>(e.code), ": ", e.what()));
  }
  const auto used = static_cast<std::size_t>(most - before), allowed = room.base + room.times * size;
  if (used > allowed)
    fail(str(size, " bytes of input take ", used, " bytes of memory; allowed are ", allowed));
}

}  // namespace ft::fuzz
