// Helpers shared by formats whose answers are compared.
#pragma once
#include <string>
#include <vector>

#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

// Makes a sample of a prompt with its answer, or with its chosen and its rejected answer.
Sample answers_sample(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& chosen,
                      const std::vector<std::int32_t>& rejected, float value, bool seq2seq);

// Throws UserError (input) if the model has no embedding for an id.
void require_known(const std::vector<std::int32_t>& ids, std::int64_t vocab_size, const Tokenizer&,
                   const Place& at);

// Reads a row's margin or label.
class AnswerValue {
 public:
  explicit AnswerValue(const FormatContext& context)
      : margin_(column(context.dataset, "margin")), label_(column(context.dataset, "label")) {}
  float margin(const Json& row, const Place& at) const;  // a number; 0 if absent
  float label(const Json& row, const Place& at) const;   // true or false, or 1 or 0

 private:
  std::string margin_, label_;  // the columns' names in the file
};

}  // namespace ft
