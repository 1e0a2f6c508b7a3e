// A file of somebody else's, such as a model's, from which a run reads as long as it lasts, past the page
// cache where the file system lets it. It must stay what it was when it was first opened: a file that is
// written to or cut, or was replaced before it is opened here, is an error (Exit::input) with its name.
#pragma once
#include "engine/files/block_mover.h"
#include "engine/files/stored_bytes.h"

namespace ft {

class BorrowedFile {
 public:
  BorrowedFile(const std::string& path, const FileState& state);
  BorrowedFile(const BorrowedFile&) = delete;
  BorrowedFile& operator=(const BorrowedFile&) = delete;
  ~BorrowedFile();

  // The transfer of whole blocks around bytes [at, at + bytes) to `data`. The file's last block, which may
  // not be whole, goes through the page cache.
  Transfer around(std::int64_t at, std::int64_t bytes, std::byte* data) const;
  // After a transfer: it is still the same file.
  void check() const;

 private:
  FileState state_;
  BlockFile usual_, direct_;  // the second without a descriptor where the file system refuses
};

}  // namespace ft
