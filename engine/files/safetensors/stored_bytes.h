// Location of bytes in a file, with the identity of that file.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

// The identity of a file, which changes when the file is written to.
struct FileState {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, modified = 0;  // bytes; nanoseconds
  bool operator==(const FileState&) const = default;
};
FileState state_of(int fd);  // zeros if the system gives no information

struct StoredBytes {
  std::string path;  // empty: no such bytes
  FileState state;   // when the file was opened
  std::int64_t at = 0;
  explicit operator bool() const { return !path.empty(); }
};

}  // namespace ft
