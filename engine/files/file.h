// Files, carefully. Reading never blocks on a pipe or trusts a size. Writing is atomic: a temporary file in
// the same folder, fsync, rename, fsync of the folder, so that a name always stands for a complete file.
// Errors of writing are Exit::storage with the system's message.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/core/error.h"
#include "engine/files/stored_bytes.h"

namespace ft {

// A regular file open for reading. A folder, pipe, socket or device is refused at once.
class InputFile {
 public:
  explicit InputFile(const std::string& path, Exit exit = Exit::input);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  std::int64_t size() const { return state_.size; }  // bytes, when it was opened
  const FileState& state() const { return state_; }
  // Reads exactly [offset, offset + bytes); a file that became shorter is an error. Safe from many threads.
  void read(std::int64_t offset, void* to, std::int64_t bytes) const;

 private:
  std::string path_;
  Exit exit_;
  FileState state_;
  int fd_ = -1;
};

// A whole file of at most max_bytes.
std::string read_file(const std::string& path, std::int64_t max_bytes, Exit exit = Exit::input);

// A file that appears under its name only when commit() has succeeded. Without it nothing is left behind.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  const std::string& path() const { return path_; }
  void write(const void* data, std::int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<std::int64_t>(text.size())); }
  // Takes the disk's space now, so that a disk too small is known before the work.
  void reserve(std::int64_t bytes);
  // The file gets this size: zeros after what was written.
  void extend(std::int64_t bytes);
  void commit();

 private:
  std::string path_, temporary_;
  int fd_ = -1;
};

void write_file(const std::string& path, std::string_view text);

// Throws unless `name`, which was read in `file`, stays inside its folder: relative, no "..", no empty or
// hidden-character parts. A symbolic link in the folder is followed later: it is its owner's word.
void require_inside(const std::string& name, const std::string& file, Exit exit = Exit::input);

// folder + "/" + name, without doubled slashes; "" counts as the current folder.
std::string join_path(const std::string& folder, const std::string& name);
// A path that begins with "~" or "~/" in the user's home folder, as a shell reads it; any other as it is.
std::string home_expanded(const std::string& path);
// The folder of a path, "." when it names none.
std::string folder_of(const std::string& path);

// "ft" and ten random letters and digits: the end of temporary names.
inline constexpr std::size_t kTagSize = 12;
std::string random_tag();
// True when something has this name, were it a link that points nowhere.
bool path_exists(const std::string& path);

// The system's words for errno, such as "No space left on device".
std::string system_error_text(int error);
// Makes a folder's entries durable.
void sync_folder(const std::string& folder);

}  // namespace ft
