#include "app/hub/repository.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "app/hub/http_client.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/staged_folder.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UserError(Exit::storage, str(folder.string(), ": cannot be made: ", error.message()));
}

// Returns the file's size; 0 if there is none.
std::int64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

// Returns true for a file that is no link, and for a link to the file's blob.
bool is_there(const fs::path& link, const RemoteFile& file) {
  std::error_code error;
  if (!fs::exists(link, error)) return false;
  return !fs::is_symlink(link, error) || fs::read_symlink(link, error).filename() == file.hash;
}

// Makes the links of a snapshot in `folder`, which lies where the snapshot does. Keeps files that are there,
// and replaces links to other blobs.
void link_files(const fs::path& folder, const std::vector<RemoteFile>& files) {
  for (const RemoteFile& file : files) {
    const fs::path link = folder / file.path;
    std::error_code error;
    if (is_there(link, file)) continue;
    create_folders(link.parent_path());
    fs::remove(link, error);  // a link without a target, or to another blob
    const auto depth = std::count(file.path.begin(), file.path.end(), '/');
    std::string up = "../../";
    for (std::ptrdiff_t i = 0; i < depth; ++i) up += "../";
    fs::create_symlink(up + "blobs/" + file.hash, link, error);
    if (error && !fs::exists(link))
      throw UserError(Exit::storage, str(link.string(), ": cannot be made: ", error.message()));
  }
}

// Makes a new snapshot with its links. Returns false if there is one, perhaps since a moment ago.
bool appears_with(const fs::path& snapshot, const std::vector<RemoteFile>& files) {
  if (path_exists(snapshot.string())) return false;
  create_folders(snapshot.parent_path());
  try {
    StagedFolder staged(snapshot.string());
    link_files(staged.path(), files);
    staged.commit();
    return true;
  } catch (const UserError&) {
    if (!path_exists(snapshot.string())) throw;
    return false;
  }
}

// Returns a descriptor that holds the file's lock; -1: another process holds it.
int try_lock(const fs::path& file) {
  constexpr mode_t kGroupToo = 0664;
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kGroupToo);
  if (fd < 0)
    throw UserError(Exit::storage, str(file.string(), ": cannot be written: ", system_error_text(errno)));
  struct stat info {};
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool gone = !held && ::fstat(fd, &info) == 0 && info.st_nlink == 0;  // its holder removed it
  if (!held && !gone) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

Repository::Repository(const fs::path& cache, const HubName& name)
    : folder_(hub_repository(cache, name)), locks_(cache / ".locks" / folder_.filename()) {}

fs::path Repository::blob(const RemoteFile& file) const { return folder_ / "blobs" / file.hash; }

fs::path Repository::unfinished(const RemoteFile& file) const {
  return folder_ / "blobs" / (file.hash + ".incomplete");
}

bool Repository::has(const RemoteFile& file) const {
  std::error_code none;
  return fs::is_regular_file(blob(file), none) && size_of(blob(file)) == file.size;
}

std::int64_t Repository::missing(const RemoteFile& file) const {
  return has(file) ? 0 : file.size - std::min(size_of(unfinished(file)), file.size);
}

void Repository::create() const {
  create_folders(folder_ / "blobs");
  create_folders(locks_);
}

fs::path Repository::publish(const Listing& listing, const std::string& revision) const {
  const fs::path snapshot = folder_ / "snapshots" / listing.commit;
  remove_leftovers(snapshot.parent_path().string(), listing.commit + ".");
  if (!appears_with(snapshot, listing.files)) link_files(snapshot, listing.files);
  if (revision == listing.commit) return snapshot;
  const fs::path reference = folder_ / "refs" / revision;
  create_folders(reference.parent_path());
  write_file(reference.string(), listing.commit);
  return snapshot;
}

BlobLock::BlobLock(const Repository& repository, const RemoteFile& file, const std::function<bool()>& stop,
                   const std::function<void()>& waiting) {
  const fs::path lock = repository.locks_ / (file.hash + ".lock");
  for (int tries = 0; (fd_ = try_lock(lock)) < 0; ++tries) {
    if (tries == 1 && waiting) waiting();
    if (stop && stop()) throw Stopped();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

BlobLock::~BlobLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace ft::hub
