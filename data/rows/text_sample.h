// Puts a sample together from pieces of text: the formats' common part.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "data/files/row_reader.h"
#include "data/rows/dataset.h"
#include "data/tokenizers/tokenizer.h"

namespace ft {

// The text of `ids` begins with the token that the tokenizer puts first: it is there twice.
bool begins_twice(const Tokenizer&, std::span<const std::int32_t> ids);

class TextSampleBuilder {
 public:
  // Throws a UserError when the tokenizer has no end token: a model would not learn where to stop.
  TextSampleBuilder(const Tokenizer& tokenizer, std::int64_t vocab_size, bool seq2seq = false);

  void add_prefix(Sample& sample, bool trained, const Place& at) const;
  void add_text(Sample& sample, std::string_view text, bool trained, const Place& at) const;
  // The text and the end token, which is there once: as in TRL, a text that ends with it gets no other.
  void add_ended(Sample& sample, std::string_view text, bool trained, const Place& at) const;
  // Prompt and answer are tokenized separately and joined, so that the boundary of what is trained is exact:
  // the tokenizer's prefix, the prompt, the answer, EOS. Encoder-decoders: prompt and answer, each with what
  // the tokenizer adds around a text, and one EOS at the end.
  Sample prompt_and_answer(std::string_view prompt, std::string_view answer, bool train_prompt,
                           const Place& at) const;
  // The tokens `whole`, trained behind those that `prompt` has too.
  Sample answer_to(std::span<const std::int32_t> prompt, std::span<const std::int32_t> whole,
                   const Place& at) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  std::vector<std::int32_t> side(std::string_view text, const Place& at) const;
  void check(std::int32_t id, const Place& at) const;
  void add(Sample& sample, std::span<const std::int32_t> ids, bool trained, const Place& at) const;

  const Tokenizer& tokenizer_;
  std::int64_t vocab_size_;  // of the model; the tokenizer may know more tokens, but they must not occur
  bool seq2seq_;
  std::int32_t end_ = 0;
};

}  // namespace ft
