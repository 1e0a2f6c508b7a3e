// The output of a rank or a machine. The screen shows every line after a label; the output of a rank that
// draws on the terminal is shown unchanged. A file gets the lines without labels.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

#include "app/launch/plain_lines.h"
#include "app/screen/screen.h"

namespace ft {

class Labelled {
 public:
  // The output is appended to folder/name, where no part of `name` may be a symbolic link; an empty name: to
  // no file. The screen must outlive this object. Throws UserError (storage) if the file cannot be opened.
  Labelled(Screen& screen, std::string label, const std::string& folder = "", const std::string& name = "");
  Labelled(const Labelled&) = delete;
  Labelled& operator=(const Labelled&) = delete;
  ~Labelled();
  void add(std::string_view text);
  void show(std::string_view text);  // from a rank that draws on the terminal itself
  void keep(std::string_view text);  // writes to the file only
  const std::string& path() const { return path_; }

 private:
  static constexpr std::size_t kLongest = 1 << 16;  // bytes; a longer line is cut
  void say();
  void write(std::string_view text);

  Screen& screen_;
  std::string label_, path_, line_;
  PlainLines drawn_;
  std::FILE* file_ = nullptr;
};

}  // namespace ft
