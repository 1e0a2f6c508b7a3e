// A prompt and its answer, two fields of a row; for preferences the answer is the chosen one. Both are texts,
// or both are lists of messages: then all that the chat template writes behind the prompt is trained, as in
// TRL, unless a message says otherwise about itself.
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "data/chat/chat_inputs.h"
#include "data/chat/rendered_chat.h"
#include "data/chat/said_parts.h"
#include "data/chat/trained_chat.h"
#include "data/files/json_row.h"
#include "data/preference/shared_prompt.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "data/rows/prompt_column.h"
#include "data/rows/text_sample.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr const char* kAnswers[] = {"completion", "response", "answer"};

class PromptFormat : public Format {
 public:
  PromptFormat(const FormatContext& context, std::span<const std::string> names, bool preferences)
      : prompt_(context.dataset, names),
        answer_(preferences ? column(context.dataset, "chosen")
                            : pick_column(context.dataset, std::span(kAnswers).first(2), kAnswers, names)),
        rejected_(column(context.dataset, "rejected")),
        preferences_(preferences),
        train_prompt_(context.data.train_on_inputs),
        seq2seq_(context.seq2seq),
        config_(context.data),
        builder_(context.tokenizer(), context.vocab_size, context.seq2seq),
        chat_(context.data, context.tokenizer_path, builder_.tokenizer()),
        columns_(context) {
    columns = prompt_.columns();
    columns.push_back(answer_);
  }

  Sample read(std::string_view row, const Place& at) const override {
    std::array fields{Field{.name = prompt_.name(), .required = !preferences_, .may_be_list = !seq2seq_},
                      Field{.name = answer_, .may_be_list = !seq2seq_}};
    read_fields(row, at, fields);
    if (fields[0].is_list || fields[1].is_list) return conversation(read_row(row, at), at);
    columns_.require_unused(at);
    if (prompt_.columns().size() > 1) fields[0].text = prompt_.of(read_row(row, at)).get<std::string>();
    if (!fields[0].found) fields[0].text = shared_prompt(fields[1].text, read_row(row, at), at);
    return builder_.prompt_and_answer(fields[0].text, fields[1].text, train_prompt_, at);
  }

 private:
  using Messages = RenderedChat::Messages;

  // Takes the prompt of a pair that names none from its chosen answer.
  std::string shared_prompt(std::string& chosen, const Json& row, const Place& at) const {
    const auto found = row.find(rejected_);
    if (found == row.end() || !found->is_string())
      at.fail(str("no \"", printable(prompt_.name()), "\", and no \"", printable(rejected_),
                  "\" that begins with it too"));
    std::string rejected = found->get<std::string>();
    return take_shared_prompt(chosen, rejected);
  }

  // The prompt's messages, and the answer's.
  std::pair<Messages, Messages> messages_of(const Json& row, const Place& at) const {
    const Json prompt = prompt_.of(row);
    Messages begin = preferences_ ? Messages{} : read_messages(prompt, prompt_.name(), at);
    Messages answer = read_messages(row.value(answer_, Json()), answer_, at);
    if (!preferences_) return {std::move(begin), std::move(answer)};
    const auto found = row.find(rejected_);
    Messages rejected =
        found == row.end() || !found->is_array() ? answer : read_messages(*found, rejected_, at);
    begin = prompt_of_chats(prompt, prompt_.name(), answer, rejected, at);
    return {std::move(begin), std::move(answer)};
  }

  Sample conversation(const Json& row, const Place& at) const {
    auto [messages, answer] = messages_of(row, at);
    const ChatInputs with = columns_.of(row, at);
    try {
      const std::size_t before = messages.size();
      const auto begin = train_prompt_ ? Tokenizer::Ids{} : chat_.prompt(messages, with);
      for (Json& message : answer) messages.push_back(std::move(message));
      if (const auto said = chosen_turns(messages, before, at))
        return trained_chat(chat_.chat_template(), config_, builder_, RenderedChat::turns(messages, with),
                            *said, at);
      const std::string text = chat_.text(messages, with);
      Sample sample = builder_.answer_to(begin, builder_.tokenizer().encode(text), at);
      if (config_.ignore_empty_think) leave_out(sample, text, empty_thoughts(text), builder_.tokenizer());
      return sample;
    } catch (const std::invalid_argument& wrong) {
      at.fail(wrong.what());
    }
  }

  // Returns the choice of messages if one of them, or data.mask_history, contradicts the rule: all but the
  // prompt is trained.
  std::optional<SaidTrained> chosen_turns(const Messages& messages, std::size_t before,
                                          const Place& at) const {
    SaidTrained said;
    bool other = false, later = false;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const bool prompt = i < before;
      const std::string where =
          str(printable(prompt ? prompt_.name() : answer_), "[", prompt ? i : i - before, "]");
      said.push_back(said_trained(messages[i], where, at));
      other |= said.back() == prompt || !said_parts(messages[i], where, at).empty();
      if (prompt && !said.back()) said.back() = train_prompt_;
    }
    for (std::size_t i = messages.size(); config_.mask_history && i-- > before;) {
      if (messages[i].at("role") != "assistant") continue;
      other |= later && !said[i];
      later = true;
    }
    if (!other) return std::nullopt;
    require_no_choice(chat_.chat_template(), config_);
    return said;
  }

  PromptColumn prompt_;
  std::string answer_, rejected_;  // the columns' names in the file
  bool preferences_, train_prompt_, seq2seq_;
  const DataConfig& config_;
  TextSampleBuilder builder_;
  RenderedChat chat_;
  ChatColumns columns_;
};

template <bool preferences>
std::unique_ptr<Format> make_prompt_format(const FormatContext& context, std::span<const std::string> names) {
  return std::make_unique<PromptFormat>(context, names, preferences);
}

}  // namespace

const RowFormat row_formats::kPromptCompletion{
    .name = "prompt_completion",
    .columns = {"prompt", "completion", "response", "tools", "chat_template_kwargs"},
    .fits =
        [](const RowNames& row) {
          return row.any({"prompt", "question"}) && row.any({"completion", "response", "answer"});
        },
    .make = make_prompt_format<false>};
const RowFormat row_formats::kPreferenceChosen{
    .name = "preference_chosen",
    .columns = {"prompt", "chosen", "rejected", "tools", "chat_template_kwargs"},
    .fits = [](const RowNames& row) { return row.has("chosen") && row.has("rejected"); },
    .make = make_prompt_format<true>};

}  // namespace ft
