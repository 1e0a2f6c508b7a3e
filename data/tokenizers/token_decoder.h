// How tokens become a text again: `decoder` of tokenizer.json.
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

// The steps in their order; none when there is no such key. UserError (exit 3) for a type that is not known.
std::vector<std::unique_ptr<TokenDecoder>> read_token_decoders(const JsonObject& tokenizer);

// With U+FFFD for what is no UTF-8: one for each longest beginning of a character that is cut short, one for
// each other byte (Unicode 3.9, "substitution of maximal subparts").
std::string lossy_utf8(std::string_view bytes);

}  // namespace ft
