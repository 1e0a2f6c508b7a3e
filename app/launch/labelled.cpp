#include "app/launch/labelled.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/links.h"

namespace ft {

Labelled::Labelled(Screen& screen, std::string label, std::string path)
    : screen_(screen), label_(std::move(label)), path_(std::move(path)) {
  if (path_.empty()) return;
  constexpr int kWays = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
  const int fd = ::open(path_.c_str(), kWays, 0666);
  if (fd < 0) {
    const int error = errno;
    refuse_links(folder_of(path_), path_.substr(path_.rfind('/') + 1));
    throw UserError(Exit::storage, str(path_, ": ", std::strerror(error)));
  }
  file_ = ::fdopen(fd, "a");
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
