// A prompt and its answer, two fields of a row; for preferences the answer is the chosen one. Both are texts,
// or both are lists of messages: then all that the chat template writes behind the prompt is trained, as in
// TRL.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat_inputs.h"
#include "data/format.h"
#include "data/json_row.h"
#include "data/rendered_chat.h"
#include "data/text_sample.h"
#include "engine/core/error.h"

namespace ft {
namespace {

// `columns` decides; else the first of the usual names that the file has.
std::string pick(const DatasetConfig& dataset, std::initializer_list<const char*> ours,
                 std::initializer_list<const char*> usual, std::span<const std::string> names) {
  for (const char* name : ours)
    if (dataset.columns.contains(name)) return column(dataset, name);
  for (const char* name : usual)
    if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  return *usual.begin();
}

class PromptFormat : public Format {
 public:
  PromptFormat(const FormatContext& context, std::span<const std::string> names, bool preferences)
      : prompt_(pick(context.dataset, {"prompt"}, {"prompt", "question"}, names)),
        answer_(preferences ? column(context.dataset, "chosen")
                            : pick(context.dataset, {"completion", "response"},
                                   {"completion", "response", "answer"}, names)),
        train_prompt_(context.data.train_on_inputs),
        seq2seq_(context.seq2seq),
        builder_(context.tokenizer(), context.vocab_size, context.seq2seq),
        chat_(context.data, context.tokenizer_path, builder_.tokenizer()),
        columns_(context) {}

  Sample read(std::string_view row, const Place& at) const override {
    std::array fields{Field{.name = prompt_, .may_be_list = !seq2seq_},
                      Field{.name = answer_, .may_be_list = !seq2seq_}};
    read_fields(row, at, fields);
    if (fields[0].is_list || fields[1].is_list) return conversation(read_row(row, at), at);
    columns_.require_unused(at);
    return builder_.prompt_and_answer(fields[0].text, fields[1].text, train_prompt_, at);
  }

 private:
  Sample conversation(const Json& row, const Place& at) const {
    RenderedChat::Messages messages = read_messages(row[prompt_], prompt_, at);
    const ChatInputs with = columns_.of(row, at);
    try {
      const auto begin = train_prompt_ ? Tokenizer::Ids{} : chat_.prompt(messages, with);
      for (Json& message : read_messages(row[answer_], answer_, at)) messages.push_back(std::move(message));
      return builder_.answer_to(begin, chat_.whole(messages, with), at);
    } catch (const std::invalid_argument& wrong) {
      at.fail(wrong.what());
    }
  }

  std::string prompt_, answer_;  // the fields' names in the file
  bool train_prompt_, seq2seq_;
  TextSampleBuilder builder_;
  RenderedChat chat_;
  ChatColumns columns_;
};

}  // namespace

std::unique_ptr<Format> make_prompt_format(const FormatContext& context, std::span<const std::string> names,
                                           bool preferences) {
  return std::make_unique<PromptFormat>(context, names, preferences);
}

}  // namespace ft
