// SentencePiece's normalization table ("precompiled_charsmap"), as Hugging Face's library applies it.
// SentencePiece makes the table (https://github.com/google/sentencepiece, builder.cc): the size of a
// double-array trie in bytes (u32, little endian), the trie (u32 units, darts-clone), then the
// zero-terminated texts that its values point to.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft {

class Charsmap {
 public:
  // Throws std::invalid_argument with the reason if a step in the table would lead outside it.
  explicit Charsmap(std::string_view bytes);

  // Replaces a cluster of less than six bytes by the shortest entry that is a beginning of it: marks after
  // that are lost. Longer clusters are replaced character by character.
  std::string normalize(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view chunk) const;
  void append(std::string_view chunk, std::string& to) const;

  std::vector<std::uint32_t> trie_;
  std::string texts_;
  std::array<bool, 128> kept_{};  // ASCII characters that do not change
};

}  // namespace ft
