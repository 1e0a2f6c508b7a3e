// Where a file holds bytes that are wanted as they are, and which file that was.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

// What tells a file from another, and from itself once it has been written to.
struct FileState {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, modified = 0;  // bytes; nanoseconds
  bool operator==(const FileState&) const = default;
};
FileState state_of(int fd);  // zeros when the system does not tell

struct StoredBytes {
  std::string path;  // empty: nowhere
  FileState state;   // when it was opened
  std::int64_t at = 0;
  explicit operator bool() const { return !path.empty(); }
};

}  // namespace ft
