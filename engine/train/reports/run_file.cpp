#include "engine/train/reports/run_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/links.h"
#include "engine/files/write_all.h"

namespace ft {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw UserError(Exit::storage, str(path, ": cannot be written: ", system_error_text(error)));
}

}  // namespace

RunFile::RunFile(const std::string& path, bool keep)
    : RunFile(std::filesystem::path(path).parent_path().string(),
              std::filesystem::path(path).filename().string(), keep) {}

RunFile::RunFile(const std::string& folder, const std::string& name, bool keep)
    : path_(join_path(folder, name)) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) fail(folder, error.value());
  fd_ = open_below(folder, name, O_WRONLY | O_CREAT | O_APPEND | (keep ? 0 : O_TRUNC));
}

RunFile::RunFile(RunFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

RunFile& RunFile::operator=(RunFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

RunFile::~RunFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool RunFile::is_removed() const {
  struct stat info {};
  return fd_ >= 0 && ::fstat(fd_, &info) == 0 && info.st_nlink == 0;
}

void RunFile::append(std::string_view piece) {
  require(fd_ >= 0, "a run file is opened before it is written");
  if (is_removed()) throw UserError(Exit::storage, path_ + ": was removed during the run");
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  const int error = write_all(fd_, piece.data(), std::ssize(piece));
  if (error == 0) return;
  // A part of the piece is removed; a device that cannot be cut keeps it.
  if (before >= 0 && ::ftruncate(fd_, before) != 0) fail(path_, error);
  fail(path_, error);
}

void RunFile::sync() {
  require(fd_ >= 0, "a run file is opened before it is made durable");
  const int error = sync_data(fd_);
  if (error != 0 && error != EINVAL) fail(path_, error);  // EINVAL: a pipe or a device
}

}  // namespace ft
