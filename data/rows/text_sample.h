// Makes a sample from pieces of text, for all formats of text.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "data/files/row_reader.h"
#include "data/rows/dataset.h"
#include "data/tokenizers/tokenizer.h"

namespace ft {

// Returns true if the tokenizer's first token occurs twice: added by the tokenizer, and in the text.
bool begins_twice(const Tokenizer&, std::span<const std::int32_t> ids);

class TextSampleBuilder {
 public:
  // Throws UserError (input) if the tokenizer has no end token, because a model would not learn where to
  // stop.
  TextSampleBuilder(const Tokenizer& tokenizer, std::int64_t vocab_size, bool seq2seq = false);

  void add_prefix(Sample& sample, bool trained, const Place& at) const;
  void add_text(Sample& sample, std::string_view text, bool trained, const Place& at) const;
  // Adds the text and one end token. As in TRL, a text that ends with the token gets no other.
  void add_ended(Sample& sample, std::string_view text, bool trained, const Place& at) const;
  // Tokenizes prompt and answer separately and joins them, so that the trained part begins exactly at the
  // answer: the tokenizer's prefix, the prompt, the answer, EOS. Encoder-decoders: prompt and answer, each
  // with the tokens that the tokenizer adds around a text, and one EOS at the end.
  Sample prompt_and_answer(std::string_view prompt, std::string_view answer, bool train_prompt,
                           const Place& at) const;
  // Makes a sample of the tokens `whole`; those after the tokens shared with `prompt` are trained.
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
