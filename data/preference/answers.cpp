#include "data/preference/answers.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"

namespace ft {

Sample answers_sample(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& chosen,
                      const std::vector<std::int32_t>& rejected, float value, bool seq2seq) {
  Sample s;
  s.value = value;
  const auto put = [&](const std::vector<std::int32_t>& answer, std::vector<std::int32_t>& ids,
                       std::vector<std::int32_t>& labels) {
    ids = prompt;
    labels = answer;
    if (seq2seq) return;
    ids.insert(ids.end(), answer.begin(), answer.end());
    labels.insert(labels.begin(), prompt.size(), kIgnored);
  };
  put(chosen, s.input_ids, s.labels);
  if (!rejected.empty()) put(rejected, s.rejected_ids, s.rejected_labels);
  return s;
}

void require_known(const std::vector<std::int32_t>& ids, std::int64_t vocab_size, const Tokenizer& tokenizer,
                   const Place& at) {
  for (const std::int32_t id : ids)
    if (id >= vocab_size)
      at.fail(str("token ", id, " (", printable(tokenizer.token(id), 40),
                  "): the model has no embedding for it, its vocabulary ends at ", vocab_size - 1,
                  ". Is this tokenizer another model's, or were tokens added to it?"));
}

float AnswerValue::margin(const Json& row, const Place& at) const {
  const auto found = row.find(margin_);
  if (found == row.end() || found->is_null()) return 0;
  const float margin = found->is_number() ? found->get<float>() : NAN;
  if (!std::isfinite(margin))
    at.fail(str(printable(margin_), ": must be a number, is ", json_excerpt(*found)));
  return margin;
}

float AnswerValue::label(const Json& row, const Place& at) const {
  const auto found = row.find(label_);
  if (found == row.end()) at.fail(str("no \"", printable(label_), "\""));
  if (found->is_boolean()) return found->get<bool>() ? 1 : 0;
  if (!found->is_number_integer() || (*found != 0 && *found != 1))
    at.fail(str(printable(label_), ": must be true or false, is ", json_excerpt(*found)));
  return *found == 1 ? 1 : 0;
}

}  // namespace ft
