// Reads rows that hold a conversation: messages (OpenAI's and TRL's form) and conversations (ShareGPT's
// form). Messages of either list have role and content, or from and value.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/chat_inputs.h"
#include "data/chat/said_parts.h"
#include "data/chat/sharegpt_message.h"
#include "data/chat/trained_chat.h"
#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class ChatRows : public Format {
 public:
  ChatRows(const FormatContext& context, bool sharegpt)
      : list_(column(context.dataset, sharegpt ? "conversations" : "messages")),
        documents_(column(context.dataset, "documents")),
        sharegpt_(sharegpt),
        config_(context.data),
        builder_(context.tokenizer(), context.vocab_size),
        template_(context.data.chat_template, context.tokenizer_path, context.tokenizer()),
        columns_(context) {
    require_no_choice(template_, config_);
  }

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    const Json* list = member(tree, list_);
    if (!list) at.fail(str("no \"", printable(list_), "\""));
    if (!list->is_array())
      at.fail(str(printable(list_), ": must be a list of messages, is ", json_excerpt(*list)));
    ChatTurns turns;
    turns.bytes = row.size();
    turns.list = list_;
    SaidTrained said;
    // ShareGPT's rows may have the system message in a column, not in the list.
    if (const Json* system = member(tree, "system"); system && sharegpt_ && *system != "") {
      if (!system->is_string()) at.fail("system: must be a string, is " + json_excerpt(*system));
      turns.messages.push_back({{"role", "system"}, {"content", *system}});
      said.emplace_back();
    }
    for (std::size_t i = 0; i < list->size(); ++i)
      read_message((*list)[i], str(printable(list_), "[", i, "]"), turns.messages, said, at);
    if (turns.messages.empty()) at.fail(printable(list_) + ": no messages");
    turns.with = columns_.of(tree, at);
    if (const Json* documents = member(tree, documents_)) turns.with.documents = *documents;
    try {
      return trained_chat(template_, config_, builder_, turns, said, at);
    } catch (const std::invalid_argument& wrong) {
      at.fail(str(printable(list_), ": ", wrong.what()));
    }
  }

 private:
  void read_message(const Json& item, const std::string& where, std::vector<Json>& messages,
                    SaidTrained& said, const Place& at) const {
    if (!item.is_object()) at.fail(where + ": must be an object, is " + json_excerpt(item));
    const Json* role = member(item, "role");
    if (!role && (sharegpt_ || member(item, "from")))
      messages.push_back(from_sharegpt(item, where, at));
    else if (role && role->is_string())
      messages.push_back(item);  // a template sees all keys
    else
      at.fail(where + ".role: must be a string");
    said.push_back(said_trained(item, where, at));
    said_parts(item, where, at);  // refuses a "train" or "weight" of a part that is not valid
  }

  std::string list_, documents_;  // the columns' names in the file
  bool sharegpt_;
  const DataConfig& config_;
  TextSampleBuilder builder_;
  ChatTemplate template_;
  ChatColumns columns_;
};

template <bool sharegpt>
std::unique_ptr<Format> make_chat_rows(const FormatContext& context, std::span<const std::string>) {
  return std::make_unique<ChatRows>(context, sharegpt);
}

}  // namespace

const RowFormat row_formats::kMessages{.name = "messages",
                                       .columns = {"messages", "tools", "documents", "chat_template_kwargs"},
                                       .source_and_target = false,
                                       .fits = [](const RowNames& row) { return row.has("messages"); },
                                       .make = make_chat_rows<false>};
const RowFormat row_formats::kShareGpt{
    .name = "sharegpt",
    .columns = {"conversations", "tools", "documents", "chat_template_kwargs"},
    .unrenamed = "system",
    .source_and_target = false,
    .fits = [](const RowNames& row) { return row.has("conversations"); },
    .make = make_chat_rows<true>};

}  // namespace ft
