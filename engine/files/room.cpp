#include "engine/files/room.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "engine/core/error.h"

namespace ft {
namespace fs = std::filesystem;

namespace {

// Returns the folder, or the nearest one above it that exists.
fs::path nearest(const std::string& folder) {
  std::error_code none;
  fs::path there = fs::absolute(folder.empty() ? "." : folder, none);
  while (there.has_relative_path() && !fs::exists(there, none)) there = there.parent_path();
  return there;
}

}  // namespace

std::optional<std::int64_t> free_bytes(const std::string& folder) {
  struct statvfs v {};
  if (::statvfs(nearest(folder).c_str(), &v) != 0 || v.f_blocks == 0) return std::nullopt;
  return static_cast<std::int64_t>(v.f_bavail * v.f_frsize);
}

void require_writable(const std::string& folder, const std::string& setting) {
  const fs::path there = nearest(folder);
  std::error_code none;
  if (!fs::is_directory(there, none))
    throw UserError(Exit::config, str(setting, ": ", printable(folder), ": ", printable(there.string()),
                                      " is not a folder"));
  if (::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    throw UserError(Exit::config, str(setting, ": ", printable(folder), ": ", printable(there.string()),
                                      " cannot be written: ", std::generic_category().message(errno),
                                      "; give another folder"));
}

void require_room(const std::string& folder, std::int64_t bytes, const std::string& what) {
  const auto there = free_bytes(folder);
  if (there && *there < bytes)
    throw UserError(Exit::storage,
                    str(printable(what), ": takes ", bytes, " bytes, and the disk has ", *there, " left"));
}

}  // namespace ft
