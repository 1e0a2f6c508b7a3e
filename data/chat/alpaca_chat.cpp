// Reads Stanford Alpaca's rows as a conversation of one question, which the chat template writes: as LLaMA-
// Factory and torchtune train on such rows. The question is the instruction and its input, in Stanford's
// words or none (data.prompt_template); a column `system` is the system message.
#include <array>
#include <stdexcept>

#include "data/chat/chat_inputs.h"
#include "data/chat/trained_chat.h"
#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/alpaca_rows.h"
#include "data/rows/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class AlpacaChat : public Format {
 public:
  explicit AlpacaChat(const FormatContext& context)
      : instruction_(column(context.dataset, "instruction")),
        input_(column(context.dataset, "input")),
        output_(column(context.dataset, "output")),
        system_(column(context.dataset, "system")),
        config_(context.data),
        builder_(context.tokenizer(), context.vocab_size),
        template_(context.data.chat_template, context.tokenizer_path, context.tokenizer()),
        columns_(context) {
    require_no_choice(template_, config_);
  }

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    const std::string system = text(tree, system_, false, at), input = text(tree, input_, false, at);
    const std::string instruction = text(tree, instruction_, true, at);
    ChatTurns turns;
    turns.bytes = row.size();
    turns.list = instruction_;
    if (!system.empty()) turns.messages.push_back({{"role", "system"}, {"content", system}});
    const bool plain = config_.prompt_template == PromptTemplate::none;
    const std::string bare = instruction + (input.empty() ? "" : "\n" + input);
    turns.messages.push_back(
        {{"role", "user"}, {"content", plain ? bare : alpaca_prompt(instruction, input)}});
    turns.messages.push_back({{"role", "assistant"}, {"content", text(tree, output_, true, at)}});
    turns.with = columns_.of(tree, at);
    try {
      return trained_chat(template_, config_, builder_, turns, SaidTrained(turns.messages.size()), at);
    } catch (const std::invalid_argument& wrong) {
      at.fail(str(printable(instruction_), ": ", wrong.what()));
    }
  }

 private:
  // Returns the text of a field; "" if it is absent and not `needed`.
  static std::string text(const Json& tree, const std::string& name, bool needed, const Place& at) {
    const Json* field = member(tree, name);
    if (!field && !needed) return "";
    if (!field) at.fail(str("no \"", printable(name), "\""));
    if (!field->is_string()) at.fail(str(printable(name), ": must be a string, is ", json_excerpt(*field)));
    return field->get<std::string>();
  }

  std::string instruction_, input_, output_, system_;  // the columns' names in the file
  const DataConfig& config_;
  TextSampleBuilder builder_;
  ChatTemplate template_;
  ChatColumns columns_;
};

}  // namespace

const RowFormat row_formats::kAlpacaChat{
    .name = "alpaca_chat",
    .columns = {"instruction", "input", "output", "system", "tools", "chat_template_kwargs"},
    .source_and_target = false,
    .fits = [](const RowNames&) { return false; },  // such rows are alpaca's, unless the type says otherwise
    .make = make_as<AlpacaChat>};

}  // namespace ft
