// Makes text from tokens: `decoder` of tokenizer.json.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/files/json.h"

namespace ft {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Changes the tokens' texts; one step may join them.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

// Returns the steps in their order; none if the key is absent. Throws UserError (input) for an unknown type.
std::vector<std::unique_ptr<TokenDecoder>> read_token_decoders(const JsonObject& tokenizer);

// Replaces bytes that are not UTF-8 by U+FFFD: one for each longest beginning of a character, one for each
// other byte (Unicode 3.9, "substitution of maximal subparts").
std::string lossy_utf8(std::string_view bytes);

}  // namespace ft
