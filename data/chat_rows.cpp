// Rows that hold a conversation: messages (OpenAI's and TRL's form) and conversations (ShareGPT's form).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat_inputs.h"
#include "data/chat_sample.h"
#include "data/chat_template.h"
#include "data/format.h"
#include "data/json_row.h"
#include "engine/core/error.h"

namespace ft {
namespace {

const Json* member(const Json& object, const std::string& name) {
  for (const auto& [key, value] : *object.get_ptr<const Json::object_t*>())
    if (key == name) return value.is_null() ? nullptr : &value;
  return nullptr;
}

class ChatRows : public Format {
 public:
  ChatRows(const FormatContext& context, bool sharegpt)
      : list_(column(context.dataset, sharegpt ? "conversations" : "messages")),
        documents_(column(context.dataset, "documents")),
        role_(sharegpt ? "from" : "role"),
        content_(sharegpt ? "value" : "content"),
        config_(context.data),
        builder_(context.tokenizer(), context.vocab_size),
        template_(context.data.chat_template, context.tokenizer_path, context.tokenizer()),
        columns_(context) {
    if (!template_.marks()) return;
    const char* why =
        "the chat template's {% generation %} blocks say what is trained; leave it at its default";
    if (config_.roles_to_train != DataConfig().roles_to_train)
      throw UserError(Exit::config, str("data.roles_to_train: ", why));
    if (config_.train_on_eos != DataConfig().train_on_eos)
      throw UserError(Exit::config, str("data.train_on_eos: ", why));
  }

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    const Json* list = member(tree, list_);
    if (!list) at.fail(str("no \"", printable(list_), "\""));
    if (!list->is_array())
      at.fail(str(printable(list_), ": must be a list of messages, is ", json_excerpt(*list)));
    ChatTurns turns;
    turns.bytes = row.size();
    std::vector<bool> trained;
    // ShareGPT's rows may have the system's message beside the list.
    if (const Json* system = member(tree, "system"); system && role_ == "from" && *system != "") {
      if (!system->is_string()) at.fail("system: must be a string, is " + json_excerpt(*system));
      turns.messages.push_back({{"role", "system"}, {"content", *system}});
      trained.push_back(trains("system"));
    }
    for (const Json& item : *list) read_message(item, turns.messages, trained, at);
    if (turns.messages.empty()) at.fail(printable(list_) + ": no messages");
    turns.with = columns_.of(tree, at);
    if (const Json* documents = member(tree, documents_)) turns.with.documents = *documents;
    try {
      return sample(turns, trained, at);
    } catch (const std::invalid_argument& wrong) {
      at.fail(str(printable(list_), ": ", wrong.what()));
    }
  }

 private:
  Sample sample(const ChatTurns& turns, const std::vector<bool>& trained, const Place& at) const {
    if (const ChatFormat* format = template_.format()) {
      require_plain(turns.with);
      std::vector<ChatMessage> messages;
      for (std::size_t i = 0; i < turns.messages.size(); ++i)
        messages.push_back(plain(turns.messages[i], str(printable(list_), "[", i, "]"), at));
      return make_chat_sample(render_chat(*format, messages, builder_.tokenizer()), trained, config_,
                              builder_, at);
    }
    WrittenChat chat =
        template_.writer(turns.with).write(turns, trained, config_.train_on_eos == TrainOnEos::all);
    Sample out = make_chat_sample(chat.parts, trained, config_, builder_, at);
    out.turns.lost = std::move(chat.lost);
    return out;
  }

  bool trains(const std::string& role) const {
    const auto& roles = config_.roles_to_train;
    return std::any_of(roles.begin(), roles.end(), [&](ChatRole r) { return role == name_of(r); });
  }

  void read_message(const Json& item, std::vector<Json>& messages, std::vector<bool>& trained,
                    const Place& at) const {
    const std::string where = str(printable(list_), "[", trained.size(), "]");
    if (!item.is_object()) at.fail(where + ": must be an object, is " + json_excerpt(item));
    const Json* role = member(item, role_);
    if (!role || !role->is_string()) at.fail(str(where, ".", role_, ": must be a string"));
    const std::string name = our_name(role->get<std::string>());
    if (role_ == "role" && !template_.format()) {
      messages.push_back(item);  // a template sees all that is in it
    } else {
      Json message{{"role", name}};
      if (const Json* content = member(item, content_)) message["content"] = *content;
      if (const Json* calls = member(item, "tool_calls")) message["tool_calls"] = *calls;
      messages.push_back(std::move(message));
    }
    trained.push_back(wants(item, where, at).value_or(trains(name)));
  }

  // A message as ft's own formats take it.
  ChatMessage plain(const Json& message, const std::string& where, const Place& at) const {
    if (const Json* calls = member(message, "tool_calls"); calls && !calls->empty())
      at.fail(where + ".tool_calls: ft's chat formats do not support tool calls");
    return {message.at("role").get<std::string>(), read_content(message, where, at)};
  }

  // ShareGPT's names of roles.
  static std::string our_name(const std::string& role) {
    if (role == "human") return "user";
    if (role == "gpt" || role == "model") return "assistant";
    return role;
  }

  // A text, or a list of parts of which each is a text.
  std::string read_content(const Json& item, const std::string& where, const Place& at) const {
    const Json* content = member(item, "content");
    if (!content) at.fail(str(where, ": no ", content_));
    if (content->is_string()) return content->get<std::string>();
    std::string text;
    if (!content->is_array())
      at.fail(str(where, ".", content_, ": must be a string, is ", json_excerpt(*content)));
    for (const Json& part : *content) {
      const Json* words = part.is_object() ? member(part, "text") : nullptr;
      if (!words || !words->is_string())
        at.fail(str(where, ".", content_, ": has a part that is not text: ", json_excerpt(part)));
      text += words->get<std::string>();
    }
    return text;
  }

  // What a message itself says about training: OpenAI's weight (0 or 1), or train (true or false).
  static std::optional<bool> wants(const Json& item, const std::string& where, const Place& at) {
    if (const Json* train = member(item, "train")) {
      if (!train->is_boolean()) at.fail(where + ".train: must be true or false, is " + json_excerpt(*train));
      return train->get<bool>();
    }
    if (const Json* weight = member(item, "weight")) {
      if (*weight != 0 && *weight != 1)
        at.fail(where + ".weight: must be 0 or 1, is " + json_excerpt(*weight));
      return *weight == 1;
    }
    return std::nullopt;
  }

  std::string list_, documents_, role_, content_;  // the fields' names in the file
  const DataConfig& config_;
  TextSampleBuilder builder_;
  ChatTemplate template_;
  ChatColumns columns_;
};

}  // namespace

std::unique_ptr<Format> make_chat_format(const FormatContext& context, bool sharegpt) {
  return std::make_unique<ChatRows>(context, sharegpt);
}

}  // namespace ft
