// A fresh folder for a test's files, removed at the end.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/core/error.h"

namespace ft::test {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ft-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::remove(path);  // ext4 would write a replaced file to the disk at once
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::size_t entries() const {
    std::size_t n = 0;
    for (const auto& e : std::filesystem::directory_iterator(path_)) n += e.exists() ? 1u : 1u;
    return n;
  }

 private:
  std::string path_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the text of the UserError that f throws, after its exit code: "3 a.json: ...".
template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const UserError& e) {
    return std::to_string(static_cast<int>(e.code)) + " " + e.what();
  }
  return "no error";
}

}  // namespace ft::test
