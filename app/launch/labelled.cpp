#include "app/launch/labelled.h"

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"

namespace ft {

Labelled::Labelled(Screen& screen, std::string label, std::string path)
    : screen_(screen), label_(std::move(label)), path_(std::move(path)) {
  if (path_.empty()) return;
  file_ = std::fopen(path_.c_str(), "ae");
  if (!file_) throw UserError(Exit::storage, str(path_, ": ", std::strerror(errno)));
}

Labelled::~Labelled() {
  if (!line_.empty()) add("\n");
  write(drawn_.rest());
  if (file_) std::fclose(file_);
}

void Labelled::write(std::string_view text) {
  if (!file_ || text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

void Labelled::keep(std::string_view text) {
  write(drawn_.rest());
  write(text);
}

void Labelled::show(std::string_view text) {
  write(drawn_.add(text));
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void Labelled::add(std::string_view text) {
  keep(text);
  for (const char c : text) {
    if (c != '\n') line_ += c;
    if (c == '\n' || line_.size() >= kLongest) say();
  }
}

void Labelled::say() {
  screen_.line(label_ + line_, static_cast<int>(label_.size()));
  line_.clear();
}

}  // namespace ft
