// Converts conversations to tokens: complete ones, or up to the beginning of an answer.
#pragma once
#include <mutex>
#include <optional>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

class RenderedChat {
 public:
  using Messages = std::vector<Json>;  // {"role": text, "content": text, ...}

  // Uses data.chat_template, which is read for the first conversation, because texts need none. Several
  // threads may render at once. The arguments must outlive this object.
  RenderedChat(const DataConfig&, const std::filesystem::path& tokenizer_path, const Tokenizer&);
  // All throw std::invalid_argument if the template refuses the conversation. Thoughts are kept, moved or
  // dropped as data.reasoning_content has it.
  std::string text(const Messages&, const ChatInputs& with) const;
  Tokenizer::Ids whole(const Messages&, const ChatInputs& with) const;
  Tokenizer::Ids prompt(const Messages&, const ChatInputs& with) const;
  const ChatTemplate& chat_template() const;
  static ChatTurns turns(const Messages&, const ChatInputs& with);

 private:
  std::vector<ChatMessage> plain(const Messages&, const ChatInputs& with) const;

  const DataConfig& config_;
  std::filesystem::path tokenizer_path_;
  const Tokenizer& tokenizer_;
  mutable std::once_flag made_;
  mutable std::optional<ChatTemplate> template_;
};

// Reads a list of messages, or one message, with role and content or with from and value. `name` names it in
// errors.
RenderedChat::Messages read_messages(const Json& list, const std::string& name, const Place& at);

}  // namespace ft
