#include "app/launch/labelled.h"

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"

namespace ft {

Labelled::Labelled(std::string label, std::string path) : label_(std::move(label)), path_(std::move(path)) {
  if (path_.empty()) return;
  file_ = std::fopen(path_.c_str(), "ae");
  if (!file_) throw UserError(Exit::storage, str(path_, ": ", std::strerror(errno)));
}

Labelled::~Labelled() {
  if (!line_.empty()) add("\n");
  if (file_) std::fclose(file_);
}

void Labelled::keep(std::string_view text) {
  if (!file_) return;
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

void Labelled::add(std::string_view text) {
  keep(text);
  for (const char c : text) {
    line_ += c;
    if (c != '\n' && line_.size() < kLongest) continue;
    const std::string all = label_ + line_ + (c == '\n' ? "" : "\n");
    std::fwrite(all.data(), 1, all.size(), stderr);
    line_.clear();
  }
}

}  // namespace ft
