#include "tests/crash/recorder.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "tests/crash/traced.h"
#include "tests/crash/uring_ring.h"

namespace ft::test {
namespace {

namespace fs = std::filesystem;
using Action = Step::Action;

constexpr auto kCalls = std::to_array<long>({
    SYS_write,    SYS_pwrite64,  SYS_writev,    SYS_pwritev,        SYS_pwritev2,       SYS_copy_file_range,
    SYS_sendfile, SYS_ftruncate, SYS_truncate,  SYS_fallocate,      SYS_fsync,          SYS_fdatasync,
    SYS_sync,     SYS_syncfs,    SYS_open,      SYS_openat,         SYS_openat2,        SYS_creat,
    SYS_rename,   SYS_renameat,  SYS_renameat2, SYS_unlink,         SYS_unlinkat,       SYS_rmdir,
    SYS_mkdir,    SYS_mkdirat,   SYS_link,      SYS_linkat,         SYS_symlink,        SYS_symlinkat,
    SYS_mmap,     SYS_splice,    SYS_mknod,     SYS_io_uring_setup, SYS_io_uring_enter,
});

constexpr Inode kTold = -2;  // the command's stdout and stderr

std::string in_process(pid_t thread, const char* what) {
  return "/proc/" + std::to_string(thread) + "/" + what;
}
std::string open_file(pid_t thread, Argument file) {
  return in_process(thread, "fd/") + std::to_string(static_cast<int>(file));
}

// Returns the number after a key such as "pos:" in /proc's description of a thread's open file. base: of the
// digits.
std::int64_t detail(pid_t thread, Argument file, const std::string& key, int base) {
  std::ifstream in(in_process(thread, "fdinfo/") + std::to_string(static_cast<int>(file)));
  for (std::string word, value; in >> word >> value;)
    if (word == key) return std::stoll(value, nullptr, base);
  return 0;
}

// A name below an open folder, or below the thread's working folder.
struct Place {
  std::string folder, name;  // a folder that this process can open, and a name there
  std::string path() const { return folder + "/" + name; }
};

Place place_at(pid_t thread, int base, const std::string& text) {
  fs::path path = text;
  while (path.has_relative_path() && !path.has_filename()) path = path.parent_path();  // slashes at the end
  const std::string from = base == AT_FDCWD ? in_process(thread, "cwd") : open_file(thread, Argument(base));
  const fs::path parent = path.parent_path();
  return {parent.is_absolute() ? parent.string() : (fs::path(from) / parent).string(),
          path.filename().string()};
}

class Recorder final : public Traced {
 public:
  Recording all(const std::vector<std::string>& words, const fs::path& folder) {
    for (const char* name : {"stdout", "stderr"}) {  // they keep their inodes when the command opens them
      std::ofstream(folder / name) << "";
      struct stat info {};
      ::stat((folder / name).c_str(), &info);
      known_[{info.st_dev, info.st_ino}] = kTold;
    }
    recording_.before.nodes.emplace_back();
    remember(folder, kRoot);
    snapshot(folder, kRoot);
    recording_.exit = run(words, folder, kCalls);
    return std::move(recording_);
  }

 private:
  Node& node(Inode inode) { return recording_.before.nodes[static_cast<std::size_t>(inode)]; }

  Inode remember(const fs::path& path, Inode inode) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) known_[{info.st_dev, info.st_ino}] = inode;
    return inode;
  }
  Inode add(Kind kind, const std::string& bytes = "") {
    recording_.before.nodes.push_back({kind, bytes, {}});
    return static_cast<Inode>(recording_.before.nodes.size()) - 1;
  }
  void snapshot(const fs::path& folder, Inode inode) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (known(entry.path().c_str(), false) == kTold) continue;
      Inode child = kNobody;
      if (entry.is_symlink()) {
        child = add(Kind::link, fs::read_symlink(entry.path()).string());
      } else if (entry.is_directory()) {
        child = add(Kind::folder);
      } else {
        std::ifstream in(entry.path(), std::ios::binary);
        child = add(Kind::file, {std::istreambuf_iterator<char>(in), {}});
      }
      node(inode).entries[entry.path().filename().string()] = remember(entry.path(), child);
      if (node(child).kind == Kind::folder) snapshot(entry.path(), child);
    }
  }

  // Returns a file's number; kNobody: it does not exist, or is not below the folder.
  Inode known(const std::string& path, bool follow) const {
    struct stat info {};
    if ((follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0) return kNobody;
    const auto found = known_.find({info.st_dev, info.st_ino});
    return found == known_.end() ? kNobody : found->second;
  }
  Inode known(pid_t thread, Argument file) const { return known(open_file(thread, file), true); }

  Step& note(pid_t thread, Action action, Inode inode = kNobody, std::int64_t at = 0) {
    recording_.steps.push_back({.action = action, .thread = thread, .inode = inode, .at = at});
    return recording_.steps.back();
  }
  void note_names(pid_t thread, std::vector<Name> names) {
    note(thread, Action::names).names = std::move(names);
  }
  void misses(const std::string& call) {
    if (recording_.missed.empty()) recording_.missed = call;
  }

  void before_call(pid_t thread, Registers& r) override {
    if (recorded(thread, r)) go_on(thread);
  }

  // Records a call. False: the thread has ended.
  bool recorded(pid_t thread, const Registers& r) {
    const auto arg = [&](int i) { return argument(r, i); };
    const auto text = [&](int i) { return text_at(thread, arg(i)); };
    const auto at = [&](int base, int name) {
      return place_at(thread, static_cast<int>(arg(base)), text(name));
    };
    const auto here = [&](int name) { return place_at(thread, AT_FDCWD, text(name)); };
    switch (r.orig_rax) {
      case SYS_write:
      case SYS_writev:
      case SYS_sendfile:
        return write(thread, arg(0), std::nullopt);
      case SYS_pwrite64:
      case SYS_pwritev:
        return write(thread, arg(0), static_cast<std::int64_t>(arg(3)));
      case SYS_copy_file_range:
        if (arg(3) != 0) misses("copy_file_range with an offset");
        return write(thread, arg(2), std::nullopt);
      case SYS_pwritev2:
      case SYS_splice:
        return known(thread, arg(r.orig_rax == SYS_splice ? 2 : 0)) == kNobody || refused(thread, r);
      case SYS_ftruncate:
        return resize(thread, known(thread, arg(0)), static_cast<std::int64_t>(arg(1)));
      case SYS_truncate:
        return resize(thread, known(here(0).path(), true), static_cast<std::int64_t>(arg(1)));
      case SYS_fallocate:
        return allocate(thread, r);
      case SYS_fsync:
        return sync(thread, Action::sync, known(thread, arg(0)));
      case SYS_fdatasync:
        return sync(thread, Action::sync_data, known(thread, arg(0)));
      case SYS_sync:
      case SYS_syncfs:
        return sync(thread, Action::sync_all, kRoot);
      case SYS_open:
        return open_named(thread, here(0), static_cast<int>(arg(1)));
      case SYS_creat:
        return open_named(thread, here(0), O_CREAT | O_TRUNC | O_WRONLY);
      case SYS_openat:
        return open_named(thread, at(0, 1), static_cast<int>(arg(2)));
      case SYS_mkdir:
        return made(thread, here(0), Kind::folder);
      case SYS_mkdirat:
        return made(thread, at(0, 1), Kind::folder);
      case SYS_symlink:
        return made(thread, here(1), Kind::link);
      case SYS_symlinkat:
        return made(thread, at(1, 2), Kind::link);
      case SYS_link:
        return linked(thread, here(1));
      case SYS_linkat:
        return linked(thread, at(2, 3));
      case SYS_unlink:
      case SYS_rmdir:
        return unlinked(thread, here(0));
      case SYS_unlinkat:
        return unlinked(thread, at(0, 1));
      case SYS_rename:
        return renamed(thread, here(0), here(1), 0);
      case SYS_renameat:
        return renamed(thread, at(0, 1), at(2, 3), 0);
      case SYS_renameat2:
        return renamed(thread, at(0, 1), at(2, 3), static_cast<unsigned>(arg(4)));
      case SYS_mmap:
        return mapped(thread, r);
      case SYS_io_uring_setup:
        if (const auto file = finished_call(thread); !file)
          return false;
        else if (*file >= 0)
          rings_.set_up(thread, static_cast<int>(*file), arg(1));
        return true;
      case SYS_io_uring_enter:
        return submit(thread, r);
      default:
        return refused(thread, r);  // openat2, mknod
    }
  }

  bool refused(pid_t, const Registers& r) {
    misses("system call " + std::to_string(r.orig_rax));
    return true;
  }

  // Reads the written bytes back. `at`: the call's own place in the file; otherwise the file's position.
  bool write(pid_t thread, Argument file, std::optional<std::int64_t> at) {
    const Inode inode = known(thread, file);
    if (inode == kNobody) return true;
    const auto result = finished_call(thread);
    if (!result) return false;
    if (*result <= 0) return true;
    const std::int64_t from = at ? *at : detail(thread, file, "pos:", 10) - *result;
    std::string bytes(static_cast<std::size_t>(*result), '\0');
    const int copy = open(open_file(thread, file).c_str(), O_RDONLY | O_CLOEXEC);
    if (pread(copy, bytes.data(), bytes.size(), from) != *result) misses("written bytes cannot be read");
    close(copy);
    Step& step = note(thread, inode == kTold ? Action::told : Action::write, inode, from);
    step.bytes = std::move(bytes);
    const auto flags = detail(thread, file, "flags:", 8);
    if (inode != kTold && (flags & O_DSYNC) != 0) note(thread, Action::sync_data, inode);
    return true;
  }

  bool resize(pid_t thread, Inode inode, std::int64_t size) {
    if (inode < 0) return true;
    const auto result = finished_call(thread);
    if (result == 0) note(thread, Action::resize, inode, size);
    return result.has_value();
  }

  bool allocate(pid_t thread, const Registers& r) {
    const Inode inode = known(thread, argument(r, 0));
    if (inode < 0) return true;
    struct stat before {
    }, after{};
    const std::string file = open_file(thread, argument(r, 0));
    ::stat(file.c_str(), &before);
    const auto result = finished_call(thread);
    if (!result) return false;
    ::stat(file.c_str(), &after);
    if ((argument(r, 1) & ~Argument{FALLOC_FL_KEEP_SIZE}) != 0) misses("fallocate that changes bytes");
    if (before.st_size != after.st_size) note(thread, Action::resize, inode, after.st_size);
    return true;
  }

  bool sync(pid_t thread, Action action, Inode inode) {
    if (inode < 0) return true;
    const auto result = finished_call(thread);
    if (result == 0) note(thread, action, inode);
    return result.has_value();
  }

  bool open_named(pid_t thread, const Place& place, int flags) {
    if ((flags & (O_CREAT | O_TRUNC)) == 0 && (flags & O_TMPFILE) != O_TMPFILE) return true;
    const bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
    const Inode folder = known(nameless ? place.path() : place.folder, true);
    struct stat before {};
    const bool was_there = !nameless && ::stat(place.path().c_str(), &before) == 0;
    const auto file = finished_call(thread);
    if (!file) return false;
    if (*file < 0) return true;
    if (was_there) {
      const Inode inode = known(thread, static_cast<Argument>(*file));
      if (inode >= 0 && (flags & O_TRUNC) != 0 && before.st_size > 0) note(thread, Action::resize, inode, 0);
      return true;
    }
    struct stat info {};
    ::stat(open_file(thread, static_cast<Argument>(*file)).c_str(), &info);
    known_.erase({info.st_dev, info.st_ino});  // the system may reuse a removed file's number
    if (folder < 0) return true;
    const Inode inode = known_[{info.st_dev, info.st_ino}] = add(Kind::file);
    if (!nameless) note_names(thread, {{folder, place.name, inode}});
    return true;
  }

  bool made(pid_t thread, const Place& place, Kind kind) {
    const Inode folder = known(place.folder, true);
    if (folder < 0) return true;
    const auto result = finished_call(thread);
    if (result != 0) return result.has_value();
    std::error_code none;
    const std::string target = kind == Kind::link ? fs::read_symlink(place.path(), none).string() : "";
    note_names(thread, {{folder, place.name, remember(place.path(), add(kind, target))}});
    return true;
  }

  bool linked(pid_t thread, const Place& place) {
    const Inode folder = known(place.folder, true);
    if (folder < 0) return true;
    const auto result = finished_call(thread);
    if (result != 0) return result.has_value();
    const Inode inode = known(place.path(), false);
    if (inode < 0) misses("a link to a file of another folder");
    note_names(thread, {{folder, place.name, inode}});
    return true;
  }

  bool unlinked(pid_t thread, const Place& place) {
    const Inode folder = known(place.folder, true);
    if (folder < 0) return true;
    const auto result = finished_call(thread);
    if (result == 0) note_names(thread, {{folder, place.name, kNobody}});
    return result.has_value();
  }

  bool renamed(pid_t thread, const Place& from, const Place& to, unsigned flags) {
    const Inode old_folder = known(from.folder, true), new_folder = known(to.folder, true);
    const Inode moved = known(from.path(), false), replaced = known(to.path(), false);
    if (old_folder < 0 && new_folder < 0) return true;
    const auto result = finished_call(thread);
    if (result != 0) return result.has_value();
    if (old_folder < 0 || new_folder < 0 || moved < 0) misses("a rename across the folder's border");
    const bool exchanges = (flags & RENAME_EXCHANGE) != 0;
    note_names(thread,
               {{old_folder, from.name, exchanges ? replaced : kNobody}, {new_folder, to.name, moved}});
    return true;
  }

  bool mapped(pid_t thread, const Registers& r) {
    const auto file = static_cast<int>(argument(r, 4));
    if (file < 0 || (argument(r, 3) & MAP_ANONYMOUS) != 0) return true;
    const bool shared = (argument(r, 3) & MAP_SHARED) != 0, writes = (argument(r, 2) & PROT_WRITE) != 0;
    if (!shared) return true;
    if (writes && known(thread, Argument(file)) >= 0) misses("a file that is written through a mapping");
    const auto address = finished_call(thread);
    if (address && *address > 0) rings_.mapped(thread, file, argument(r, 5), static_cast<Argument>(*address));
    return address.has_value();
  }

  bool submit(pid_t thread, const Registers& r) {
    const auto count = static_cast<std::uint32_t>(argument(r, 1));
    for (const Submission& s : rings_.submitted(thread, static_cast<int>(argument(r, 0)), count)) {
      if (s.opcode == IORING_OP_READ || s.opcode == IORING_OP_FSYNC) continue;
      const bool writes = s.opcode == IORING_OP_WRITE && (s.flags & IOSQE_FIXED_FILE) == 0;
      if (!writes) {
        misses("io_uring's operation " + std::to_string(s.opcode));
      } else if (const Inode inode = known(thread, Argument(s.file)); inode >= 0) {
        note(thread, Action::write, inode, s.at).bytes = memory_at(thread, s.data, s.bytes);
      }
    }
    return true;
  }

  Recording recording_;
  std::map<std::pair<dev_t, ino_t>, Inode> known_;
  Rings rings_;
};

}  // namespace

Recording record(const std::vector<std::string>& words, const fs::path& folder) {
  return Recorder().all(words, folder);
}

}  // namespace ft::test
