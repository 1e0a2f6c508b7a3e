// A folder that one process at a time uses. The lock ends with the process, however that ends, and leaves no
// file.
#pragma once
#include <string>

namespace ft {

class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  // Locks a folder that is there. False: another process has it. A file system without locks gives it to
  // everybody.
  bool take(const std::string& folder);
  bool taken() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace ft
