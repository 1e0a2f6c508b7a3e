// The output of a rank or a machine: on stderr, every line with its name before it; in a file, unchanged.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace ft {

class Labelled {
 public:
  // path: the file that it is appended to; empty: none.
  Labelled(std::string label, std::string path);
  Labelled(const Labelled&) = delete;
  Labelled& operator=(const Labelled&) = delete;
  ~Labelled();
  void add(std::string_view text);
  void keep(std::string_view text);  // in the file only
  const std::string& path() const { return path_; }

 private:
  static constexpr std::size_t kLongest = 1 << 16;  // bytes; a longer line is cut
  std::string label_, path_, line_;
  std::FILE* file_ = nullptr;
};

}  // namespace ft
