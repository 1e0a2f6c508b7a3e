#include "data/preference/scored_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/chat_inputs.h"
#include "data/chat/rendered_chat.h"
#include "data/files/json_row.h"
#include "data/preference/answers.h"
#include "data/rows/prompt_column.h"
#include "engine/core/error.h"

namespace ft {
namespace {

// Returns the column that holds a row's prompt; null: none.
const char* prompt_name(const Json& row) {
  for (const char* name : kPromptNames)
    if (row.contains(name)) return name;
  return nullptr;
}

}  // namespace

ScoredRows::ScoredRows(const FormatContext& context) : context_(context) {
  context_.rows = {.kind = RowKind::labelled, .objective = "reward"};
}

std::vector<ScoredText> ScoredRows::read(const Json& row, const Place& at) const {
  if (!row.is_object()) at.fail("a row is a JSON object {...}");
  const auto has = [&](const char* name) { return row.contains(name); };
  if (has("input_ids")) return {{"reward", ids(row, "input_ids", at)}};
  if (has("messages")) return {{"reward", conversation(row, "messages", at)}};
  if (prompt_name(row) && has("completion")) return {{"reward", answer(row, "completion", at)}};
  if (has("chosen") && has("rejected"))
    return {{"reward_chosen", answer(row, "chosen", at)}, {"reward_rejected", answer(row, "rejected", at)}};
  const auto after_prompt = [&](const char* name) {
    std::vector<std::int32_t> all = ids(row, "prompt_ids", at);
    for (const std::int32_t id : ids(row, name, at)) all.push_back(id);
    return all;
  };
  if (has("prompt_ids") && has("chosen_ids") && has("rejected_ids"))
    return {{"reward_chosen", after_prompt("chosen_ids")}, {"reward_rejected", after_prompt("rejected_ids")}};
  at.fail(
      "a row has \"input_ids\", or \"prompt\" and \"completion\", or \"messages\", or \"chosen\" and "
      "\"rejected\"");
}

// Returns the tokens of a pair's answer, which may be a complete conversation.
std::vector<std::int32_t> ScoredRows::answer(const Json& row, const char* name, const Place& at) const {
  const Json& text = row[name];
  const char* const prompt = prompt_name(row);
  if (text.is_array() && !(prompt && row[prompt].is_array())) return conversation(row, name, at);
  Json labelled = row;
  labelled["completion"] = text;
  labelled["label"] = true;
  if (!prompt) labelled["prompt"] = "";
  const std::string whole = json_text(labelled, -1);
  if (!answers_) answers_ = make_answers_format(context_, row_names(whole, at));
  return answers_->read(whole, at).input_ids;
}

std::vector<std::int32_t> ScoredRows::ids(const Json& row, const char* name, const Place& at) const {
  const Json& list = row[name];
  if (!list.is_array() || list.empty())
    at.fail(str(name, ": must be a list of ids, is ", json_excerpt(list)));
  std::vector<std::int32_t> all;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id < 0 || id >= context_.vocab_size)
      at.fail(str(name, "[", all.size(), "] is ", json_excerpt(id), "; the model's tokens are 0 to ",
                  context_.vocab_size - 1));
    all.push_back(id.get<std::int32_t>());
  }
  return all;
}

std::vector<std::int32_t> ScoredRows::conversation(const Json& row, const char* name, const Place& at) const {
  const Tokenizer& tokenizer = context_.tokenizer();
  if (!chat_) chat_ = std::make_shared<RenderedChat>(context_.data, context_.tokenizer_path, tokenizer);
  try {
    std::vector<std::int32_t> all =
        chat_->whole(read_messages(row[name], name, at), ChatColumns(context_).of(row, at));
    require_known(all, context_.vocab_size, tokenizer, at);
    return all;
  } catch (const std::invalid_argument& wrong) {
    at.fail(str(name, ": ", wrong.what()));
  }
}

}  // namespace ft
