// Finds added tokens in a text: they are matched as a whole, the longest first, before anything else looks
// at the text. The rules are those of Hugging Face's library.
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
  // A stretch of the text: a token, or what is between tokens and is not empty.
  struct Part {
    std::string_view text;
    std::int32_t id = -1;  // of the token; -1: text
  };

  // Every token must have its id. Throws a UserError when two have the same.
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  // `text` must outlive the parts. White space that a token takes away is in no part; a token that would not
  // stand alone (single_word) is text.
  std::vector<Part> split(std::string_view text) const;
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  std::int32_t largest_id() const;  // -1 when there are none

 private:
  const AddedToken* match(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;                           // longest first
  std::array<std::vector<std::size_t>, 256> by_first_byte_;  // places in tokens_, in that order
  std::unordered_map<std::int32_t, std::size_t> by_id_;
};

}  // namespace ft
