// The text of an answer as its tokens arrive: returns the text that can be shown after each token, in
// complete characters, and stops at a stop string.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace ft {

class TextStream {
 public:
  // `before`: tokens that the answer continues. A space between them and the answer belongs to the answer.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_strings,
             std::vector<std::int32_t> before = {})
      : tokenizer_(tokenizer),
        stop_strings_(std::move(stop_strings)),
        ids_(std::move(before)),
        before_(ids_.size()),
        read_(before_) {}

  // Adds a token. Returns the text that can be shown now: no partial characters, and nothing that may be the
  // start of a stop string.
  std::string add(std::int32_t token);
  // Returns the text that add() held back; call it after the last token.
  std::string finish();
  bool stopped() const { return stopped_; }          // a stop string was found
  const std::string& text() const { return text_; }  // all shown text, up to the stop string
  // Returns the complete answer. It differs from the shown text if later tokens completed a character.
  std::string whole() const { return stopped_ ? text_ : behind(0, before_); }
  // Returns the complete answer with its special tokens; without them if a stop string ended it.
  std::string raw() const { return stopped_ ? text_ : tokenizer_.decode(all_, false); }

 private:
  // True for a token that has no text in the answer.
  bool is_silent(std::int32_t token) const {
    return tokenizer_.token(token).empty() || tokenizer_.is_special(token);
  }
  // Returns the text of the tokens from `end` on, in complete characters. Decodes them together with the
  // tokens from `begin` on.
  std::string behind(std::size_t begin, std::size_t end) const;
  void append(const std::string& text);
  std::size_t safe() const;  // bytes of text_ before a possible stop string

  const Tokenizer& tokenizer_;
  std::vector<std::string> stop_strings_;
  std::vector<std::int32_t> all_, ids_;  // all tokens; the tokens that have text, after `before`
  // Tokens [from_, read_) are already in text_. They are decoded again together with the tokens that follow,
  // because a token's text depends on the token before it.
  std::size_t before_, from_ = 0, read_, shown_ = 0;
  std::string text_;
  bool stopped_ = false;
};

}  // namespace ft
