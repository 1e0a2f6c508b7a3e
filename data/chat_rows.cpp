// Rows that hold a conversation: messages (OpenAI's and TRL's form) and conversations (ShareGPT's form).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

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
        role_(sharegpt ? "from" : "role"),
        content_(sharegpt ? "value" : "content"),
        config_(context.data),
        builder_(context.tokenizer(), context.vocab_size),
        format_(choose_chat_format(context.data.chat_template, context.tokenizer_path)) {}

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    const Json* list = member(tree, list_);
    if (!list) at.fail(str("no \"", printable(list_), "\""));
    if (!list->is_array())
      at.fail(str(printable(list_), ": must be a list of messages, is ", json_excerpt(*list)));
    std::vector<ChatMessage> messages;
    std::vector<bool> trained;
    // ShareGPT's rows may have the system's message beside the list.
    if (const Json* system = member(tree, "system"); system && role_ == "from" && *system != "") {
      if (!system->is_string()) at.fail("system: must be a string, is " + json_excerpt(*system));
      messages.push_back({"system", system->get<std::string>()});
      trained.push_back(trains("system"));
    }
    for (const Json& item : *list) read_message(item, messages, trained, at);
    try {
      return make_chat_sample(render_chat(format_, messages, builder_.tokenizer()), trained, config_,
                              builder_, at);
    } catch (const std::invalid_argument& wrong) {
      at.fail(str(printable(list_), ": ", wrong.what()));
    }
  }

 private:
  bool trains(const std::string& role) const {
    const auto& roles = config_.roles_to_train;
    return std::any_of(roles.begin(), roles.end(), [&](ChatRole r) { return role == name_of(r); });
  }

  void read_message(const Json& item, std::vector<ChatMessage>& messages, std::vector<bool>& trained,
                    const Place& at) const {
    const std::string where = str(printable(list_), "[", messages.size(), "]");
    if (!item.is_object()) at.fail(where + ": must be an object, is " + json_excerpt(item));
    if (const Json* calls = member(item, "tool_calls"); calls && !calls->empty())
      at.fail(where + ".tool_calls: ft's chat formats do not support tool calls");
    const Json* role = member(item, role_);
    if (!role || !role->is_string()) at.fail(str(where, ".", role_, ": must be a string"));
    messages.push_back({our_name(role->get<std::string>()), read_content(item, where, at)});
    trained.push_back(wants(item, where, at).value_or(trains(messages.back().role)));
  }

  // ShareGPT's names of roles.
  static std::string our_name(const std::string& role) {
    if (role == "human") return "user";
    if (role == "gpt" || role == "model") return "assistant";
    return role;
  }

  // A text, or a list of parts of which each is a text.
  std::string read_content(const Json& item, const std::string& where, const Place& at) const {
    const Json* content = member(item, content_);
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

  std::string list_, role_, content_;  // the fields' names in the file
  const DataConfig& config_;
  TextSampleBuilder builder_;
  ChatFormat format_;
};

}  // namespace

std::unique_ptr<Format> make_chat_format(const FormatContext& context, bool sharegpt) {
  return std::make_unique<ChatRows>(context, sharegpt);
}

}  // namespace ft
