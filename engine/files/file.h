// Careful file access. Reading never blocks on a pipe or trusts a size. Writing is atomic: a temporary file
// in the same folder, fsync, rename, fsync of the folder, so that a name always stands for a complete file.
// Throws UserError (storage) if writing fails, with the system's message.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/core/error.h"
#include "engine/files/safetensors/stored_bytes.h"

namespace ft {

// A regular file open for reading. Throws if the path is a folder, pipe, socket or device.
class InputFile {
 public:
  explicit InputFile(const std::string& path, Exit exit = Exit::input);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  std::int64_t size() const { return state_.size; }  // bytes, when the file was opened
  const FileState& state() const { return state_; }
  // Reads exactly [offset, offset + bytes). Throws if the file has become shorter. Safe from several threads.
  void read(std::int64_t offset, void* to, std::int64_t bytes) const;

 private:
  std::string path_;
  Exit exit_;
  FileState state_;
  int fd_ = -1;
};

// Returns the contents of a file of at most max_bytes.
std::string read_file(const std::string& path, std::int64_t max_bytes, Exit exit = Exit::input);

// A file that gets its name only when commit() succeeds. Without commit() nothing is left behind, unless the
// process is killed: then the temporary file stays until the next AtomicFile of the same name.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  // The file `name` in an open folder, which the caller closes after this object. path: for messages.
  AtomicFile(int folder, const std::string& name, const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  const std::string& path() const { return path_; }
  void write(const void* data, std::int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<std::int64_t>(text.size())); }
  // Allocates the disk space now, so that a full disk is detected before the work.
  void reserve(std::int64_t bytes);
  // Gives the file this size: zeros after the written data.
  void extend(std::int64_t bytes);
  void commit();

 private:
  void open(const std::string& leftovers_in);

  std::string path_, name_, temporary_;  // the last two from folder_
  int folder_, fd_ = -1;
};

void write_file(const std::string& path, std::string_view text);

// Throws unless `name`, which was read in `file`, stays inside its folder: relative, no "..", no empty parts
// or parts with control characters. A symbolic link in the folder is followed later: the folder's owner made
// it.
void require_inside(const std::string& name, const std::string& file, Exit exit = Exit::input);

// Returns folder + "/" + name, without doubled slashes. "" is the current folder.
std::string join_path(const std::string& folder, const std::string& name);
// Replaces a leading "~" or "~/" by the user's home folder, as a shell does; returns other paths unchanged.
std::string home_expanded(const std::string& path);
// Returns a path without slashes at its end; "/" stays.
std::string without_slash(std::string path);
// Returns the folder of a path, "." if the path names none.
std::string folder_of(const std::string& path);

// Returns "ft" and ten random letters and digits: the end of temporary names.
inline constexpr std::size_t kTagSize = 12;
std::string random_tag();
// Returns true if the name exists, even as a link without a target.
bool path_exists(const std::string& path);

// Returns the system's text for errno, such as "No space left on device".
std::string system_error_text(int error);
// Makes a folder's entries durable.
void sync_folder(const std::string& folder);

}  // namespace ft
