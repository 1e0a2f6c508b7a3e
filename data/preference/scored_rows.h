// Reads rows to be scored as token ids: input_ids unchanged, prompt and completion as in training (with the
// end token), messages, or the two answers of a pair that trains a reward model.
#pragma once
#include <memory>

#include "data/chat/rendered_chat.h"

namespace ft {

// A text to score, and the name of its score in the row.
struct ScoredText {
  const char* name;  // reward; for a pair reward_chosen and reward_rejected
  std::vector<std::int32_t> ids;
};

class ScoredRows {
 public:
  // Uses data.chat_template, the vocabulary and the tokenizer of the context.
  explicit ScoredRows(const FormatContext&);
  std::vector<ScoredText> read(const Json& row, const Place& at) const;

 private:
  std::vector<std::int32_t> ids(const Json& row, const char* name, const Place& at) const;
  std::vector<std::int32_t> conversation(const Json& row, const char* name, const Place& at) const;
  std::vector<std::int32_t> answer(const Json& row, const char* name, const Place& at) const;

  FormatContext context_;
  mutable std::shared_ptr<const Format> answers_;  // both are made when first needed
  mutable std::shared_ptr<RenderedChat> chat_;
};

}  // namespace ft
