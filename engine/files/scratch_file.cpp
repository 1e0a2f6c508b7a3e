#include "engine/files/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "engine/files/file.h"
#include "engine/files/staged_folder.h"

namespace ft {
namespace {

constexpr const char* kName = ".offload.tmp-";

// Opens a file without a name. If the file system does not support that, opens a named file and deletes its
// name at once. If a kill or a power cut comes between, the next command removes the file.
int open_nameless(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  remove_leftovers(folder, kName);
  const std::string name = join_path(folder, kName + random_tag());
  const int named = open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (named >= 0) unlink(name.c_str());
  return named;
}

// Returns true if the file can be read past the page cache: some file systems accept the flag and refuse the
// reads.
bool make_direct(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
  void* block = nullptr;
  if (posix_memalign(&block, kFileBlock, kFileBlock) != 0) return false;
  const bool read = pread(fd, block, kFileBlock, 0) >= 0;
  std::free(block);
  if (!read) fcntl(fd, F_SETFL, flags);
  return read;
}

}  // namespace

ScratchFile::ScratchFile(const std::string& folder, std::int64_t bytes, const std::string& setting)
    : file_{open_nameless(folder), "the offload file in folder " + printable(folder)} {
  if (file_.fd < 0)
    throw UserError(Exit::storage, str(setting, ": cannot make a file in ", printable(folder), ": ",
                                       system_error_text(errno), "; give a folder that can be written"));
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file_.fd, 0, bytes);
  if (error != 0) {
    close(file_.fd);
    throw UserError(Exit::storage, str(setting, ": ", printable(folder), " has no room for ", bytes,
                                       " bytes: ", system_error_text(error)));
  }
  direct_ = make_direct(file_.fd);
}

ScratchFile::~ScratchFile() { close(file_.fd); }

}  // namespace ft
