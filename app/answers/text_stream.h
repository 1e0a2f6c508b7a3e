// The text of an answer as its tokens arrive: what can be shown after each, in whole characters, and where a
// stop string ends it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace ft {

class TextStream {
 public:
  // `before`: tokens that the answer continues, so that a space between them and it is the answer's.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_strings,
             std::vector<std::int32_t> before = {})
      : tokenizer_(tokenizer),
        stop_strings_(std::move(stop_strings)),
        ids_(std::move(before)),
        before_(ids_.size()),
        read_(before_) {}

  // The text that can be shown now: no half characters, and nothing that may be the start of a stop string.
  std::string add(std::int32_t token);
  // What was held back, when nothing more comes.
  std::string finish();
  bool stopped() const { return stopped_; }          // a stop string came
  const std::string& text() const { return text_; }  // all that was shown, up to the stop string
  // The text of the whole answer. The shown text differs if some bytes became a character only later.
  std::string whole() const { return stopped_ ? text_ : behind(0, before_); }
  // The whole answer with its special tokens; without them if a stop string ended it.
  std::string raw() const { return stopped_ ? text_ : tokenizer_.decode(all_, false); }

 private:
  // Tokens that are left out of texts.
  bool is_silent(std::int32_t token) const {
    return tokenizer_.token(token).empty() || tokenizer_.is_special(token);
  }
  // The text of the tokens from `end` on, decoded with those from `begin` on; in whole characters.
  std::string behind(std::size_t begin, std::size_t end) const;
  void append(const std::string& text);
  std::size_t safe() const;  // bytes of text_ that no stop string can take back

  const Tokenizer& tokenizer_;
  std::vector<std::string> stop_strings_;
  std::vector<std::int32_t> all_, ids_;  // tokens; those that are not left out
  // Tokens [from_, read_) are in text_; they are decoded with those after them, because what a token's text
  // is depends on the one before it.
  std::size_t before_, from_ = 0, read_, shown_ = 0;
  std::string text_;
  bool stopped_ = false;
};

}  // namespace ft
