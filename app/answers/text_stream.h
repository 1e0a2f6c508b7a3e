// The text of an answer as its tokens arrive: what can be shown after each, in whole characters, and where a
// stop string ends it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace ft {

class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_strings)
      : tokenizer_(tokenizer), stop_strings_(std::move(stop_strings)) {}

  // The text that can be shown now: no half characters, and nothing that may be the start of a stop string.
  std::string add(std::int32_t token);
  // What was held back, when nothing more comes.
  std::string finish();
  bool stopped() const { return stopped_; }          // a stop string came
  const std::string& text() const { return text_; }  // all of it, up to the stop string

 private:
  void append(const std::string& text);
  std::size_t safe() const;  // bytes of text_ that no stop string can take back

  const Tokenizer& tokenizer_;
  std::vector<std::string> stop_strings_;
  std::vector<std::int32_t> ids_;
  // Tokens [from_, read_) are in text_; they are decoded with those after them, because what a token's text
  // is depends on the one before it.
  std::size_t from_ = 0, read_ = 0, shown_ = 0;
  std::string text_;
  bool stopped_ = false;
};

}  // namespace ft
