#include "data/tokenizers/token_spans.h"

#include <charconv>
#include <string>

#include "data/files/utf8.h"
#include "data/tokenizers/json/byte_level.h"

namespace ft {
namespace {

constexpr const char* kWordStart = "\xE2\x96\x81";   // of SentencePiece
constexpr const char* kByteLevelStart = "\xC4\xA0";  // of byte-level vocabularies

// Returns the bytes that a token stands for in the middle of a text.
std::string piece_of(const std::string& name, bool byte_level) {
  if (byte_level) return from_byte_level(name).value_or(name);
  if (name.size() == 6 && name.starts_with("<0x") && name.ends_with('>')) {
    unsigned byte = 0;
    const char* end = name.data() + 5;
    if (std::from_chars(name.data() + 3, end, byte, 16).ptr == end) return {static_cast<char>(byte)};
  }
  return replaced(name, kWordStart, " ");
}

bool is_byte_level(const Tokenizer& tokenizer) {
  return tokenizer.id(kByteLevelStart) && !tokenizer.id(kWordStart);
}

}  // namespace

std::string token_bytes(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string name = tokenizer.token(id);
  return tokenizer.is_special(id) ? name : piece_of(name, is_byte_level(tokenizer));
}

std::optional<std::vector<std::pair<std::size_t, std::size_t>>> token_spans(const Tokenizer& tokenizer,
                                                                            std::span<const std::int32_t> ids,
                                                                            std::string_view text) {
  const bool byte_level = is_byte_level(tokenizer);
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  std::size_t at = 0;
  for (const std::int32_t id : ids) {
    const std::string name = tokenizer.token(id), piece = piece_of(name, byte_level);
    const std::string_view rest = text.substr(at);
    std::size_t size = piece.size();
    if (rest.starts_with(name) && (tokenizer.is_special(id) || !rest.starts_with(piece)))
      size = name.size();  // an added token stands for its name
    else if (!rest.starts_with(piece) && piece.starts_with(' ') && rest.starts_with(piece.substr(1)))
      --size;  // a space that the tokenizer added
    else if (!rest.starts_with(piece))
      return std::nullopt;
    spans.emplace_back(at, at + size);
    at += size;
  }
  if (at != text.size()) return std::nullopt;
  return spans;
}

}  // namespace ft
