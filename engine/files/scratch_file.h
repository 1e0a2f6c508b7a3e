// A file without a name, for memory that a process does not have: it is gone when the process is, however
// that ends. Its whole size is taken from the disk when it is made, so that a full disk is known before the
// work. It is read and written past the page cache where the file system lets it (O_DIRECT), by a BlockMover.
// Every error is Exit::storage and names the folder and the system's reason.
#pragma once
#include <cstdint>
#include <string>

#include "engine/files/block_mover.h"

namespace ft {

class ScratchFile {
 public:
  // `bytes`: whole blocks, at least one. `setting`: where the folder's name comes from, for messages.
  ScratchFile(const std::string& folder, std::int64_t bytes, const std::string& setting);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  const BlockFile& file() const { return file_; }
  // How `mover` moves it, for people: "io_uring, O_DIRECT".
  std::string way(const BlockMover& mover) const {
    return std::string(mover.name()) + (direct_ ? ", O_DIRECT" : ", through the page cache");
  }

 private:
  BlockFile file_;
  bool direct_ = false;
};

}  // namespace ft
