#include "engine/files/staged_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "engine/files/file.h"
#include "engine/files/make_folders.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, int error) {
  throw UserError(Exit::storage, str(printable(path), ": cannot be written: ", system_error_text(error)));
}

int open_folder(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

// Renames without replacing an existing folder. If the file system has no such call, a plain rename has the
// same effect, since it replaces only empty folders. Returns errno.
int rename_without_replace(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

std::string removed_name(const std::string& path) { return path + ".trash-" + random_tag(); }

// Returns true for "NAME.tmp-ftXXXXXXXXXX" and "NAME.trash-ftXXXXXXXXXX".
bool is_leftover_name(const std::string& name) {
  if (name.size() <= kTagSize) return false;
  const std::string head = name.substr(0, name.size() - kTagSize), tag = name.substr(head.size());
  return (head.ends_with(".tmp-") || head.ends_with(".trash-")) && tag.starts_with("ft") &&
         std::all_of(tag.begin(), tag.end(),
                     [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'z'); });
}

}  // namespace

StagedFolder::StagedFolder(const std::string& given) : path_(without_slash(given)) {
  const std::string& path = path_;
  make_folders(folder_of(path));
  remove_leftovers(folder_of(path), fs::path(path).filename().string() + ".");
  for (int attempt = 0; lock_ < 0 && attempt < 8; ++attempt) {
    temporary_ = path + ".tmp-" + random_tag();
    if (::mkdir(temporary_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      fail(path, errno);
    }
    lock_ = open_folder(temporary_);
    if (lock_ < 0) continue;  // a remove_leftovers() of another process was faster
    const bool theirs = ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat info {};
    if (theirs || ::stat(temporary_.c_str(), &info) != 0) ::close(std::exchange(lock_, -1));
  }
  if (lock_ < 0) fail(path, EEXIST);
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void StagedFolder::commit(bool replace) {
  sync_folder(temporary_);
  int error = rename_without_replace(temporary_, path_);
  if ((error == EEXIST || error == ENOTEMPTY) && replace) {
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      sync_folder(folder_of(path_));
      remove_folder(temporary_);  // the old folder, after the exchange
      temporary_.clear();
      return;
    }
    remove_folder(path_);
    error = rename_without_replace(temporary_, path_);
  }
  if (error == EEXIST || error == ENOTEMPTY)
    throw UserError(Exit::storage, str(printable(path_), ": already exists and is not overwritten"));
  if (error != 0) fail(path_, error);
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void remove_folder(const std::string& path) {
  const std::string trash = removed_name(path);
  if (::rename(path.c_str(), trash.c_str()) != 0) fail(path, errno);
  sync_folder(folder_of(path));
  std::error_code problem;
  fs::remove_all(trash, problem);
  if (problem) fail(trash, problem.value());
}

void remove_leftovers(const std::string& folder, const std::string& begin) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (const std::string name = entry.path().filename().string();
        name.starts_with(begin) && is_leftover_name(name))
      found.push_back(entry.path());
  for (const auto& path : found) {
    // A link or a device with such a name is not a leftover of ft.
    const auto type = fs::symlink_status(path, ignored).type();
    if (type != fs::file_type::directory && type != fs::file_type::regular) continue;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
    ::close(fd);
  }
}

}  // namespace ft
