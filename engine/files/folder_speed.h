// Speed of the disk that holds a folder, measured the way offload uses it: blocks, several at once, in a file
// without a name.
#pragma once
#include <cstdint>
#include <string>

#include "engine/files/block_mover.h"

namespace ft {

struct FolderSpeed {
  double read = 0, write = 0;  // bytes per second
  std::string way;             // io_uring, O_DIRECT
};

// Writes and reads `bytes`, a multiple of 1 MiB. Throws UserError (storage) like ScratchFile, and UserError
// (hardware) if this kind of mover is refused. `setting`: the name of the setting with the folder.
FolderSpeed measure_folder(const std::string& folder, const std::string& setting,
                           std::int64_t bytes = std::int64_t{128} << 20, MoverKind kind = MoverKind::any);

}  // namespace ft
