#include "app/launch/plain_lines.h"

#include <algorithm>
#include <cstdlib>

namespace ft {
namespace {

constexpr std::size_t kMostLive = 16;  // lines that a screen redraws at once

}  // namespace

std::string PlainLines::add(std::string_view text) {
  for (const char c : text) take(c);
  std::string out;
  const std::size_t held = moves_up_ ? kMostLive : 0;
  while (lines_.size() > held) {
    out += lines_.front() + "\n";
    lines_.erase(lines_.begin());
  }
  return out;
}

std::string PlainLines::rest() {
  std::string out;
  for (const std::string& line : lines_) out += line + "\n";
  if (!line_.empty()) out += line_ + "\n";
  lines_.clear();
  line_.clear();
  return out;
}

void PlainLines::take(char c) {
  if (!sequence_.empty()) {
    sequence_ += c;
    if (sequence_.size() > 2 && c >= '@' && c <= '~') take_sequence(c);
  } else if (c == '\x1b') {
    sequence_ = c;
  } else if (c == '\r') {
    overwrites_ = true;
  } else if (c == '\n') {
    lines_.push_back(line_);
    line_.clear();
    overwrites_ = false;
  } else {
    if (overwrites_) line_.clear();
    overwrites_ = false;
    line_ += c;
  }
}

// Handles an escape sequence. Drops colours. Forgets lines that are erased or moved back to, because they are
// drawn again.
void PlainLines::take_sequence(char last) {
  if (last == 'K' && overwrites_) line_.clear();
  if (last == 'A') {
    const int up = std::max(1, std::atoi(sequence_.c_str() + 2));
    lines_.resize(lines_.size() - std::min(lines_.size(), static_cast<std::size_t>(up)));
    line_.clear();
    moves_up_ = true;
  }
  sequence_.clear();
}

}  // namespace ft
