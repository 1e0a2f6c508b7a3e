// Puts a sample together from pieces of text: the formats' common part.
#pragma once
#include <string_view>

#include "data/dataset.h"
#include "data/row_reader.h"
#include "data/tokenizer.h"

namespace ft {

class TextSampleBuilder {
 public:
  // Throws a UserError when the tokenizer has no end token: a model would not learn where to stop.
  TextSampleBuilder(const Tokenizer& tokenizer, std::int64_t vocab_size);

  void add_prefix(Sample& sample, bool trained, const Place& at) const;
  void add_text(Sample& sample, std::string_view text, bool trained, const Place& at) const;
  void add_end(Sample& sample, bool trained, const Place& at) const;
  // They are tokenized separately and joined, so that the border of what is trained is exact: what the
  // tokenizer puts before a text, the prompt, the answer, EOS.
  Sample prompt_and_answer(std::string_view prompt, std::string_view answer, bool train_prompt,
                           const Place& at) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  void add(Sample& sample, std::span<const std::int32_t> ids, bool trained, const Place& at) const;

  const Tokenizer& tokenizer_;
  std::int64_t vocab_size_;  // of the model; the tokenizer may know more tokens, but they must not occur
  std::int32_t end_ = 0;
};

}  // namespace ft
