// Finds added tokens in a text by the rules of Hugging Face's library: complete tokens, the longest first,
// before any other step sees the text.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/tokenizer_settings.h"

namespace ft {

class AddedTokens {
 public:
  // A stretch of the text: a token, or non-empty text between tokens.
  struct Part {
    std::string_view text;
    std::int32_t id = -1;  // the token's id; -1: text
  };

  // Every token must have its id. Throws UserError (input) if two tokens have the same id.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  // Splits a text, which must outlive the parts. White space that a token removes is in no part. A token with
  // single_word inside a word is text.
  std::vector<Part> split(std::string_view text) const;
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  std::int32_t largest_id() const;  // -1: no tokens

 private:
  const AddedToken* match(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;                           // longest first
  std::array<std::vector<std::size_t>, 256> by_first_byte_;  // indices into tokens_, ascending
  std::unordered_map<std::int32_t, std::size_t> by_id_;
};

}  // namespace ft
