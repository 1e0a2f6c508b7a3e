#include "engine/files/links.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace {

constexpr int kHandle = O_PATH | O_CLOEXEC;  // opens a place and none of its contents

[[noreturn]] void fail(const std::string& path, int ways, int error) {
  const char* act = (ways & O_ACCMODE) == O_RDONLY ? "read" : "written";
  throw UserError(Exit::storage, str(printable(path), ": cannot be ", act, ": ", system_error_text(error)));
}

[[noreturn]] void refuse(const std::string& path) {
  throw UserError(Exit::storage, str(printable(path),
                                     ": is a symbolic link; ft writes through no link in an output "
                                     "folder; remove it"));
}

bool is_link(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISLNK(info.st_mode);
}

// A place below a folder, entered part by part.
class Place {
 public:
  explicit Place(const std::string& folder)
      : path_(folder), fd_(::open(folder.empty() ? "." : folder.c_str(), kHandle | O_DIRECTORY)) {}
  ~Place() {
    if (fd_ >= 0) ::close(fd_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  int fd() const { return fd_; }  // below 0: there is no such place
  const std::string& path() const { return path_; }

  // Enters a part. Returns false if there is none. Throws UserError (storage) if it is a link.
  bool enter(const std::string& part) {
    path_ = join_path(path_, part);
    const int next = fd_ < 0 ? -1 : ::openat(fd_, part.c_str(), kHandle | O_NOFOLLOW);
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    fd_ = next;
    errno = error;
    if (fd_ >= 0 && is_link(fd_)) refuse(path_);
    return fd_ >= 0;
  }

 private:
  std::string path_;
  int fd_;
};

// Returns the first part of `rest` and removes it.
std::string take_part(std::string& rest) {
  const std::size_t end = std::min(rest.find('/'), rest.size());
  std::string part = rest.substr(0, end);
  rest.erase(0, end + 1);
  return part;
}

// Enters all parts of `name` but the last, and returns that one. With O_CREAT makes missing folders.
std::string enter_folders(Place& place, const std::string& name, int ways) {
  if (place.fd() < 0) fail(place.path(), ways, errno);
  std::string rest = without_slash(name), part = take_part(rest);
  for (; !rest.empty(); part = take_part(rest)) {
    if (part.empty()) continue;
    const bool refused = (ways & O_CREAT) && ::mkdirat(place.fd(), part.c_str(), 0777) != 0;
    const int why = refused ? errno : 0;
    if (!place.enter(part)) fail(place.path(), ways, refused ? why : errno);
  }
  return part;
}

}  // namespace

void refuse_links(const std::string& folder, const std::string& name) {
  Place place(folder);
  for (std::string rest = name; !rest.empty();)
    if (const std::string part = take_part(rest); !part.empty() && !place.enter(part)) return;
}

int open_below(const std::string& folder, const std::string& name, int ways) {
  Place place(folder);
  const std::string part = enter_folders(place, name, ways);
  const int fd = ::openat(place.fd(), part.c_str(), ways | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0666);
  if (fd >= 0) return fd;
  const int error = errno;
  if (error == ELOOP) refuse(join_path(place.path(), part));
  fail(join_path(place.path(), part), ways, error);
}

void write_below(const std::string& folder, const std::string& name, std::string_view text) {
  Place place(folder);
  const std::string part = enter_folders(place, name, O_WRONLY | O_CREAT),
                    path = join_path(place.path(), part);
  struct stat info {};
  if (::fstatat(place.fd(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode))
    refuse(path);
  AtomicFile file(place.fd(), part, path);
  file.write(text);
  file.commit();
}

void make_empty_below(const std::string& folder, const std::string& name) {
  Place place(folder);
  const std::string part = enter_folders(place, name, O_WRONLY | O_CREAT);
  std::error_code none;  // it may not be there; the folder that is already open is reached by its number
  std::filesystem::remove_all(str("/proc/self/fd/", place.fd(), "/", part), none);
  if (::mkdirat(place.fd(), part.c_str(), 0777) != 0) fail(join_path(place.path(), part), O_WRONLY, errno);
}

void require_below(const std::string& folder, const std::string& name, const FileState& state) {
  const int fd = open_below(folder, name, O_RDONLY | O_NONBLOCK);
  const bool same = state_of(fd) == state;
  ::close(fd);
  if (!same)
    throw UserError(Exit::storage,
                    printable(join_path(folder, name)) + ": another file took its place while it was read");
}

}  // namespace ft
