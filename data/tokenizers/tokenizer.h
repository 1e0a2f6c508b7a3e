// Converts text to token ids and back. Only the implementations know the tokenizer files of model folders;
// all other code uses this interface.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer_settings.h"

namespace ft {

class Tokenizer {
 public:
  using Ids = std::vector<std::int32_t>;

  virtual ~Tokenizer() = default;

  // Converts UTF-8 text to ids. Special tokens written in the text become their ids; no tokens are added
  // around it.
  virtual Ids encode(std::string_view text) const = 0;
  // Adds the tokens that the tokenizer puts around a text: see prefix and suffix.
  Ids encode_with_specials(std::string_view text) const;
  // Converts ids to text. An id without a token gives no text, as in transformers: a model may have more ids
  // than its tokenizer has tokens.
  virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const = 0;

  virtual Ids prefix() const = 0;  // usually BOS or nothing
  virtual Ids suffix() const = 0;  // usually nothing; EOS if add_eos_token is true

  virtual std::int64_t size() const = 0;                 // one more than the largest id
  virtual std::string token(std::int32_t id) const = 0;  // as in the vocabulary; "" for an unused id
  virtual bool is_special(std::int32_t id) const = 0;    // decode can skip it
  virtual std::optional<std::int32_t> id(std::string_view token) const = 0;

  virtual std::optional<std::int32_t> bos() const = 0;
  virtual std::optional<std::int32_t> eos() const = 0;
  virtual std::optional<std::int32_t> pad() const = 0;
  virtual std::optional<std::int32_t> unk() const = 0;
};

// Makes the tokenizer of a Hugging Face model folder, or of a file: tokenizer.json before tokenizer.model, as
// in transformers. `more` tokens are added; their ids are not set. Throws UserError (input) if there is no
// tokenizer, or none that ft can read.
std::unique_ptr<Tokenizer> make_tokenizer(const std::filesystem::path& path,
                                          const std::vector<AddedToken>& more = {});

}  // namespace ft
