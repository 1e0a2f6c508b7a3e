#include "data/files/byte_reader.h"

#include <algorithm>
#include <string_view>

#include "engine/core/error.h"

namespace ft {

ByteReader::ByteReader(const DataFile& file)
    : name_(file.name), source_(open_bytes(file)), block_(std::size_t{1} << 20) {
  fill();
  if (std::string_view(block_.data(), end_).starts_with("\xEF\xBB\xBF")) at_ = 3;
}

bool ByteReader::fill() {
  at_ = 0;
  end_ = 0;
  // A compressed file may return few bytes at a time, and the byte order mark has three.
  while (end_ < 3) {
    const std::size_t count = source_->read(block_.data() + end_, block_.size() - end_);
    if (count == 0) break;
    end_ += count;
  }
  return end_ != 0;
}

bool ByteReader::line(std::string& text) {
  if (peek() == kEnd) return false;
  while (peek() != kEnd) {
    const char *begin = block_.data() + at_, *end = block_.data() + end_;
    const char* stop = std::find_if(begin, end, [](char c) { return c == '\n' || c == '\r'; });
    const auto count = static_cast<std::size_t>(stop - begin);
    grow(text, count);
    text.append(begin, count);
    at_ += count;
    if (stop == end) continue;
    if (get() == '\r' && peek() == '\n') get();
    break;
  }
  return true;
}

void ByteReader::skip_space() {
  for (int c = peek(); c == ' ' || c == '\t' || c == '\r' || c == '\n'; c = peek()) get();
}

void ByteReader::grow(const std::string& text, std::size_t by) const {
  if (static_cast<std::int64_t>(text.size() + by) > kLongestRow)
    place().fail(str("a row of more than ", kLongestRow >> 20, " MiB"));
}

}  // namespace ft
