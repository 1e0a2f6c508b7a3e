// Inputs of classifications and embeddings: a text, two texts one after the other, tokens, or words.
#pragma once
#include <string>
#include <vector>

#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

class TextInputs {
 public:
  // Takes the names of the columns text, text_pair, input_ids and tokens, which dataset.columns may change.
  explicit TextInputs(const FormatContext&);

  // Returns the row's tokens: input_ids unchanged, or its text and, if there is one, its text_pair, each with
  // the tokens that the tokenizer puts around a text.
  std::vector<std::int32_t> read(const Json& row, const Place& at) const;
  // Returns a text's tokens.
  std::vector<std::int32_t> text(const std::string&, const Place& at) const;
  // Returns a list of ids of this field.
  std::vector<std::int32_t> ids(const Json& row, const std::string& field, const Place& at) const;

  // The tokens of a list of words, joined by spaces, and the index in `ids` of each word's first token.
  struct Words {
    std::vector<std::int32_t> ids;
    std::vector<std::size_t> first;
  };
  Words words(const Json& row, const Place& at) const;
  bool has_words(const Json& row) const;
  bool has_ids(const Json& row) const;

 private:
  const std::string& string_of(const Json& row, const std::string& field, const Place& at) const;
  void check(const std::vector<std::int32_t>&, const Place& at) const;

  FormatContext context_;
  std::string text_, text_pair_, input_ids_, tokens_;
};

}  // namespace ft
