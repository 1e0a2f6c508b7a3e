#include "data/preference/rendered_chat.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/core/error.h"

namespace ft {

RenderedChat::RenderedChat(const DataConfig& config, const std::filesystem::path& tokenizer_path,
                           const Tokenizer& tokenizer)
    : template_(config.chat_template, tokenizer_path, tokenizer), tokenizer_(tokenizer) {}

ChatTurns RenderedChat::turns(const Messages& messages, const Json& tools) {
  return {
      .messages = messages, .tools = tools, .documents = {}, .bytes = json_text(Json(messages), -1).size()};
}

std::vector<ChatMessage> RenderedChat::plain(const Messages& messages, const Json& tools) {
  if (!tools.is_null())
    throw std::invalid_argument("tools: ft's chat formats have none; the model's own template may");
  auto all = plain_messages(messages);
  if (!all) throw std::invalid_argument("ft's chat formats take messages of a role and a text");
  return std::move(*all);
}

Tokenizer::Ids RenderedChat::whole(const Messages& messages, const Json& tools) const {
  std::string text;
  if (const ChatFormat* format = template_.format())
    for (const ChatPart& part : render_chat(*format, plain(messages, tools), tokenizer_)) text += part.text;
  else
    for (const ChatPart& part : template_.writer(!tools.is_null())
                                    .write(turns(messages, tools), std::vector<bool>(messages.size()), false)
                                    .parts)
      text += part.text;
  return tokenizer_.encode(text);
}

Tokenizer::Ids RenderedChat::prompt(const Messages& messages, const Json& tools) const {
  if (const ChatFormat* format = template_.format())
    return tokenizer_.encode(render_chat_prompt(*format, plain(messages, tools), tokenizer_));
  return tokenizer_.encode(template_.writer(!tools.is_null()).prompt(turns(messages, tools)));
}

RenderedChat::Messages read_messages(const Json& list, const std::string& name, const Place& at) {
  if (!list.is_array())
    at.fail(str(printable(name), ": must be a text or a list of messages, as the row's others are, is ",
                json_excerpt(list)));
  RenderedChat::Messages all;
  for (const Json& item : list) {
    if (!item.is_object() || !item.contains("role") || !item["role"].is_string())
      at.fail(str(printable(name), "[", all.size(), "]: must be {\"role\": text, \"content\": text}, is ",
                  json_excerpt(item)));
    all.push_back(item);
  }
  return all;
}

}  // namespace ft
