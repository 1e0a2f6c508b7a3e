// Checks that checkpoints can be written to a folder, completely or not at all.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>

#include "app/doctor/machine.h"
#include "app/screen/format.h"
#include "engine/files/file.h"
#include "engine/files/folder_speed.h"
#include "engine/ranks/socket.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

const char* name_of_filesystem(const std::string& folder) {
  struct statfs s {};
  if (::statfs(folder.c_str(), &s) != 0) return "unknown";
  switch (static_cast<std::uint32_t>(s.f_type)) {  // numbers of statfs(2)
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x6969:
      return "nfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlayfs";
    case 0x0BD00BD0:
      return "lustre";
    case 0x2FC12FC1:
      return "zfs";
    case 0x65735546:
      return "fuse";
    default:
      return "another file system";
  }
}

// Returns the nearest existing folder on the path upwards.
fs::path there_above(fs::path path) {
  std::error_code none;
  for (path = fs::absolute(path, none);
       !path.empty() && !fs::is_directory(path, none) && path.has_relative_path();)
    path = path.parent_path();
  return path;
}

// Returns the milliseconds of `work`. Throws UserError (storage) with the system's message if it fails.
double timed(const std::function<bool()>& work, const std::string& what) {
  const auto start = std::chrono::steady_clock::now();
  if (!work()) throw UserError(Exit::storage, str(what, ": ", std::strerror(errno)));
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Repeats the steps of a checkpoint with a small file: write, sync, rename to a name that must be free, sync
// the folder. Returns the timings as text.
std::string try_it(const fs::path& in) {
  constexpr std::size_t kBytes = 4 << 20;
  const fs::path folder = in / ("doctor-" + random_tag());
  fs::create_directory(folder);
  struct Removed {
    const fs::path& folder;
    ~Removed() {
      std::error_code none;
      fs::remove_all(folder, none);
    }
  } const removed{folder};
  const std::string from = folder / "a", to = folder / "b";
  const Socket file(::open(from.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const Socket directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string bytes(kBytes, 'f');
  const double write =
      timed([&] { return file && ::write(file.fd(), bytes.data(), kBytes) == static_cast<ssize_t>(kBytes); },
            "writing");
  const double sync = timed([&] { return ::fsync(file.fd()) == 0; }, "fsync");
  timed([&] { return ::rename(from.c_str(), to.c_str()) == 0; }, "rename");
  timed([&] { return ::fsync(directory.fd()) == 0; }, "fsync of the folder");
  return str("4 MiB written in ", show::digits(write), " ms, synced in ", show::digits(sync), " ms");
}

}  // namespace

Findings look_at_folder(const std::string& folder) {
  const fs::path there = there_above(folder);
  struct statvfs v {};
  Findings all;
  if (::statvfs(there.c_str(), &v) != 0)
    return {{Health::bad, "folder", str(printable(folder), ": ", std::strerror(errno)),
             "choose a writable folder", Exit::storage}};
  const auto room = static_cast<std::int64_t>(v.f_bavail * v.f_frsize);
  Finding space{.topic = "space",
                .what = str(show::file_size(room), " free for ", printable(folder), " (",
                            name_of_filesystem(there.string()), ")")};
  if (room < std::int64_t{1} << 30) {
    space.health = Health::advice;
    space.todo =
        "a checkpoint of full fine-tuning in bf16 takes 14 bytes per parameter, one of an adapter little";
  }
  all.push_back(space);
  try {
    all.push_back({.topic = "files", .what = try_it(there)});
  } catch (const UserError& e) {
    all.push_back({Health::bad, "files", str(there.string(), ": ", e.what()),
                   "checkpoints cannot be written there; choose another training.output_dir", Exit::storage});
  } catch (const fs::filesystem_error& e) {
    all.push_back({Health::bad, "files", str(there.string(), ": ", e.code().message()),
                   "checkpoints cannot be written there; choose another training.output_dir", Exit::storage});
  }
  return all;
}

Finding look_at_offload(const std::string& folder) {
  const auto speed = [](double bytes) { return show::digits(bytes / 1e9) + " GB/s"; };
  try {
    const FolderSpeed s = measure_folder(folder, "nvme_path");
    return {.topic = "offload",
            .what = str(printable(folder), " reads ", speed(s.read), ", writes ", speed(s.write), " (", s.way,
                        ")")};
  } catch (const UserError& e) {
    return {Health::bad, "offload", e.what(), "give offload_param and offload_optimizer a folder with room",
            Exit::storage};
  }
}

}  // namespace ft
