#include "tests/crash/disk.h"

#include <fstream>
#include <iterator>

#include "engine/files/hash.h"

namespace ft::test {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 32;  // folders within folders

void add(const Disk& disk, Inode folder, const std::string& path, int depth, Tree& tree) {
  if (depth > kDeepest) return;
  for (const auto& [name, inode] : disk.nodes[static_cast<std::size_t>(folder)].entries) {
    const Node& node = disk.nodes[static_cast<std::size_t>(inode)];
    tree[path + name] = {node.kind, node.bytes};
    if (node.kind == Kind::folder) add(disk, inode, path + name + "/", depth + 1, tree);
  }
}

bool is_temporary(const std::string& path) {
  return path.find(".tmp-ft") != path.npos || path.find(".trash-ft") != path.npos;
}

// Returns the last name that a file got before the end of a recording.
std::string last_name(const Recording& recording, Inode inode) {
  if (inode == kRoot) return ".";
  std::string name = "a file without a name";
  for (const auto& [path, item] : recording.before.nodes[kRoot].entries)
    if (item == inode) name = path;
  for (const Step& s : recording.steps)
    for (const Name& n : s.names)
      if (n.inode == inode) name = n.name;
  return name;
}

}  // namespace

std::string as_text(const Recording& recording, std::size_t step) {
  const Step& s = recording.steps[step];
  std::string text;
  switch (s.action) {
    case Step::Action::names:
      for (const Name& n : s.names)
        text += (text.empty() ? "" : ", ") + last_name(recording, n.folder) + "/" + n.name +
                (n.inode == kNobody ? " is gone" : " is there");
      return text;
    case Step::Action::write:
      return "write " + last_name(recording, s.inode) + ", " + std::to_string(s.bytes.size()) + " bytes at " +
             std::to_string(s.at);
    case Step::Action::resize:
      return "resize " + last_name(recording, s.inode) + " to " + std::to_string(s.at);
    case Step::Action::sync:
    case Step::Action::sync_data:
      return "sync " + last_name(recording, s.inode);
    case Step::Action::sync_all:
      return "sync all";
    case Step::Action::told:
      return "says " + s.bytes;
  }
  return text;
}

Tree tree_of(const Disk& disk) {
  Tree tree;
  add(disk, kRoot, "", 0, tree);
  return tree;
}

Tree read_tree(const fs::path& folder) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    Item item;
    if (entry.is_symlink()) {
      item = {Kind::link, fs::read_symlink(entry.path()).string()};
    } else if (entry.is_directory()) {
      item.kind = Kind::folder;
    } else {
      std::ifstream in(entry.path(), std::ios::binary);
      item.bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    tree[entry.path().lexically_relative(folder).string()] = item;
  }
  return tree;
}

void write_tree(const Tree& tree, const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  for (const auto& [path, item] : tree) {  // a folder's path comes before its files'
    if (item.kind == Kind::folder) fs::create_directory(folder / path);
    if (item.kind == Kind::link) fs::create_symlink(item.bytes, folder / path);
    if (item.kind == Kind::file) std::ofstream(folder / path, std::ios::binary) << item.bytes;
  }
}

std::string hash_of(const Tree& tree) {
  Hasher hash;
  for (const auto& [path, item] : tree) {
    const std::string& bytes = is_temporary(path) ? std::string() : item.bytes;
    hash.add(path + '\0' + std::to_string(static_cast<int>(item.kind)) + '\0' + std::to_string(bytes.size()) +
             '\0');
    hash.add(bytes);
  }
  return hash.hex();
}

}  // namespace ft::test
