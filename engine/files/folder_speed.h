// How fast the disk below a folder is, measured as offload uses it: whole blocks, several at once, in a file
// without a name.
#pragma once
#include <cstdint>
#include <string>

#include "engine/files/block_mover.h"

namespace ft {

struct FolderSpeed {
  double read = 0, write = 0;  // bytes a second
  std::string way;             // io_uring, O_DIRECT
};

// Writes and reads `bytes`, whole MiB. UserError(Exit::storage) as of ScratchFile, (Exit::hardware) where
// this kind is refused; `setting`: where the
// folder's name comes from.
FolderSpeed measure_folder(const std::string& folder, const std::string& setting,
                           std::int64_t bytes = std::int64_t{128} << 20, MoverKind kind = MoverKind::any);

}  // namespace ft
