#include "app/answers/text_stream.h"

#include <algorithm>

namespace ft {
namespace {

// A token may end within a character, which then decodes to U+FFFD. A character has at most kLongestCharacter
// tokens.
constexpr std::string_view kHalf = "\xEF\xBF\xBD";
constexpr std::size_t kLongestCharacter = 4;

}  // namespace

std::string TextStream::behind(std::size_t begin, std::size_t end) const {
  const std::span<const std::int32_t> ids(ids_);
  const std::string known = tokenizer_.decode(ids.subspan(begin, end - begin), true);
  const std::string whole = tokenizer_.decode(ids.subspan(begin), true);
  const auto differ = std::mismatch(known.begin(), known.end(), whole.begin(), whole.end()).second;
  auto at = static_cast<std::size_t>(differ - whole.begin());
  constexpr unsigned char kContinues = 0x80, kMask = 0xC0;  // marks a byte within a UTF-8 character
  while (at > 0 && at < whole.size() && (static_cast<unsigned char>(whole[at]) & kMask) == kContinues) --at;
  return whole.substr(at);
}

void TextStream::append(const std::string& text) {
  const std::size_t before = text_.size();
  text_ += text;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stop_strings_) {
    if (stop.empty()) continue;
    const std::size_t from = before > stop.size() ? before - stop.size() : 0;
    end = std::min(end, text_.find(stop, from));
  }
  if (end == std::string::npos) return;
  text_.resize(end);
  stopped_ = true;
}

std::size_t TextStream::safe() const {
  if (stopped_) return text_.size();
  std::size_t held = 0;
  for (const std::string& stop : stop_strings_)
    for (std::size_t n = std::min(stop.size(), text_.size()); n > held; --n)
      if (text_.ends_with(std::string_view(stop).substr(0, n))) held = n;
  return text_.size() - held;
}

std::string TextStream::add(std::int32_t token) {
  if (stopped_) return "";
  all_.push_back(token);
  if (is_silent(token)) return "";
  ids_.push_back(token);
  const std::string more = behind(from_, read_);
  if (more.empty() || (more.ends_with(kHalf) && ids_.size() - read_ < kLongestCharacter)) return "";
  append(more);
  from_ = read_;
  read_ = ids_.size();
  const std::size_t to = std::max(safe(), std::min(shown_, text_.size()));
  std::string out = text_.substr(std::min(shown_, to), to - std::min(shown_, to));
  shown_ = to;
  return out;
}

std::string TextStream::finish() {
  if (!stopped_) append(behind(from_, read_));
  from_ = read_ = ids_.size();
  const std::size_t from = std::min(shown_, text_.size());
  shown_ = text_.size();
  return text_.substr(from);
}

}  // namespace ft
