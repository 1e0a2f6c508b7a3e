// A file that does not belong to the run, such as a model's, from which the run reads throughout, past the
// page cache if the file system allows it. The file must not change. Throws UserError (input) with its name
// if it was written to, truncated, or replaced before it is opened here.
#pragma once
#include "engine/files/block_mover.h"
#include "engine/files/safetensors/stored_bytes.h"

namespace ft {

class BorrowedFile {
 public:
  BorrowedFile(const std::string& path, const FileState& state);
  BorrowedFile(const BorrowedFile&) = delete;
  BorrowedFile& operator=(const BorrowedFile&) = delete;
  ~BorrowedFile();

  // Returns the transfer of the blocks around bytes [at, at + bytes) to `data`. The file's last block, which
  // may be partial, goes through the page cache.
  Transfer around(std::int64_t at, std::int64_t bytes, std::byte* data) const;
  // Call after a transfer. Throws UserError (input) if the file has changed.
  void check() const;

 private:
  FileState state_;
  BlockFile usual_, direct_;  // `direct_` has no descriptor if the file system refuses
};

}  // namespace ft
