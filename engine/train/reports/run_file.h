// A file of the run folder that grows during the run. Each piece is passed to the system at once, so that a
// killed process loses nothing it reported. A full disk is an error that names the file.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace ft {

class RunFile {
 public:
  RunFile() = default;
  // Creates missing folders. keep: the file's content stays, and pieces are appended to it.
  RunFile(const std::string& path, bool keep);

  void append(std::string_view piece);
  explicit operator bool() const { return file_ != nullptr; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace ft
