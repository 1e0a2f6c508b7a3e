// Reads prompts to be answered: a text, a conversation that the assistant continues, or tokens. The complete
// row is kept for the rewards; its `answer` is the correct one.
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "data/chat/chat_inputs.h"
#include "data/chat/rendered_chat.h"
#include "data/files/json_row.h"
#include "data/preference/answers.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "data/rows/prompt_column.h"
#include "data/rows/text_sample.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using Ids = Tokenizer::Ids;

class Prompts : public Format {
 public:
  Prompts(const FormatContext& context, std::span<const std::string> names, bool tokenized)
      : prompt_(context.dataset, names),
        ids_(column(context.dataset, "prompt_ids")),
        answer_(column(context.dataset, "answer")),
        vocab_size_(context.vocab_size),
        tokenizer_(tokenized ? nullptr : &context.tokenizer()),
        columns_(context) {
    if (tokenizer_) chat_.emplace(context.data, context.tokenizer_path, *tokenizer_);
  }

  Sample read(std::string_view row, const Place& at) const override {
    Json tree = read_row(row, at);
    const std::string& name = tokenizer_ ? prompt_.name() : ids_;
    const Json prompt = tokenizer_ ? prompt_.of(tree) : tree.value(ids_, Json());
    if (prompt.is_null()) at.fail(str("no \"", printable(name), "\""));
    Sample s;
    s.input_ids = tokenizer_ ? of_text(prompt, tree, at) : of_ids(prompt, at);
    if (s.input_ids.empty()) at.fail(printable(name) + ": empty, there is nothing to answer");
    s.begins_twice = tokenizer_ && prompt.is_string() && begins_twice(*tokenizer_, s.input_ids);
    s.labels.assign(s.input_ids.size(), kIgnored);
    if (tokenizer_) s.written = prompt.is_string() ? Written::plain : Written::chat;
    name_answer(tree);
    s.row = json_text(tree, -1);
    return s;
  }

 private:
  // Adds "answer" to the row, from the column that has another name in the file.
  void name_answer(Json& row) const {
    if (const auto named = row.find(answer_); named != row.end()) {
      const Json value = *named;
      row["answer"] = value;
      return;
    }
    for (const char* other : {"completion", "solution"})
      if (row.contains(other)) {
        const Json value = row[other];
        row["answer"] = value;
        return;
      }
  }

  Ids of_text(const Json& prompt, const Json& row, const Place& at) const {
    Ids ids;
    if (prompt.is_string()) {
      columns_.require_unused(at);
      ids = tokenizer_->encode_with_specials(prompt.get_ref<const std::string&>());
    } else {
      const RenderedChat::Messages messages = read_messages(prompt, prompt_.name(), at);
      try {
        ids = chat_->prompt(messages, columns_.of(row, at));
      } catch (const std::invalid_argument& wrong) {
        at.fail(wrong.what());
      }
    }
    require_known(ids, vocab_size_, *tokenizer_, at);
    return ids;
  }

  Ids of_ids(const Json& list, const Place& at) const {
    if (!list.is_array()) at.fail(str(printable(ids_), ": must be a list of ids, is ", json_excerpt(list)));
    Ids ids;
    for (const Json& id : list) {
      const bool known = id.is_number_integer() && id >= 0 && id < vocab_size_;
      if (!known)
        at.fail(str(printable(ids_), "[", ids.size(), "] is ", json_excerpt(id),
                    "; the model's tokens are 0 to ", vocab_size_ - 1));
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  }

  PromptColumn prompt_;
  std::string ids_, answer_;  // the columns' names in the file
  std::int64_t vocab_size_;
  const Tokenizer* tokenizer_;  // null: prompts are tokens
  ChatColumns columns_;
  std::optional<RenderedChat> chat_;
};

template <bool tokenized>
std::unique_ptr<Format> make_prompts(const FormatContext& context, std::span<const std::string> names) {
  return std::make_unique<Prompts>(context, names, tokenized);
}

}  // namespace

const RowFormat row_formats::kPrompts{
    .name = "prompts",
    .kind = RowKind::prompt,
    .columns = {"prompt", "answer", "tools", "chat_template_kwargs"},
    .fits =
        [](const RowNames& row) {
          return row.wanted(RowKind::prompt) && row.any({"prompt", "question", "instruction"});
        },
    .make = make_prompts<false>};
const RowFormat row_formats::kPromptsTokenized{
    .name = "prompts_tokenized",
    .kind = RowKind::prompt,
    .columns = {"prompt_ids", "answer"},
    .fits = [](const RowNames& row) { return row.wanted(RowKind::prompt) && row.has("prompt_ids"); },
    .make = make_prompts<true>};

}  // namespace ft
