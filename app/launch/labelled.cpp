#include "app/launch/labelled.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/links.h"

namespace ft {

Labelled::Labelled(Screen& screen, std::string label, const std::string& folder, const std::string& name)
    : screen_(screen), label_(std::move(label)) {
  if (name.empty()) return;
  path_ = join_path(folder, name);
  const int fd = open_below(folder, name, O_WRONLY | O_CREAT | O_APPEND);
  file_ = ::fdopen(fd, "a");
  if (file_) return;
  const int error = errno;
  ::close(fd);
  throw UserError(Exit::storage, str(printable(path_), ": cannot be written: ", system_error_text(error)));
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
