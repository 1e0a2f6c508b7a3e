// Reads answers as texts or conversations. Prompt and answer are tokenized as one text, as TRL does. The
// answer begins where the tokens differ from the prompt's, so a last token of the prompt that merges with the
// answer belongs to the answer.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/chat_inputs.h"
#include "data/chat/rendered_chat.h"
#include "data/chat/said_parts.h"
#include "data/chat/trained_chat.h"
#include "data/files/json_row.h"
#include "data/preference/answers.h"
#include "data/preference/shared_prompt.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "data/rows/prompt_column.h"
#include "data/rows/text_sample.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using Ids = Tokenizer::Ids;

class TextAnswers : public Format {
 public:
  TextAnswers(const FormatContext& context, std::span<const std::string> names)
      : prompt_(context.dataset, names),
        chosen_(column(context.dataset, context.rows.kind == RowKind::pair ? "chosen" : "completion")),
        rejected_(column(context.dataset, "rejected")),
        pairs_(context.rows.kind == RowKind::pair),
        seq2seq_(context.seq2seq),
        vocab_size_(context.vocab_size),
        tokenizer_(context.tokenizer()),
        chat_(context.data, context.tokenizer_path, tokenizer_),
        columns_(context),
        value_(context) {
    if (!tokenizer_.eos())
      throw UserError(Exit::input,
                      "the tokenizer has no end token; name it as eos_token in tokenizer_config.json");
    end_ = tokenizer_.token(*tokenizer_.eos());
    columns = prompt_.columns();
    columns.push_back(chosen_);
  }

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    const auto field = [&](const std::string& name) -> const Json& {
      const auto found = tree.find(name);
      if (found == tree.end() || found->is_null()) at.fail(str("no \"", printable(name), "\""));
      return *found;
    };
    const Json& chosen = field(chosen_);
    const Json none, &rejected = pairs_ ? field(rejected_) : none;
    const Json prompt = prompt_.of(tree);
    if (prompt.is_null() && !pairs_) at.fail(str("no \"", printable(prompt_.name()), "\""));
    const float value = pairs_ ? value_.margin(tree, at) : value_.label(tree, at);
    if (chosen.is_string()) {
      columns_.require_unused(at);
      std::string begin = prompt.is_null() ? "" : text(prompt, prompt_.name(), at);
      std::string better = text(chosen, chosen_, at), worse = pairs_ ? text(rejected, rejected_, at) : "";
      if (prompt.is_null()) begin = take_shared_prompt(better, worse);
      return written(Written::plain, of_texts(begin, better, worse, value, at));
    }
    Messages better = answer(chosen, chosen_, at), worse;
    if (pairs_) worse = answer(rejected, rejected_, at);
    const Messages begin = pairs_ ? prompt_of_chats(prompt, prompt_.name(), better, worse, at)
                                  : read_messages(prompt, prompt_.name(), at);
    return written(Written::chat, of_messages(begin, better, worse, columns_.of(tree, at), value, at));
  }

 private:
  using Messages = RenderedChat::Messages;

  static Sample written(Written how, Sample sample) {
    sample.written = how;
    return sample;
  }
  // Reads an answer's messages. A message with "train": false is refused, because answers are compared
  // completely.
  static Messages answer(const Json& list, const std::string& name, const Place& at) {
    Messages messages = read_messages(list, name, at);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const std::string where = str(printable(name), "[", i, "]");
      const SaidParts parts = said_parts(messages[i], where, at);
      const bool out = std::ranges::any_of(parts, [](const SaidPart& p) { return p.trained == false; });
      if (out || said_trained(messages[i], where, at) == false)
        at.fail(where +
                ": \"weight\": 0 and \"train\": false have no effect, because complete answers are compared; "
                "take the key out, or the row");
    }
    return messages;
  }

  Sample of_texts(const std::string& prompt, const std::string& chosen, const std::string& rejected,
                  float value, const Place& at) const {
    const auto ended = [&](const std::string& s) { return s.ends_with(end_) ? s : s + end_; };
    if (seq2seq_) {
      const auto side = [&](const std::string& s) { return checked(tokenizer_.encode_with_specials(s), at); };
      return answers_sample(target(side(prompt)), target(side(chosen)),
                            pairs_ ? target(side(rejected)) : Ids{}, value, true);
    }
    const auto whole = [&](const std::string& answer) {
      return checked(tokenizer_.encode_with_specials(prompt + ended(answer)), at);
    };
    Sample sample = parted(tokenizer_.encode_with_specials(prompt), whole(chosen),
                           pairs_ ? whole(rejected) : Ids{}, value, at);
    sample.begins_twice = begins_twice(tokenizer_, sample.input_ids);
    return sample;
  }

  Sample of_messages(const Messages& prompt, const Messages& chosen, const Messages& rejected,
                     const ChatInputs& with, float value, const Place& at) const {
    if (seq2seq_) at.fail("an encoder-decoder compares texts, not conversations");
    const auto whole = [&](const Messages& answer) {
      Messages all = prompt;
      all.insert(all.end(), answer.begin(), answer.end());
      return checked(chat_.whole(all, with), at);
    };
    try {
      return parted(chat_.prompt(prompt, with), whole(chosen), pairs_ ? whole(rejected) : Ids{}, value, at);
    } catch (const std::invalid_argument& wrong) {
      at.fail(wrong.what());
    }
  }

  // Splits prompt and answers at the first position where an answer's tokens differ from the prompt's.
  Sample parted(const Ids& prompt, const Ids& chosen, const Ids& rejected, float value,
                const Place& at) const {
    const auto alike = [&](const Ids& whole) {
      return std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).first - prompt.begin();
    };
    const auto border = pairs_ ? std::min(alike(chosen), alike(rejected)) : alike(chosen);
    const auto answer = [&](const Ids& whole, const std::string& name) {
      if (std::ssize(whole) == border) at.fail(printable(name) + ": empty");
      return Ids(whole.begin() + border, whole.end());
    };
    return answers_sample(Ids(chosen.begin(), chosen.begin() + border), answer(chosen, chosen_),
                          pairs_ ? answer(rejected, rejected_) : Ids{}, value, false);
  }

  // Adds the end token to a side if it is missing, as in training on examples.
  Ids target(Ids ids) const {
    if (ids.empty() || ids.back() != *tokenizer_.eos()) ids.push_back(*tokenizer_.eos());
    return ids;
  }

  Ids checked(Ids ids, const Place& at) const {
    require_known(ids, vocab_size_, tokenizer_, at);
    return ids;
  }

  static std::string text(const Json& value, const std::string& name, const Place& at) {
    if (!value.is_string())
      at.fail(str(printable(name), ": must be a text, as the row's others are, is ", json_excerpt(value)));
    return value.get<std::string>();
  }

  PromptColumn prompt_;
  std::string chosen_, rejected_;  // the columns' names in the file
  bool pairs_, seq2seq_;
  std::int64_t vocab_size_;
  const Tokenizer& tokenizer_;
  RenderedChat chat_;
  std::string end_;  // the end token's text
  ChatColumns columns_;
  AnswerValue value_;
};

}  // namespace

std::unique_ptr<Format> make_answers_format(const FormatContext& context,
                                            std::span<const std::string> names) {
  return std::make_unique<TextAnswers>(context, names);
}

const RowFormat row_formats::kPreference{
    .name = "preference",
    .kind = RowKind::pair,
    .columns = {"prompt", "chosen", "rejected", "margin", "tools", "chat_template_kwargs"},
    .instead = "preference_chosen trains on the chosen answers",
    .fits =
        [](const RowNames& row) {
          return row.wanted(RowKind::pair) && row.has("chosen") && row.has("rejected");
        },
    .make = make_answers_format};
const RowFormat row_formats::kKto{
    .name = "kto",
    .kind = RowKind::labelled,
    .columns = {"prompt", "completion", "label", "tools", "chat_template_kwargs"},
    .fits =
        [](const RowNames& row) {
          return row.wanted(RowKind::labelled) && row.has("completion") && row.has("label");
        },
    .make = make_answers_format};

}  // namespace ft
