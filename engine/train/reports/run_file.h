// A file of the run folder that grows during the run. Each piece is passed to the system at once, so that a
// killed process loses nothing it reported. A piece is in the file as a whole or not at all: if it cannot be
// written, UserError (storage) names the file, and the next piece follows the one before.
#pragma once
#include <string>
#include <string_view>

namespace ft {

class RunFile {
 public:
  RunFile() = default;
  // Creates missing folders. keep: the file's content stays, and pieces are appended to it. Throws UserError
  // (storage) if the file is a symbolic link.
  RunFile(const std::string& path, bool keep);
  // The file folder/name, where no part of `name` may be a symbolic link.
  RunFile(const std::string& folder, const std::string& name, bool keep);
  RunFile(RunFile&& other) noexcept;
  RunFile& operator=(RunFile&& other) noexcept;
  ~RunFile();

  // Throws UserError (storage) if the file was removed.
  void append(std::string_view piece);
  bool is_removed() const;  // nobody can open it by a name any more
  // Makes the pieces durable. Throws UserError (storage) if the disk reports an error.
  void sync();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace ft
