#include "data/chat/chat_reader.h"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/chat_inputs.h"

namespace ft {

ChatReader::ChatReader(const DataConfig& config, const std::filesystem::path& tokenizer_path,
                       const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      template_(config.chat_template, tokenizer_path, tokenizer),
      kwargs_(usual_template_kwargs(config)) {}

std::vector<std::int32_t> ChatReader::prompt(ChatTurns turns) const {
  turns.with.kwargs = template_kwargs(kwargs_, turns.with.kwargs);
  if (!template_.format()) return tokenizer_.encode(template_.writer(turns.with).prompt(turns));
  require_plain(turns.with);
  const auto messages = plain_messages(turns.messages);
  if (!messages) throw std::invalid_argument("this chat format has messages of a role and a text only");
  return tokenizer_.encode(render_chat_prompt(*template_.format(), *messages, tokenizer_));
}

std::string ChatReader::end() const {
  if (!template_.format()) return template_.writer({}).end_of_answer();
  const std::array<ChatMessage, 2> turns{ChatMessage{"user", "a"}, ChatMessage{"assistant", "b"}};
  std::string closing;
  for (const ChatPart& part : render_chat(*template_.format(), turns, tokenizer_))
    if (part.kind == ChatPart::Kind::end) closing = part.text;
  closing.erase(0, closing.find_first_not_of(" \n"));
  return closing;
}

void AnswerEnds::add(const std::string& end, const Tokenizer& tokenizer) {
  if (const auto token = tokenizer.id(end); token && tokenizer.is_special(*token))
    tokens.push_back(*token);
  else if (!end.empty())
    texts.push_back(end);
}

void say(ChatTurns& turns, const std::string& role, const std::string& content) {
  turns.messages.push_back({{"role", role}, {"content", content}});
  turns.bytes += content.size();
}

}  // namespace ft
