#include "engine/files/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "engine/core/environment.h"
#include "engine/files/staged_folder.h"
#include "engine/files/write_all.h"

namespace ft {
namespace {

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw UserError(Exit::storage, str(printable(path), ": cannot be written: ", system_error_text(error)));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Opens a file without waiting for a pipe's writer. Examines its kind after opening, so that there is no
// race.
int open_regular(const std::string& path, Exit exit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat info {};
  if (fd < 0 && errno == ENXIO)  // a socket, or a device without a driver
    throw UserError(exit, str(printable(path), ": is not a regular file"));
  if (fd < 0 || ::fstat(fd, &info) != 0) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    throw UserError(exit, str(printable(path), ": cannot be read: ", system_error_text(error)));
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    throw UserError(exit, str(printable(path), ": is ", kind_of(info.st_mode), ", not a regular file"));
  }
  return fd;
}

// Begins with a dot, which keeps the file out of listings and globs.
std::string temporary_prefix(const std::string& name) { return "." + name.substr(0, 200) + ".tmp-"; }

std::string temporary_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(0, name) + temporary_prefix(path.substr(name)) + random_tag();
}

// Makes the entries of a folder durable. name: from the open folder `from`; path: for messages.
void sync_folder_at(int from, const std::string& name, const std::string& path) {
  const int fd = ::openat(from, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_to_write(path, errno);
  const int failed = sync_all(fd);
  ::close(fd);
  // Some file systems cannot sync a folder and return EINVAL; that is not an error.
  if (failed != 0 && failed != EINVAL) fail_to_write(path, failed);
}

// Locks a new temporary file as long as this process lives: remove_leftovers() deletes only files that no
// process holds. Returns false if another process was faster to delete it.
bool hold(int fd) {
  ::flock(fd, LOCK_EX | LOCK_NB);
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

}  // namespace

InputFile::InputFile(const std::string& path, Exit exit)
    : path_(path), exit_(exit), fd_(open_regular(path, exit)) {
  state_ = state_of(fd_);
}

FileState state_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size,
          std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      exit_(other.exit_),
      state_(other.state_),
      fd_(std::exchange(other.fd_, -1)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(exit_, other.exit_);
  std::swap(fd_, other.fd_);
  std::swap(state_, other.state_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::read(std::int64_t offset, void* to, std::int64_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    // A single call reads at most 2 GiB, however many bytes are requested.
    const auto want = static_cast<std::size_t>(std::min<std::int64_t>(bytes, std::int64_t{1} << 30));
    const ssize_t got = ::pread(fd_, out, want, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw UserError(exit_, str(printable(path_), ": cannot be read: ", system_error_text(errno)));
    if (got == 0)
      throw UserError(exit_, str(printable(path_), ": ends at byte ", offset, " of ", state_.size,
                                 "; it shrank while it was being read"));
    out += got, offset += got, bytes -= got;
  }
}

std::string read_file(const std::string& path, std::int64_t max_bytes, Exit exit) {
  const InputFile file(path, exit);
  if (file.size() > max_bytes)
    throw UserError(exit,
                    str(printable(path), ": is ", file.size(), " bytes; at most ", max_bytes, " are read"));
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, text.data(), file.size());
  return text;
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), name_(path), folder_(AT_FDCWD) {
  open(folder_of(path));
}

AtomicFile::AtomicFile(int folder, const std::string& name, const std::string& path)
    : path_(path), name_(name), folder_(folder) {
  open(str("/proc/self/fd/", folder));  // the open folder, whatever has its name now
}

void AtomicFile::open(const std::string& leftovers_in) {
  remove_leftovers(leftovers_in, temporary_prefix(name_.substr(name_.rfind('/') + 1)));
  for (int attempt = 0; fd_ < 0 && attempt < 8; ++attempt) {
    temporary_ = temporary_name(name_);
    fd_ = ::openat(folder_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
    if (fd_ >= 0 && !hold(fd_)) ::close(std::exchange(fd_, -1));
  }
  if (fd_ < 0) fail_to_write(path_, errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlinkat(folder_, temporary_.c_str(), 0);
}

void AtomicFile::write(const void* data, std::int64_t bytes) {
  require(fd_ >= 0, "written after commit");
  if (const int error = write_all(fd_, data, bytes)) fail_to_write(path_, error);
}

void AtomicFile::reserve(std::int64_t bytes) {
  if (bytes == 0 || ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) fail_to_write(path_, errno);
  // Otherwise the file system does not support it; a write will fail if the disk is full.
}

void AtomicFile::extend(std::int64_t bytes) {
  if (::ftruncate(fd_, bytes) != 0) fail_to_write(path_, errno);
}

void AtomicFile::commit() {
  require(fd_ >= 0, "committed twice");
  if (const int error = sync_all(fd_)) fail_to_write(path_, error);
  if (::renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) fail_to_write(path_, errno);
  temporary_.clear();
  ::close(std::exchange(fd_, -1));  // the lock ends after the temporary name has
  sync_folder_at(folder_, folder_of(name_), folder_of(path_));
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void require_inside(const std::string& name, const std::string& file, Exit exit) {
  bool good = !name.empty() && name.size() <= 1024;
  std::size_t begin = 0;
  while (good && begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    good = !part.empty() && part != "." && part != ".." && part.size() <= 255 &&
           std::all_of(part.begin(), part.end(),
                       [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
    begin = end + 1;
  }
  if (!good)
    throw UserError(exit,
                    str(printable(file), ": names the file \"", printable(name),
                        "\"; a name must stay in its folder, as in \"model-00001-of-00002.safetensors\""));
}

std::string join_path(const std::string& folder, const std::string& name) {
  if (folder.empty()) return name;
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

std::string home_expanded(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::string home = variable("HOME");
  return home.empty() ? path : home + path.substr(1);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string random_tag() {
  static constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string tag = "ft";
  while (tag.size() < kTagSize) tag += kDigits[random() % 36];
  return tag;
}

bool path_exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

std::string system_error_text(int error) {
  char buffer[256];
  return ::strerror_r(error, buffer, sizeof buffer);
}

void sync_folder(const std::string& folder) { sync_folder_at(AT_FDCWD, folder, folder); }

}  // namespace ft
