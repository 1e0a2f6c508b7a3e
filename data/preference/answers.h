// What formats of answers that are compared have in common.
#pragma once
#include <string>
#include <vector>

#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

// A prompt's answer, or its chosen and its rejected one, as a sample.
Sample answers_sample(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& chosen,
                      const std::vector<std::int32_t>& rejected, float value, bool seq2seq);

// UserError (exit 3) for an id that the model has no embedding for.
void require_known(const std::vector<std::int32_t>& ids, std::int64_t vocab_size, const Tokenizer&,
                   const Place& at);

// What a row says about its answers beside them.
class AnswerValue {
 public:
  explicit AnswerValue(const FormatContext& context)
      : margin_(column(context.dataset, "margin")), label_(column(context.dataset, "label")) {}
  float margin(const Json& row, const Place& at) const;  // a number; 0 where there is none
  float label(const Json& row, const Place& at) const;   // true or false, or 1 or 0

 private:
  std::string margin_, label_;  // the fields' names in the file
};

}  // namespace ft
