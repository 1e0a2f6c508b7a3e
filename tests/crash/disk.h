// A disk and its changes by a recorded command: files, folders and links with numbers, and the steps in their
// order. A step is recorded when its system call has ended.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ft::test {

using Inode = int;  // index in Disk::nodes
inline constexpr Inode kRoot = 0, kNobody = -1;

enum class Kind : std::uint8_t { file, folder, link };

struct Node {
  Kind kind = Kind::folder;
  std::string bytes;                     // contents of a file, target of a link
  std::map<std::string, Inode> entries;  // of a folder
};

// Nodes of a command's disk. Nodes that a step creates exist from the beginning, empty and without a name.
struct Disk {
  std::vector<Node> nodes;
};

// A name in a folder after a step. inode kNobody: the name is removed.
struct Name {
  Inode folder = kNobody;
  std::string name;
  Inode inode = kNobody;
};

struct Step {
  enum class Action : std::uint8_t {
    names,      // open with O_CREAT, mkdir, link, symlink, rename, unlink, rmdir: all names, or none
    write,      // `bytes` at `at` of a file
    resize,     // a file has `at` bytes; new ones are zero
    sync,       // fsync of a file or folder
    sync_data,  // fdatasync: the file's bytes and size
    sync_all,   // sync, syncfs
    told,       // `bytes` are in the command's stdout or stderr
  };
  Action action = Action::told;
  pid_t thread = 0;
  Inode inode = kNobody;         // of a write, resize, sync, sync_data
  std::int64_t at = 0;           // of a write and a resize
  std::string bytes = {};        // of a write, and told
  std::vector<Name> names = {};  // a rename's last one is its target
};

struct Recording {
  int exit = 0;  // as Traced::run
  Disk before;
  std::vector<Step> steps;
  std::string missed;  // a change that the recorder does not understand; empty: it has all
};

// A file, folder or link below a folder. A Tree has them by their paths.
struct Item {
  Kind kind = Kind::file;
  std::string bytes;
  bool operator==(const Item&) const = default;
};
using Tree = std::map<std::string, Item>;

Tree tree_of(const Disk& disk);
Tree read_tree(const std::filesystem::path& folder);
// Replaces the contents of a folder.
void write_tree(const Tree& tree, const std::filesystem::path& folder);
// Describes a step, for messages: "write out/log.jsonl, 120 bytes at 0".
std::string as_text(const Recording& recording, std::size_t step);
// Returns SHA-256 of a tree. Temporary names of ft (".tmp-ft", ".trash-ft") count without their contents,
// because commands remove them unread.
std::string hash_of(const Tree& tree);

}  // namespace ft::test
