#include "engine/files/room.h"

#include <sys/statvfs.h>

#include <filesystem>

#include "engine/core/error.h"

namespace ft {
namespace fs = std::filesystem;

std::optional<std::int64_t> free_bytes(const std::string& folder) {
  std::error_code none;
  fs::path there = fs::absolute(folder.empty() ? "." : folder, none);
  while (there.has_relative_path() && !fs::exists(there, none)) there = there.parent_path();
  struct statvfs v {};
  if (::statvfs(there.c_str(), &v) != 0 || v.f_blocks == 0) return std::nullopt;
  return static_cast<std::int64_t>(v.f_bavail * v.f_frsize);
}

void require_room(const std::string& folder, std::int64_t bytes, const std::string& what) {
  const auto there = free_bytes(folder);
  if (there && *there < bytes)
    throw UserError(Exit::storage,
                    str(printable(what), ": takes ", bytes, " bytes, and the disk has ", *there, " left"));
}

}  // namespace ft
