#include "data/preference/scored_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat_inputs.h"
#include "data/json_row.h"
#include "data/preference/answers.h"
#include "data/prompt_column.h"
#include "data/rendered_chat.h"
#include "engine/core/error.h"

namespace ft {

ScoredRows::ScoredRows(const FormatContext& context) : context_(context) {
  context_.rows = {.kind = RowKind::labelled, .objective = "reward"};
}

std::vector<std::int32_t> ScoredRows::read(const Json& row, const Place& at) const {
  if (!row.is_object()) at.fail("a row is a JSON object {...}");
  if (row.contains("input_ids")) return ids(row["input_ids"], at);
  if (row.contains("messages")) return conversation(row, at);
  const auto has = [&](const char* name) { return row.contains(name); };
  if (std::none_of(std::begin(kPromptNames), std::end(kPromptNames), has) || !row.contains("completion"))
    at.fail("a row has \"input_ids\", or \"prompt\" and \"completion\", or \"messages\"");
  Json answer = row;
  answer["label"] = true;
  const std::string text = json_text(answer, -1);
  if (!answers_) answers_ = make_answers_format(context_, row_names(text, at));
  return answers_->read(text, at).input_ids;
}

std::vector<std::int32_t> ScoredRows::ids(const Json& list, const Place& at) const {
  if (!list.is_array() || list.empty()) at.fail("input_ids: must be a list of ids, is " + json_excerpt(list));
  std::vector<std::int32_t> all;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id < 0 || id >= context_.vocab_size)
      at.fail(str("input_ids[", all.size(), "] is ", json_excerpt(id), "; the model's tokens are 0 to ",
                  context_.vocab_size - 1));
    all.push_back(id.get<std::int32_t>());
  }
  return all;
}

std::vector<std::int32_t> ScoredRows::conversation(const Json& row, const Place& at) const {
  const Tokenizer& tokenizer = context_.tokenizer();
  if (!chat_) chat_ = std::make_shared<RenderedChat>(context_.data, context_.tokenizer_path, tokenizer);
  try {
    std::vector<std::int32_t> all =
        chat_->whole(read_messages(row["messages"], "messages", at), ChatColumns(context_).of(row, at));
    require_known(all, context_.vocab_size, tokenizer, at);
    return all;
  } catch (const std::invalid_argument& wrong) {
    at.fail(str("messages: ", wrong.what()));
  }
}

}  // namespace ft
