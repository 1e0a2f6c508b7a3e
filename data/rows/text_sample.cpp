#include "data/rows/text_sample.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {

bool begins_twice(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const Tokenizer::Ids prefix = tokenizer.prefix();
  return !prefix.empty() && ids.size() > prefix.size() && ids[prefix.size()] == prefix.back();
}

TextSampleBuilder::TextSampleBuilder(const Tokenizer& tokenizer, std::int64_t vocab_size, bool seq2seq)
    : tokenizer_(tokenizer), vocab_size_(vocab_size), seq2seq_(seq2seq) {
  if (!tokenizer.eos())
    throw UserError(Exit::input,
                    "the tokenizer has no end token; name it as eos_token in tokenizer_config.json");
  end_ = *tokenizer.eos();
}

void TextSampleBuilder::add_prefix(Sample& sample, bool trained, const Place& at) const {
  add(sample, tokenizer_.prefix(), trained, at);
}

void TextSampleBuilder::add_text(Sample& sample, std::string_view text, bool trained, const Place& at) const {
  add(sample, tokenizer_.encode(text), trained, at);
}

void TextSampleBuilder::add_ended(Sample& sample, std::string_view text, bool trained,
                                  const Place& at) const {
  const Tokenizer::Ids ids = tokenizer_.encode(text);
  add(sample, ids, trained, at);
  const bool ended = !ids.empty() && ids.back() == end_ && text.ends_with(tokenizer_.token(end_));
  if (!ended) add(sample, {&end_, 1}, trained, at);
}

Sample TextSampleBuilder::prompt_and_answer(std::string_view prompt, std::string_view answer,
                                            bool train_prompt, const Place& at) const {
  if (seq2seq_) return {side(prompt, at), side(answer, at)};
  Sample sample;
  sample.written = Written::plain;
  add_prefix(sample, train_prompt, at);
  add_text(sample, prompt, train_prompt, at);
  add_ended(sample, answer, true, at);
  sample.begins_twice = begins_twice(tokenizer_, sample.input_ids);
  return sample;
}

Sample TextSampleBuilder::answer_to(std::span<const std::int32_t> prompt, std::span<const std::int32_t> whole,
                                    const Place& at) const {
  const auto border = static_cast<std::size_t>(std::ranges::mismatch(prompt, whole).in1 - prompt.begin());
  Sample sample;
  sample.written = Written::chat;
  add(sample, whole.first(border), false, at);
  add(sample, whole.subspan(border), true, at);
  return sample;
}

std::vector<std::int32_t> TextSampleBuilder::side(std::string_view text, const Place& at) const {
  std::vector<std::int32_t> ids = tokenizer_.encode_with_specials(text);
  if (ids.empty() || ids.back() != end_) ids.push_back(end_);
  for (const std::int32_t id : ids) check(id, at);
  return ids;
}

void TextSampleBuilder::check(std::int32_t id, const Place& at) const {
  if (id >= vocab_size_)
    at.fail(str("token ", id, " (", printable(tokenizer_.token(id), 40),
                "): the model has no embedding for it, its vocabulary ends at ", vocab_size_ - 1,
                ". Is this tokenizer another model's, or were tokens added to it?"));
}

void TextSampleBuilder::add(Sample& sample, std::span<const std::int32_t> ids, bool trained,
                            const Place& at) const {
  for (const std::int32_t id : ids) {
    check(id, at);
    sample.input_ids.push_back(id);
    sample.labels.push_back(trained ? id : kIgnored);
  }
}

}  // namespace ft
