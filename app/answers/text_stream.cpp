#include "app/answers/text_stream.h"

#include <algorithm>

namespace ft {
namespace {

// Tokens may end within a character, which then decodes to U+FFFD; more than this many do not.
constexpr std::string_view kHalf = "\xEF\xBF\xBD";
constexpr std::size_t kLongestCharacter = 4;

}  // namespace

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
  ids_.push_back(token);
  const std::span<const std::int32_t> ids(ids_);
  const std::string known = tokenizer_.decode(ids.subspan(from_, read_ - from_), true);
  const std::string whole = tokenizer_.decode(ids.subspan(from_), true);
  const bool half = whole.ends_with(kHalf) && ids_.size() - read_ < kLongestCharacter;
  if (stopped_ || half || whole.size() <= known.size()) return "";
  append(whole.substr(known.size()));
  from_ = read_;
  read_ = ids_.size();
  const std::size_t to = std::max(safe(), std::min(shown_, text_.size()));
  std::string out = text_.substr(std::min(shown_, to), to - std::min(shown_, to));
  shown_ = to;
  return out;
}

std::string TextStream::finish() {
  const std::span<const std::int32_t> ids(ids_);
  const std::string known = tokenizer_.decode(ids.subspan(from_, read_ - from_), true);
  const std::string whole = tokenizer_.decode(ids.subspan(from_), true);
  if (!stopped_ && whole.size() > known.size()) append(whole.substr(known.size()));
  from_ = read_ = ids_.size();
  const std::size_t from = std::min(shown_, text_.size());
  shown_ = text_.size();
  return text_.substr(from);
}

}  // namespace ft
