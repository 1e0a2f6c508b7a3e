// A file without a name, as additional memory of a process. It disappears with the process, however that
// ends. The disk space is allocated at once, so that a full disk is detected before the work. A BlockMover
// reads and writes it, past the page cache if the file system allows it (O_DIRECT). Throws UserError
// (storage) on every error, with the folder and the system's reason.
#pragma once
#include <cstdint>
#include <string>

#include "engine/files/block_mover.h"

namespace ft {

class ScratchFile {
 public:
  // `bytes`: a multiple of the block, not 0. `setting`: the name of the setting with the folder, for
  // messages.
  ScratchFile(const std::string& folder, std::int64_t bytes, const std::string& setting);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  const BlockFile& file() const { return file_; }
  // Returns the means of copying with `mover`, for people: "io_uring, O_DIRECT".
  std::string way(const BlockMover& mover) const {
    return std::string(mover.name()) + (direct_ ? ", O_DIRECT" : ", through the page cache");
  }

 private:
  BlockFile file_;
  bool direct_ = false;
};

}  // namespace ft
