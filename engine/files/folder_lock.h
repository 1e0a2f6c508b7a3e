// A lock by which one process at a time uses a folder. The lock ends with the process, however that ends, and
// leaves no file.
#pragma once
#include <string>

namespace ft {

class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  // Locks an existing folder. Returns false if another process holds the lock. On a file system without locks
  // every process gets it. A lock of another folder ends.
  bool take(const std::string& folder);
  // False if the name stands for another folder than the one that is locked, or for none.
  bool is_of(const std::string& folder) const;
  bool taken() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace ft
