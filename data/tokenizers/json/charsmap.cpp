#include "data/tokenizers/json/charsmap.h"

#include <cstring>
#include <stdexcept>

#include "data/files/utf8.h"
#include "data/tokenizers/unicode.h"

namespace ft {
namespace {

constexpr std::size_t kLongestCluster = 6;  // bytes, exclusive

std::size_t offset_of(std::uint32_t unit) {
  return std::size_t{unit >> 10} << ((unit & std::uint32_t{1} << 9) >> 6);
}
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
bool is_value(std::uint32_t unit) { return unit >> 31 != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  std::uint32_t size = 0;
  if (bytes.size() <= 4) throw std::invalid_argument("is cut short");
  std::memcpy(&size, bytes.data(), 4);
  if (size < 1024 || size % 4 != 0 || size >= bytes.size() - 4)
    throw std::invalid_argument("has a wrong size");
  trie_.resize(size / 4);
  std::memcpy(trie_.data(), bytes.data() + 4, size);
  texts_ = bytes.substr(4 + size);
  if (texts_.back() != '\0' || !is_utf8(texts_)) throw std::invalid_argument("has texts that are not UTF-8");
  const auto inside = [&](std::uint32_t text) {
    return text < texts_.size() && (static_cast<unsigned char>(texts_[text]) & 0xC0) != 0x80;
  };
  for (std::size_t i = 0; i < trie_.size(); ++i) {
    const std::uint32_t unit = trie_[i];
    if (is_value(unit) && i > 0) continue;  // no step leads on from a value
    const std::size_t next = i ^ offset_of(unit);
    if ((next | 0xFF) >= trie_.size() || (has_value(unit) && !inside(value_of(trie_[next]))))
      throw std::invalid_argument("points outside itself");
  }
  for (std::size_t c = 0; c < kept_.size(); ++c) {
    const char text = static_cast<char>(c);
    kept_[c] = !replacement({&text, 1});
  }
}

// Returns the text of the shortest entry that is a beginning of `chunk`.
std::optional<std::string_view> Charsmap::replacement(std::string_view chunk) const {
  std::size_t node = offset_of(trie_[0]);
  for (const char letter : chunk) {
    const auto c = static_cast<unsigned char>(letter);
    if (c == 0) break;
    node ^= c;
    const std::uint32_t unit = trie_[node];
    if ((unit & (std::uint32_t{1} << 31 | 0xFF)) != c) break;
    node ^= offset_of(unit);
    if (has_value(unit)) return std::string_view(texts_.data() + value_of(trie_[node]));
  }
  return std::nullopt;
}

void Charsmap::append(std::string_view chunk, std::string& to) const {
  to += replacement(chunk).value_or(chunk);
}

std::string Charsmap::normalize(std::string_view text) const {
  const auto ascii = [&](std::size_t i) {
    return i >= text.size() || static_cast<unsigned char>(text[i]) < 128;
  };
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    // Between two ASCII characters, except CR LF, there is always a border of clusters.
    if (ascii(at) && ascii(at + 1) && text[at] != '\r') {
      if (kept_[static_cast<unsigned char>(text[at])])
        out += text[at];
      else
        append(text.substr(at, 1), out);
      ++at;
      continue;
    }
    const std::string_view cluster = text.substr(at, grapheme_length(text, at));
    at += cluster.size();
    if (cluster.size() < kLongestCluster) {
      if (const auto whole = replacement(cluster)) {
        out += *whole;
        continue;
      }
    }
    for (std::size_t i = 0; i < cluster.size();) {
      const std::size_t n = utf8_length(cluster, i);
      append(cluster.substr(i, n), out);
      i += n;
    }
  }
  return out;
}

}  // namespace ft
