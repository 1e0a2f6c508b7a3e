#include "data/chat/rendered_chat.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/said_parts.h"
#include "data/chat/sharegpt_message.h"
#include "data/chat/trained_chat.h"
#include "engine/core/error.h"

namespace ft {

RenderedChat::RenderedChat(const DataConfig& config, const std::filesystem::path& tokenizer_path,
                           const Tokenizer& tokenizer)
    : config_(config), tokenizer_path_(tokenizer_path), tokenizer_(tokenizer) {}

const ChatTemplate& RenderedChat::chat_template() const {
  std::call_once(made_, [&] { template_.emplace(config_.chat_template, tokenizer_path_, tokenizer_); });
  return *template_;
}

ChatTurns RenderedChat::turns(const Messages& messages, const ChatInputs& with) {
  return {.messages = messages, .with = with, .bytes = json_text(Json(messages), -1).size()};
}

std::vector<ChatMessage> RenderedChat::plain(const Messages& messages, const ChatInputs& with) const {
  require_plain(with);
  auto all = plain_messages(arranged(turns(messages, with), chat_template(), config_).messages);
  if (!all) throw std::invalid_argument("ft's chat formats take messages of a role and a text");
  return std::move(*all);
}

std::string RenderedChat::text(const Messages& messages, const ChatInputs& with) const {
  const ChatFormat* format = chat_template().format();
  if (!format)
    return chat_template().writer(with).text(arranged(turns(messages, with), chat_template(), config_));
  std::string text;
  for (const ChatPart& part : render_chat(*format, plain(messages, with), tokenizer_)) text += part.text;
  return text;
}

Tokenizer::Ids RenderedChat::whole(const Messages& messages, const ChatInputs& with) const {
  return tokenizer_.encode(text(messages, with));
}

Tokenizer::Ids RenderedChat::prompt(const Messages& messages, const ChatInputs& with) const {
  if (const ChatFormat* format = chat_template().format())
    return tokenizer_.encode(render_chat_prompt(*format, plain(messages, with), tokenizer_));
  return tokenizer_.encode(
      chat_template().writer(with).prompt(arranged(turns(messages, with), chat_template(), config_)));
}

RenderedChat::Messages read_messages(const Json& given, const std::string& name, const Place& at) {
  if (!given.is_structured())
    at.fail(str(printable(name), ": must be a text or a list of messages, as the row's others are, is ",
                json_excerpt(given)));
  const Json list = given.is_object() ? Json::array({given}) : given;
  RenderedChat::Messages all;
  for (const Json& item : list) {
    const std::string where = str(printable(name), "[", all.size(), "]");
    if (item.is_object() && !item.contains("role") && item.contains("from")) {
      all.push_back(from_sharegpt(item, where, at));
      continue;
    }
    if (!item.is_object() || !item.contains("role") || !item["role"].is_string())
      at.fail(where + ": must be {\"role\": text, \"content\": text}, is " + json_excerpt(item));
    said_parts(item, where, at);  // refuses a "train" or "weight" of a part that is not valid
    all.push_back(item);
  }
  return all;
}

}  // namespace ft
