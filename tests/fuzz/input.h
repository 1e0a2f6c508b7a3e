// Parts that fuzz targets share: inputs as files, and the limit of memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ft::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file in memory; readers take its path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

// A folder in memory (/dev/shm), which disappears with the process unless that is killed.
class MemoryFolder {
 public:
  MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  ~MemoryFolder();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file, or replaces it. Returns its path.
  std::string write(const std::string& name, std::string_view bytes) const;
  void clear() const;

 private:
  std::string path_;
};

// Memory that a reader may take for an input of n bytes: base + times * n.
struct Room {
  std::size_t base = std::size_t{16} << 20;  // bytes
  std::size_t times = 1000;
};
// Runs a reader, which may refuse its input by a UserError. Aborts if the error has no text or an exit code
// that no input causes, or if the reader takes more memory than there is room for.
void read_within(std::size_t size, const std::function<void()>& read, Room room = {});

}  // namespace ft::fuzz
